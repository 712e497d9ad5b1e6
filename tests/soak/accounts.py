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
        # How many are still to come of each record from the first one on; in order, only the place counts.
        self._first = 0
        self._left = np.zeros(0, np.int64)
        if not self.ordered and len(self.pipeline.expected):
            found = numbers(self.pipeline.expected - self.pipeline.added)
            self._first = int(found.min())
            self._left = np.bincount(found - self._first)

    def _count(self, contents: Array) -> Array:
        found = numbers(contents - self.pipeline.added) - self._first
        for one in (found.argmin(), found.argmax()):
            if not 0 <= found[one] < len(self._left):
                raise Wrong(f"{contents[one]} is in no record")
        return np.bincount(found, minlength=len(self._left))

    def take(self, batch: Any) -> None:
        """Enter a batch. It is compared at once if its order counts, or else at the next mark."""
        records = np.array(batch, np.int64)
        if self.ordered:
            due = self.pipeline.expected[self.delivered : self.delivered + len(records)]
            if not np.array_equal(records, due):
                wrong = np.flatnonzero(records[: len(due)] != due)
                at = int(wrong[0]) if len(wrong) else len(due)
                raise Wrong(
                    f"record {self.delivered + at} is {records[at]}, not {due[at] if at < len(due) else 'the end'}"
                )
        else:
            self._since.append(records)
        self.delivered += len(records)

    def _settle(self) -> None:
        if self._since:
            self._left -= self._count(np.concatenate(self._since))
            self._since = []
            twice = int(self._left.argmin())
            if self._left[twice] < 0:
                raise Wrong(f"record {self._first + twice} came {-self._left[twice]} times too often")

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
        with (folder / "new").open("wb") as file:
            np.savez(file, told=json.dumps({"marked": self.marked, "state": self.state}), left=self._left)
        os.replace(folder / "new", folder / "account")

    def load(self, folder: pathlib.Path) -> None:
        """Go on from a written account, if there is one."""
        if (folder / "account").exists():
            with np.load(folder / "account") as kept:
                told = json.loads(str(kept["told"]))
                self._left = kept["left"]
            self.marked, self.state = told["marked"], told["state"]
            self.back()
