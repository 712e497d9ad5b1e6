from typing import final

@final
class ToDevice: ...
