from typing import final

from typing_extensions import disjoint_base

@disjoint_base
class ShuffleCounter:
    next_iteration: int

@final
class Mark:
    @property
    def pass_(self) -> int: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def good(self) -> int: ...
    @property
    def whole(self) -> int: ...
    @property
    def file(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def lanes(self) -> list[int]: ...
    @staticmethod
    def of(numbers: object) -> Mark | None: ...
    def numbers(self) -> list[int]: ...

@final
class Saved:
    elements: int
    files_known: int
    files_digest: int
    iterations: list[int]
    begun: list[int]
    missing: list[list[int]]
    lengths: list[list[int]]
    handed: list[list[int]]
    seams: list[list[int]]
    told: list[list[int]]
    ended: list[list[int]]
    breaks: list[list[int]]
    mark: Mark | None
    version: int

@final
class Goal: ...
