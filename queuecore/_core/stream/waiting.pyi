from typing import final

@final
class Stall:
    def __init__(self, warn_s: float, timeout_s: float) -> None: ...
