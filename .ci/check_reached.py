"""Search for places where native code calls Python, or returns to it, and no test lets it fail: check_reached.py.

Builds what tests/faults/test_raise_everywhere.py runs on, runs each of its scenarios once, and compares the sites
(sites.py) that they come to with those that are compiled. A site that none comes to has to be in
tests/faults/unreached.txt, with the reason.
"""

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/faults/unreached.txt"

# So many sites at least are reached; fewer mean that sites.py no longer knows Cython's calls.
LEAST_REACHED = 900

# python -P doesn't look for modules here.
sys.path.insert(0, str(ROOT / "tests"))
from helpers.faults import raise_tree  # noqa: E402


class Excuse(NamedTuple):
    """Sites that need not be reached: all calls of functions, or so many of one."""

    line: str
    functions: str
    call: str
    most: float

    def covers(self, function: str, call: str) -> bool:
        """Whether it speaks of a call of a function."""
        return fnmatchcase(function, self.functions) and fnmatchcase(call, self.call)


def excuses(text: str) -> Iterator[Excuse]:
    """Yield what a list says."""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        functions, _, calls = line.partition(": ")
        for one in calls.split(", ") if calls else ["*"]:
            call, _, number = one.partition(" x")
            yield Excuse(line, functions, call, math.inf if "*" in functions + call else int(number or 1))


def counted(sites: Iterable[str]) -> dict[str, Counter[str]]:
    """Return of each function how many sites it has, by what is called; the two hooks of a call are one."""
    found: dict[str, Counter[str]] = {}
    for site in {one.replace(" after ", " ") for one in sites}:
        module, function, call = site.rpartition(" ")[0].split(" ", 2)
        found.setdefault(f"{module} {function}", Counter())[call] += 1
    return found


def written(call: str, number: int) -> str:
    """Return so many sites as the list has them."""
    return f"{call} x{number}" if number > 1 else call


def lacking(rules: list[Excuse], left: dict[str, Counter[str]]) -> Iterator[str]:
    """Yield a sentence for each function with sites that nothing reaches or excuses."""
    for function, calls in sorted(left.items()):
        most = {call: max((one.most for one in rules if one.covers(function, call)), default=0) for call in calls}
        more = [written(call, number) for call, number in sorted(calls.items()) if number > most[call]]
        if more:
            yield f"no scenario comes to: {function}: {', '.join(more)}"


def check(sites: set[str], reached: set[str], text: str) -> tuple[list[str], list[str]]:
    """Compare all sites with those that are reached and with a list. Returns what is wrong, and what is needless."""
    every, left, rules = counted(sites), counted(sites - reached), list(excuses(text))
    wrong, needless = list(lacking(rules, left)), []
    for rule in rules:
        about = [(function, call) for function in every for call in every[function] if rule.covers(function, call)]
        least = 1 if rule.most == math.inf else rule.most
        if not any(every[function][call] >= least for function, call in about):
            wrong.append(f"gone is: {rule.functions}: {written(rule.call, int(least))}")
        elif not set(":*") & set(rule.line) and all(left.get(function, {}) != every[function] for function, _ in about):
            needless.append(f"a scenario comes by now to: {rule.line}")
    return wrong, needless


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    raise_tree.build()
    with tempfile.TemporaryDirectory() as folder:
        library = raise_tree.compile_library(Path(folder))
        reached = set(raise_tree.run(library, Path(folder), "reached"))
    sites = raise_tree.compiled_sites()
    wrong, needless = check(sites, reached, LIST.read_text(encoding="utf-8"))
    if len(reached) < LEAST_REACHED:
        wrong.append(f"only {len(reached)} sites are reached, not {LEAST_REACHED}: does sites.py find the calls?")
    print(*needless, sep="\n", end="\n" if needless else "")
    if wrong:
        print(*wrong, f"Let a scenario come there, or say in {LIST.relative_to(ROOT)} why none does.", sep="\n")
    else:
        print(f"sites: a scenario raises at {len(reached)} of {len(sites)}, the others have a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
