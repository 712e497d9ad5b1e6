from typing import final

@final
class LeftOut: ...
