"""Search the native sources for allocations whose size is a product that may wrap: check_sizes.py [FILE ...].

A size that follows from what a user or a file says goes through `size_product` and `size_sum` (queuecore/sizes.hpp),
which no overflow gets past. So an argument of an allocation holds no ``*`` but between constants. What only tests use
sizes its memory itself.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

EXEMPT = "testing"
ALLOCATES = re.compile(
    r"\b(malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|mmap|mremap|alloc_lines|map_pages|buffer_take|"
    r"PyMem_(?:Raw)?(?:Malloc|Calloc|Realloc)|PyObject_(?:Malloc|Calloc|Realloc))\s*\("
)
# Numbers, names of constants, sizes of types, and what is made of these.
CONSTANT = re.compile(r"\bsizeof\([^()]*\)|\b[A-Z][A-Z0-9_]*\b|\bk[A-Z]\w*\b|\b\d+ [*+/-] \d+\b|(?<!\w)\(\d+\)")
# A few times a number of things that are in memory already, where the rest of the product is checked.
FEW = re.compile(r"\b[1-9] \* (?=[\w.(])")
CHECKED = re.compile(r"\bsize_(?:product|sum)\b")
CAST = re.compile(r"<[^<>]*>|\([\w:]+ ?\*+\)")
# Of a function that is declared, and not called.
PARAMETER = re.compile(r"^\s*void\* p$")
COMMENT = {".pyx": "#", ".pxd": "#", ".hpp": "//", ".cpp": "//"}


def arguments(text: str, start: int) -> list[str]:
    """Return the arguments of a call, whose first one begins at `start`."""
    parts, depth, begin = [], 1, start
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        if depth == 0 or (depth == 1 and text[at] == ","):
            parts.append(text[begin:at])
            begin = at + 1
            if depth == 0:
                return parts
    return parts


def may_wrap(argument: str, checked: bool = False) -> bool:
    """Return whether an argument is a product, or holds one, that isn't made by `size_product`, or by `calloc`."""
    bare = PARAMETER.sub("", CAST.sub("", argument))
    if checked or CHECKED.search(bare):
        bare = FEW.sub("", bare)
    while (less := CONSTANT.sub("1", bare)) != bare:
        bare = less
    return "*" in bare or "<<" in bare


def check(text: str, comment: str) -> list[tuple[int, str]]:
    """Return the number and the text of each line of a source that allocates what may wrap."""
    lines = [line.split(comment, 1)[0] for line in text.split("\n")]
    bare = "\n".join(lines)
    found = []
    for call in ALLOCATES.finditer(bare):
        if any(may_wrap(one, call[1].lower().endswith("calloc")) for one in arguments(bare, call.end())):
            number = bare.count("\n", 0, call.start())
            found.append((number + 1, lines[number].strip()))
    return found


def main() -> int:
    """Print what may wrap, and return 1 if anything does."""
    named = [Path(name) for name in sys.argv[1:]]
    files = named or [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in COMMENT]
    wrong = [
        f"{path}:{number}: a size that may wrap; use size_product and size_sum: {line}"
        for path in files
        if path.parent.name != EXEMPT
        for number, line in check(path.read_text(encoding="utf-8"), COMMENT[path.suffix])
    ]
    print(*wrong, sep="\n") if wrong else print("native code: no size of an allocation may wrap")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
