"""Search the native sources for calls that go round the table of system calls: check_calls.py [FILE ...].

Native code takes memory, opens and reads files, starts threads, reads the clock and waits through the table of
queuecore/syscalls.hpp, where tests can let each call fail. So no other file names the functions of the system: none is
declared or cimported for Cython, and none is called in C++. What only tests use is free to.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The table itself, and what only tests use.
EXEMPT = {"syscalls.hpp", "uring.hpp", "schedule.hpp"}
EXEMPT_FOLDER = "testing"
# These have a namesake in the table's namespace, which Cython gets from memory.pxd.
ALLOCATOR = "malloc|calloc|realloc|free|strdup"
SYSTEM = (
    "aligned_alloc|memalign|posix_memalign|pvalloc|reallocarray|strndup|valloc|brk|sbrk|"
    "madvise|mbind|mlock2?|mmap|mprotect|mremap|munlock|munmap|"
    "close|creat|dup[23]?|eventfd|fallocate|fdatasync|fopen|fread|fstat|fstatat|fsync|ftruncate|fwrite|lseek|lstat|memfd_create|"
    "open|openat|pipe2?|poll|posix_fadvise|ppoll|pread|preadv2?|pwrite|pwritev2?|read|readv|rename|select|stat|statx|unlink|"
    "write|writev|epoll_\\w+|io_uring_\\w+|"
    "pthread_cond_\\w+|pthread_create|pthread_mutex_\\w+|sched_getaffinity|sem_\\w+|thrd_create|"
    "clock|clock_gettime|clock_nanosleep|gettimeofday|nanosleep|sleep|time|timerfd_\\w+|usleep|"
    "dlclose|dlmopen|dlopen|fork|syscall"
)
PYTHON = r"PyMem_(?:Raw)?\w+|PyObject_(?:Malloc|Calloc|Realloc|Free)"
COMMENT = {".pyx": "#", ".pxd": "#", ".hpp": "//", ".cpp": "//"}

NAMES = re.compile(rf"\b(?:{ALLOCATOR}|{SYSTEM}|{PYTHON})\b")
CIMPORT = re.compile(r"^\s*from (?:libc|posix|libcpp|cpython)\b[\w.]* cimport\b(?:\s*\([^)]*\)|.*)", re.MULTILINE)
# A block of declarations, and in it what is C++ word for word.
EXTERN = re.compile(r"^( *)cdef extern from [^\n]*:\n((?:\1 +[^\n]*\n|\s*\n)*)", re.MULTILINE)
VERBATIM = re.compile(r'"""(.*?)"""', re.DOTALL)
# A call in C++: not of a member, nor of a function of a namespace other than the library's.
CALL = re.compile(
    rf"(?<![\w.:>])(?P<global>(?:std)?::)?(?P<name>{ALLOCATOR}|{SYSTEM}|{PYTHON})\s*\(|"
    r"\bstd::(?:async|chrono|deque|list|make_shared|make_unique|map|set|string|this_thread|thread|unordered_\w+|vector)\b|"
    r"\bnew\b(?!;)"
)


def blank(text: str) -> str:
    """Return as many lines without a character in them."""
    return re.sub(r"[^\n]", " ", text)


def bare(text: str, comment: str) -> str:
    """Return a source without its comments, and as long."""
    return re.sub(rf"{comment}[^\n]*", lambda found: blank(found[0]), text)


def in_cpp(text: str, begin: int, own_allocator: bool) -> list[int]:
    """Return where C++ calls the system; `own_allocator`: a bare name is the table's own."""
    return [
        begin + one.start()
        for one in CALL.finditer(text)
        if not (own_allocator and not one["global"] and one["name"] in ALLOCATOR.split("|"))
    ]


def in_cython(text: str) -> list[int]:
    """Return where Cython declares or cimports what calls the system."""
    places = [cimport.start() + at.start() for cimport in CIMPORT.finditer(text) for at in NAMES.finditer(cimport[0])]
    for block in EXTERN.finditer(text):
        begin, declared = block.start(2), block[2]
        if '"queuecore/' in block[0].split("\n")[0]:
            continue  # of a header of ours, which is searched itself
        for part in VERBATIM.finditer(declared):
            places += in_cpp(part[1], begin + part.start(1), False)
        declared = VERBATIM.sub(lambda part: blank(part[0]), declared)
        places += [begin + call.start() for call in re.finditer(rf"(?<![\w.])(?:{NAMES.pattern})\s*\(", declared)]
    return places


def check(text: str, suffix: str) -> list[tuple[int, str]]:
    """Return the number and the text of each line of a source that goes round the table."""
    code = bare(text, COMMENT[suffix])
    if suffix in (".pyx", ".pxd"):
        # Comments of C++ within Cython.
        code = re.sub(r"(?<![:\w])//[^\n]*", lambda found: blank(found[0]), code) if '"""' in code else code
        places = in_cython(code)
    else:
        places = in_cpp(code, 0, '#include "queuecore/syscalls.hpp"' in text)
    lines = text.split("\n")
    numbers = sorted({code.count("\n", 0, place) for place in places})
    return [(number + 1, lines[number].strip()) for number in numbers]


def main() -> int:
    """Print what goes round the table, and return 1 if anything does."""
    named = [Path(name) for name in sys.argv[1:]]
    files = named or [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in COMMENT]
    wrong = [
        f"{path}:{number}: a call that tests can't let fail; use the table of queuecore/syscalls.hpp: {line}"
        for path in files
        if path.parent.name != EXEMPT_FOLDER and path.name not in EXEMPT
        for number, line in check(path.read_text(encoding="utf-8"), path.suffix)
    ]
    print(*wrong, sep="\n") if wrong else print("native code: every call of the system goes through the table")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
