from typing import final

@final
class Views: ...
