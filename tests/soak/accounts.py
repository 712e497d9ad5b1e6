"""What was delivered of a pipeline, compared record by record with what must be."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
from pipelines import Array, Pipeline, numbers


class Wrong(Exception):
    """A record was lost, came twice, in a wrong place or with wrong bytes."""


class Accounts:
    """The account of one pipeline.

    What comes after the last mark is forgotten where the stream goes back to the state that was saved with it.

    Parameters
    ----------
    pipeline : Pipeline
    ordered : bool, optional
        Whether the order counts as well; by default as the pipeline says.
    """

    def __init__(self, pipeline: Pipeline, ordered: bool | None = None) -> None:
        self.pipeline = pipeline
        self.ordered = pipeline.ordered if ordered is None else ordered
        self.begin_again()

    def begin_again(self) -> None:
        """Forget all that was delivered."""
        self.delivered = 0  # since the beginning
        self.marked = 0  # of these, before the mark
        self.state: dict[str, Any] | None = None
        self._since: list[Array] = []
        # How many of each record are still to come; in order, only the place counts.
        self._left = np.zeros(0, np.int64) if self.ordered else self._count(self.pipeline.expected)

    def _count(self, contents: Array, length: int = 0) -> Array:
        found = numbers(contents - self.pipeline.added)
        if length and found.size and found.max() >= length:
            raise Wrong(f"{contents[found.argmax()]} is in no record")
        return np.bincount(found, minlength=length)

    def take(self, batch: Any) -> None:
        """Enter a batch. It is compared at once if its order counts, or else at the next mark."""
        got = np.array(batch, np.int64)
        if self.ordered:
            due = self.pipeline.expected[self.delivered : self.delivered + len(got)]
            if not np.array_equal(got, due):
                wrong = np.flatnonzero(got[: len(due)] != due)
                at = int(wrong[0]) if len(wrong) else len(due)
                raise Wrong(f"record {self.delivered + at} is {got[at]}, not {due[at] if at < len(due) else 'the end'}")
        else:
            self._since.append(got)
        self.delivered += len(got)

    def _settle(self) -> None:
        if self._since:
            self._left -= self._count(np.concatenate(self._since), len(self._left))
            self._since = []
            if self._left.min() < 0:
                twice = int(self._left.argmin())
                raise Wrong(f"record {twice} came {-self._left[twice]} times too often")

    def mark(self, state: dict[str, Any]) -> None:
        """Note the state that was saved behind the last batch."""
        self._settle()
        self.marked, self.state = self.delivered, state

    def back(self) -> None:
        """Go back to the mark."""
        self.delivered, self._since = self.marked, []

    def finish(self, whole: bool = True) -> int:
        """Close the account after the end, or after an error that may come anywhere; return the number of records."""
        self._settle()
        if whole:
            missing = len(self.pipeline.expected) - self.delivered
            if missing != self.pipeline.missing:
                raise Wrong(f"{missing} records of {len(self.pipeline.expected)} were lost")
        return self.delivered

    def save(self, folder: pathlib.Path) -> None:
        """Write the account at the mark, such that a process that is killed leaves a whole one."""
        text = json.dumps({"marked": self.marked, "state": self.state, "left": self._left.tolist()})
        (folder / "account.new").write_text(text)
        os.replace(folder / "account.new", folder / "account")

    def load(self, folder: pathlib.Path) -> None:
        """Go on from a written account, if there is one."""
        if (folder / "account").exists():
            kept = json.loads((folder / "account").read_text())
            self.marked, self.state, self._left = kept["marked"], kept["state"], np.array(kept["left"], np.int64)
            self.back()
