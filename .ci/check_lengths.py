"""Search the sources for what is too long to be read at once: check_lengths.py [FILE ...].

Counted are lines of code; comments, docstrings and empty lines are free. A file that is over such a limit says why in
a comment among its first lines: "over the limit: ...". No line of Cython, of whatever kind, has too many columns.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MOST = {"file": 900, "class": 600, "function": 80}
# Columns of a line of Cython; ruff looks at Python.
MOST_COLUMNS = 120
# Of constructors and functions that only we call. Public ones have what users need.
MOST_PARAMETERS = 8
PUBLIC = {
    "CsvDataset", "DataLoader", "DenseHashTable", "FixedLengthRecordDataset", "FixedLengthRecordReader", "Operation",
    "QueueBase", "RecordInput", "SequenceQueueingStateSaver", "TensorArray", "Variable",
}  # fmt: skip
HEAD = 60
EXCUSE = "over the limit:"

DEFINITION = re.compile(r"^(\s*)(cdef class|class|cdef|cpdef|async def|def)\s+(.*)")
QUOTES = re.compile(r'[rb]?("""|\'\'\')')


def is_code(lines: list[str]) -> list[bool]:
    """Return of each line whether it is code."""
    code, inside = [], ""
    for line in lines:
        text = line.strip()
        if inside:
            code.append(False)
            inside = "" if inside in text else inside
            continue
        opened = QUOTES.match(text)
        if opened is not None and text.count(opened[1]) == 1:
            inside = opened[1]
        code.append(bool(text) and not text.startswith(("#", '"""', 'r"""', "'''")))
    return code


def blocks(lines: list[str], code: list[bool]) -> Iterator[tuple[str, int, int, str]]:
    """Yield each class and function: what it is, its first line, the line behind it, and its head."""
    for first, line in enumerate(lines):
        definition = DEFINITION.match(line) if code[first] else None
        if definition is None or (definition[2] in ("cdef", "cpdef") and "(" not in definition[3].split("=")[0]):
            continue
        behind = first + 1
        while behind < len(lines) and not lines[behind - 1].split("#")[0].rstrip().endswith(":"):
            behind += 1
        head = " ".join(lines[first:behind])
        depth = len(definition[1])
        while behind < len(lines) and (not lines[behind].strip() or _depth(lines[behind]) > depth):
            behind += 1
        yield ("class" if "class" in definition[2] else "function"), first, behind, head


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def parameters(head: str) -> int:
    """Return how many parameters a function has, besides the object that it is a method of."""
    inner = head[head.index("(") + 1 : head.rindex(")")]
    while (less := re.sub(r"[\[(][^\[\]()]*[\])]", "", inner)) != inner:
        inner = less
    given = [one.strip() for one in inner.split(",")]
    return len([one for one in given if one not in ("", "*", "/", "self", "cls")])


def check(path: Path) -> list[str]:
    """Return what is too long in a file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    findings, owner = [], ""
    for number, line in enumerate(lines if path.suffix != ".py" else [], 1):
        if len(line) > MOST_COLUMNS:
            findings.append(f"{name}:{number}: a line of {len(line)} columns, at most {MOST_COLUMNS}")
    if any(EXCUSE in line for line in lines[:HEAD]):
        return findings
    code = is_code(lines)
    inner = path.suffix != ".py" or any(part.startswith("_") for part in name.parts)
    if sum(code) > MOST["file"]:
        findings.append(f"{name}: {sum(code)} lines of code, at most {MOST['file']}")
    for kind, first, behind, head in blocks(lines, code):
        length = sum(code[first:behind])
        if kind == "class":
            owner = re.search(r"class (\w+)", head)[1]
        if length > MOST[kind]:
            findings.append(f"{name}:{first + 1}: a {kind} of {length} lines of code, at most {MOST[kind]}")
        ours = inner and owner not in PUBLIC and re.search(r"\bdef __c?init__\(", head)
        if ours and parameters(head) > MOST_PARAMETERS:
            findings.append(f"{name}:{first + 1}: a constructor of {parameters(head)}, at most {MOST_PARAMETERS}")
        native = path.suffix == ".pyx" and kind == "function" and "testing" not in path.parts
        ours = (native and "__" not in head) or (path.suffix == ".py" and re.search(r"\bdef _(?!_)\w+\(", head))
        if ours and parameters(head) > MOST_PARAMETERS:
            findings.append(f"{name}:{first + 1}: a function of {parameters(head)}, at most {MOST_PARAMETERS}")
    return findings


def main() -> int:
    """Print what is too long, and return 1 if anything is."""
    named = [Path(name).resolve() for name in sys.argv[1:]]
    files = named or [
        *sorted((ROOT / "queuecore").rglob("*.py")),
        *sorted((ROOT / "src").rglob("*.p[yx][xd]")),
        *sorted((ROOT / "benchmarks/native").rglob("*.p[yx][xd]")),
    ]
    wrong = {str(path.relative_to(ROOT)): check(path) for path in files}
    findings = [finding for some in wrong.values() for finding in some]
    print(*findings, sep="\n") if findings else print("no file, class, function or constructor is too long")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
