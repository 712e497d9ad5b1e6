"""An exception at the n-th place where native code calls Python or returns to it, for every n: what tries a scenario.

It runs in a process of its own, on a tree that was built with QUEUECORE_RAISE:

    python -P -m helpers.faults.raising LIBRARY FOLDER SCENARIO main|others
    python -P -m helpers.faults.raising LIBRARY FOLDER reached

A scenario (helpers.faults.raise_scenarios) is a function of a `Trial`. It gives it each call in which an exception may
come; in the scenario's own code there is none. It raises AssertionError where the accounts don't balance. The last line
printed is what came of it, as JSON; with `reached`, the sites that all scenarios come to, without an exception.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.faults.raise_tree import MAIN, OTHERS, QUEUES


class Mine(Exception):
    """What neither the interpreter nor queuecore raises."""


KINDS = (KeyboardInterrupt, MemoryError, Mine)
# Ctrl-C comes to the main thread alone.
OF_OTHERS = (Mine, MemoryError)

# What is made once is made in this many runs.
WARM_UP = 3


class Cut(Exception):
    """A call of a trial has raised the exception, or one that has it as its cause."""


def is_behind(error: BaseException | None, cause: BaseException) -> bool:
    """Whether an exception is this one, or has it among its causes."""
    ids: set[int] = set()
    errors_left = [error]
    while errors_left:
        chained = errors_left.pop()
        if chained is None or id(chained) in ids:
            continue
        if chained is cause:
            return True
        ids.add(id(chained))
        errors_left += [chained.__cause__, chained.__context__, *getattr(chained, "exceptions", ())]
    return False


def forget(error: BaseException) -> None:
    """Drop the tracebacks of an exception and of its causes: what their frames refer to would seem to be in use.

    The frames aren't cleared: one may be a generator's that another thread goes on with.
    """
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            left += [one.__cause__, one.__context__]


class Trial:
    """One run of a scenario, with the exception at the n-th site."""

    def __init__(self, library: ctypes.PyDLL, n: int, others: bool) -> None:
        self.library = library
        self.others = others
        kinds = OF_OTHERS if others else KINDS
        self.error = kinds[n % len(kinds)](f"at site {n}")
        self.came_out = False
        self.ignored = False
        library.arm(n, self.error, others)
        library.count(others)

    def __call__(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Make a call; Cut if the exception comes out of it. Others are the scenario's, also what tells of it again."""
        self.library.count(True)
        try:
            return call(*arguments, **named)
        except BaseException as error:
            self.library.count(self.others)
            if self.came_out or not is_behind(error, self.error):
                raise
            self.came_out = True
            forget(error)
            raise Cut from error
        finally:
            self.library.count(self.others)

    def again(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Make a call that has no effect when it is cut; and once more, if it is."""
        try:
            return self(call, *arguments, **named)
        except Cut:
            return self(call, *arguments, **named)

    @property
    def site(self) -> str:
        """The site that raised, or an empty string."""
        return (self.library.where() or b"").decode()

    @property
    def at_return(self) -> bool:
        """Whether it came as Python got a result back, which then nobody has."""
        return " return " in self.site

    def end(self) -> None:
        """Forget it."""
        self.library.disarm()
        self.error.__traceback__ = None


def tasks() -> int:
    """How many threads there are, Python's and native ones."""
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    """How many files are open."""
    return len(os.listdir("/proc/self/fd"))


def comes(condition: Callable[[], bool], within: float) -> bool:
    """Whether it comes true within so many seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Left:
    """What a run leaves behind."""

    def __init__(self) -> None:
        self.tasks, self.descriptors = tasks(), descriptors()

    def is_nothing(self) -> bool:
        """Whether threads and files are as they were."""

        def gone() -> bool:
            return tasks() <= self.tasks and descriptors() <= self.descriptors

        if comes(gone, 0.2):
            return True
        gc.collect()
        return comes(gone, 5)


def tried(
    library: ctypes.PyDLL, scenario: Callable[[Trial], None], n: int, others: bool, before: Left
) -> dict[str, str]:
    """Run a scenario. Returns the site that raised, if one did, what came of that, and what is wrong."""
    trial = Trial(library, n, others)
    ignored: list[BaseException | None] = []
    sys.unraisablehook = lambda unraisable: ignored.append(unraisable.exc_value)
    wrong = ""
    try:
        scenario(trial)
    except BaseException:
        wrong = traceback.format_exc()
    trial.library.count(False)
    site = trial.site
    trial.ignored = any(is_behind(error, trial.error) for error in ignored)
    outcome = "came out" if trial.came_out else "ignored" if trial.ignored else "swallowed"
    trial.end()
    ignored.clear()
    kind = type(trial.error).__name__
    del trial
    if not wrong and not before.is_nothing():
        wrong = f"{tasks() - before.tasks} threads and {descriptors() - before.descriptors} files are left"
    return {"n": str(n), "site": site, "kind": kind, "came": outcome, "wrong": wrong}


def sweep(library: ctypes.PyDLL, scenario: Callable[[Trial], None], others: bool, note: Path) -> dict[str, Any]:
    """Run a scenario for every n, until no site is the n-th any more."""
    before = Left()
    for _ in range(WARM_UP):
        outcome = tried(library, scenario, 0, others, before)
        assert not outcome["wrong"], outcome["wrong"]
        gc.collect()
        gc.freeze()
    before = Left()
    outcomes: Counter[str] = Counter()
    quiet: dict[str, set[str]] = {"ignored": set(), "swallowed": set()}
    fired: set[str] = set()
    wrong = []
    first, last = (int(bound) for bound in os.environ.get("QUEUECORE_RAISE_N", "1-1000000").split("-"))
    for n in range(first, last + 1):
        note.write_text(str(n))
        outcome = tried(library, scenario, n, others, before)
        if n % 16 == 0:
            gc.collect()
        if outcome["wrong"]:
            wrong.append(outcome)
            before = Left()
        if not outcome["site"]:
            break
        outcomes[outcome["came"]] += 1
        fired.add(outcome["site"])
        if outcome["came"] in quiet:
            quiet[outcome["came"]].add(outcome["site"])
        if len(wrong) >= int(os.environ.get("QUEUECORE_RAISE_WRONG", "8")):
            break
    return {
        "sites": n - 1,
        "came": outcomes,
        **{how: sorted(of) for how, of in quiet.items()},
        "fired": sorted(fired),
        "wrong": wrong,
    }


def load(path: str) -> ctypes.PyDLL:
    """Load the library, so that the sites find it. Before queuecore is imported."""
    library = ctypes.PyDLL(path, mode=ctypes.RTLD_GLOBAL)
    library.arm.argtypes = [ctypes.c_long, ctypes.py_object, ctypes.c_int]
    library.arm.restype = library.count.restype = library.disarm.restype = library.watch.restype = None
    library.count.argtypes = [ctypes.c_int]
    library.where.restype = ctypes.c_char_p
    return library


def reached(library: ctypes.PyDLL, scenario: Callable[[Trial], None], others: bool) -> set[str]:
    """Return the sites that a scenario comes to, once what is made once is made; a few times, since threads differ."""
    sites: set[bytes] = set()

    @ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    def see(site: bytes) -> None:
        sites.add(site)

    for round_ in range(WARM_UP + 5):
        if round_ == WARM_UP:
            library.watch(see)
        trial = Trial(library, 0, others)
        scenario(trial)
        library.count(False)
        trial.end()
    library.watch(None)
    return {site.decode() for site in sites}


def main(path: str, folder: str, name: str, part: str = "") -> None:
    """Try one scenario, or find what all come to."""
    library = load(path)
    from helpers.faults.raise_scenarios import SCENARIOS

    place = Path(folder)
    if name == "reached":
        sites: set[str] = set()
        for one in (*MAIN, *QUEUES):
            sites |= reached(library, SCENARIOS[one](place), others=False)
        for one in OTHERS:
            sites |= reached(library, SCENARIOS[one](place), others=True)
        print(json.dumps(sorted(sites)))
    else:
        print(json.dumps(sweep(library, SCENARIOS[name](place), part == "others", place / "last")))


if __name__ == "__main__":
    from helpers.faults import raising  # the module that scenarios import, too

    raising.main(*sys.argv[1:])
