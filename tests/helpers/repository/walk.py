"""The way of a call through the files of the package: how many there are, and how often it leads back to one.

``python -m helpers.repository.walk``, in ``tests``, shows that of ``tf.train.batch``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import queuecore

_PACKAGE = Path(queuecore.__file__).resolve().parent


class Walk(NamedTuple):
    """The way of a call, as one reads who follows it for the first time.

    Its steps are the functions of the package, written in Python, that the call runs: methods and properties too, each
    where it is called first and then no more, since whoever has read a function needn't read it again. What is written
    inside a function (comprehensions, lambdas, functions) is part of that one. Compiled modules are no files to read.

    Attributes
    ----------
    steps : list of (str, str)
        File and function.
    """

    steps: list[tuple[str, str]]

    @property
    def stretches(self) -> list[str]:
        """The files, one for each stretch of steps that lie in the same one."""
        return [file for file, _ in itertools.groupby(file for file, _ in self.steps)]

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(set(self.stretches))

    @property
    def returns(self) -> int:
        """How many stretches lie in a file that was left before."""
        return len(self.stretches) - self.files


def walk(call: Callable[[], Any]) -> Walk:
    """Run a call, and return its way."""
    steps: dict[tuple[str, str], None] = {}

    def see(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "<locals>" not in frame.f_code.co_qualname:
            file = Path(frame.f_code.co_filename)
            if file.is_relative_to(_PACKAGE):
                steps.setdefault((str(file.relative_to(_PACKAGE)), frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Walk(list(steps))


def walk_of_batch() -> Walk:
    """Return the way of ``tf.train.batch``, given a tensor that was there before."""
    import queuecore.tf1 as tf

    with tf.Graph().as_default():
        given = [tf.FIFOQueue(10, [tf.float32], [[3]]).dequeue()]
        return walk(lambda: tf.train.batch(given, 4))


if __name__ == "__main__":
    found = walk_of_batch()
    for file, functions in itertools.groupby(found.steps, lambda step: step[0]):
        print(f"{file}: {', '.join(name for _, name in functions)}")
    print(f"{found.files} files, {found.returns} returns")
