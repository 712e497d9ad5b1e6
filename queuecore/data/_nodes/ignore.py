"""The elements of a chain without those that can't be made."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from queuecore._io.bad_data import Quarantine
from queuecore.data._nodes.node import Node
from queuecore.data._nodes.run import NodeRun
from queuecore.data._plan.made import Layout
from queuecore.data._plan.steps import Count, Unknown
from queuecore.data._rows.chunks import Failed, One, Piece
from queuecore.errors import QueueCoreError

__all__ = ["Ignore"]

_log = logging.getLogger("queuecore")


class _Ignored(Quarantine):
    """Leaves out every bad element, and reports it if the user wishes."""

    def __init__(self, log_warning: bool) -> None:
        super().__init__()
        self.tells = True
        self._tell = log_warning

    def skip(self, error: QueueCoreError, *, file: bool = False, nbytes: int | None = None) -> None:
        super().skip(error, file=file, nbytes=nbytes)
        if self._tell:
            with contextlib.suppress(Exception):  # a handler of the log's that fails is no reason to end
                _log.warning("left out: %s", error)


@dataclass(frozen=True, eq=False)
class Ignore(Node):
    """The elements of a dataset that can be made."""

    name = "ignore_errors"

    log_warning: bool

    def count(self, min_count: int | None) -> Count:
        raise Unknown

    @property
    def uses_up(self) -> bool:
        return True

    def check_sizes(self) -> None:
        """Do nothing: a bad file of the input is left out in its place."""

    def layout(self) -> Layout:
        return self.inputs[0].layout

    def spec(self) -> Any:
        return self.inputs[0].element_spec

    def chunks(self, run: NodeRun, pass_: int, start: int) -> Generator[Piece]:
        # From the first element on: which are left out shows only when they are made.
        skips = _Ignored(self.log_warning)
        objects = self.layout().components is None
        made = run.elements(0, pass_, 0, skips, True) if objects else run.rows(0, pass_, 0, skips, True)
        with contextlib.closing(made) as elements, run.counting(skips):
            for element in elements:
                if isinstance(element, Failed):
                    try:
                        if not isinstance(element.error, QueueCoreError):
                            yield element
                        else:
                            skips.skip(element.error)
                    except QueueCoreError:  # no fault of the data
                        yield element
                    continue
                piece = One(element) if objects else element
                if start < piece.n:
                    yield piece.part(start, piece.n)
                start = max(start - piece.n, 0)
