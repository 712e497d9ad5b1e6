from typing import Self, final

def open_driver(path: str | None = ..., pci: str = ...) -> None: ...
def device(ordinal: int) -> Device: ...

@final
class Device:
    ordinal: int
    name: str
    driver_version: int
    numa_node: int | None
    def __new__(cls, ordinal: int) -> Self: ...
