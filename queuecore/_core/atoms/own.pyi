from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

COUNTS: bool
ragged: SimpleNamespace

def register_rows(rows: type, sparse: type, strings: Callable[..., Any]) -> None: ...
def own(value: Any, *, fixed: bool = False) -> Any: ...
def own_result(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    returnables: Any = None,
    listed: bool = False,
) -> Any: ...
def own_next(iterator: Iterator[Any]) -> tuple[Any] | None: ...
