"""The page docs/failures.md, made of tests/faults/matrix.toml; run as a program, this writes it."""

from __future__ import annotations

import ast
import functools
import inspect
import tomllib
from pathlib import Path
from typing import Any

from queuecore import errors

ROOT = Path(__file__).resolve().parents[3]
MATRIX = ROOT / "tests/faults/matrix.toml"
PAGE = ROOT / "docs/failures.md"

OPENING = """\
# When things go wrong

What queuecore does when files, data, programs or the machine fail. [Datasets](guide.md#errors-and-bad-data) says how
errors reach a loop, and how bad records are left out. This page is made of `tests/faults/matrix.toml`, which names the
tests of each row. A row says **Open** where something is not done, or where no test asserts it, and **Needs** where it
waits for something else.

## What queuecore promises

These are to hold after every fault below; each row's tests assert those that the row is about. The longest run of
`make soak` played 1.02 thousand million records through random pipelines under random faults, with nothing lost,
nothing twice and nothing wrong: [its report](../benchmarks/results/f50f6e5.soak.2026-11-23.json).
"""

CLASSES = """\
## The classes of errors

All are in `queuecore.errors` and carry `stage`, `path`, `offset` and `record`, each `None` where it is not known. The
third column has the built-in exceptions by which a program can catch them as well.

| class | is a | also a | for |
|---|---|---|---|
"""


def read(text: str) -> dict[str, Any]:
    """Return the table: its groups, its promises and its rows."""
    return tomllib.loads(text)


def page(table: dict[str, Any]) -> str:
    """Return the whole page."""
    promises = "".join(f"- **{one['name']}.** {_said(one, 'text')}\n" for one in table["promise"])
    classes = "".join(_class(getattr(errors, name)) for name in errors.__all__)
    groups = "".join(_group(letter, title, table["row"]) for letter, title in table["groups"].items())
    return f"{OPENING}\n{promises}\n{CLASSES}{classes}{groups}"


def mistakes(table: dict[str, Any]) -> list[str]:
    """Return what is wrong: with numbers and groups; tests that there are not; rows of which nothing is said."""
    rows = table["row"]
    numbers = [row["number"] for row in rows]
    problems = []
    if numbers != list(range(1, len(rows) + 1)):
        problems.append(f"the numbers are not 1 to {len(rows)}, each once and in order: {numbers}")
    for row in rows:
        where = f"row {row['number']}"
        if row["group"] not in table["groups"]:
            problems.append(f"{where}: there is no group {row['group']}")
        if not (row.get("tests") or row.get("open") or row.get("needs")):
            problems.append(f"{where}: it has no tests, and says neither what is open nor what it needs")
        problems += [f"{where}: there is no test {name}" for name in row.get("tests", []) if not is_test(name)]
    for promise in table["promise"]:
        problems += [
            f"{promise['name']}: there is no test {name}" for name in promise.get("tests", []) if not is_test(name)
        ]
    return problems


def is_test(name: str) -> bool:
    """Return whether there is a test of this name, FILE::FUNCTION."""
    file, _, function = name.partition("::")
    return function.startswith("test_") and (ROOT / file).is_file() and function in _functions(ROOT / file)


@functools.cache
def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _class(cls: type[Exception]) -> str:
    known = {getattr(errors, name) for name in errors.__all__}
    above = [base for base in cls.__mro__[1:] if base in known]
    builtin = [
        base for base in cls.__mro__ if base.__module__ == "builtins" and base not in (Exception, BaseException, object)
    ]
    also = [base for base in builtin if not any(other is not base and issubclass(other, base) for other in builtin)]
    said = (inspect.getdoc(cls) or "").splitlines()[0]
    parent = f"`{above[0].__name__}`" if above else ""
    return f"| `{cls.__name__}` | {parent} | {', '.join(f'`{base.__name__}`' for base in also)} | {_cell(said)} |\n"


def _group(letter: str, title: str, rows: list[dict[str, Any]]) -> str:
    lines = "".join(_row(row) for row in rows if row["group"] == letter)
    return f"\n## {letter}. {title}\n\n| # | fault | what happens |\n|---|---|---|\n{lines}"


def _row(row: dict[str, Any]) -> str:
    return f"| {row['number']} | {_cell(row['fault'])} | {_cell(_said(row, 'outcome'))} |\n"


def _said(entry: dict[str, Any], what: str) -> str:
    rest = [f"**{word.capitalize()}:** {entry[word].rstrip('.')}." for word in ("open", "needs") if word in entry]
    return " ".join([entry[what], *rest])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    table = read(MATRIX.read_text(encoding="utf-8"))
    if found := mistakes(table):
        raise SystemExit("\n".join(found))
    PAGE.write_text(page(table), encoding="utf-8")
