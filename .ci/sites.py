"""Find in Cython's C++ where native code calls Python and where it returns to it, and put hooks there.

`setup.py` calls `rewrite` when QUEUECORE_RAISE is on. `check_reached.py` looks for sites that no test comes to.

A site is a call of Python's C API whose failure Cython checks for. A hook before it fails in its place; the state is
that in which the call itself raises, which Cython's own code cleans up. Where the call can run Python code, a second
hook behind it drops the result and fails: so does a signal's handler when the call has had its effect. The wrappers
through which Python calls a function have a hook at their return. None is at a call of our own functions: they have
sites of their own.

A site's name has its module, its function, what is called, and its number among such calls of the function. "raised"
is in it where the call makes an exception that Cython raises behind it: the function fails either way.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "tests/native/raise/sites.hpp"

FUNCTION = re.compile(r"^(?!.*;\s*(?:/\*.*)?$)[^\s/#}].*?\b__pyx_(pf|pw|f|gb)_(\w+)\(")
PLACE = re.compile(r'^\s*/\* "([^"]+)":\d+')
API = r"(?:__Pyx_\w+|_?Py[A-Z]\w+|__pyx_tp_new_\w+|__pyx_t_\d+)"
CALL = re.compile(rf"(?<!\w)({API})\(")
ASSIGNED = re.compile(rf"(?<![\w.>*])(\w+) = ((?:\((?:[\w ]+\*|\()*\)*)?\(*{API}\()")
TESTED = re.compile(rf"^(\s*(?:\}} else )?)if \((?=.*?\b{API}\(.*\)+ (?:__PYX_ERR|goto|\{{))")
RETURNED = re.compile(r"^(\s*__pyx_r = )(__pyx_pf_\w+\(.*\));$")

# Why a call whose failure is checked for is no site.
NO_SITE = {
    "it can't fail": re.compile(
        r"_SET_ITEM$|_GET_ITEM|_GET_SIZE$|_GET_LENGTH$|_SIZE$|^Py\w+_(?:Check|CheckExact)$|_IS_\w+$|^__pyx_t_|KIND_04|"
        r"^__Pyx_GetItemInt_(?:List|Tuple)$|^__Pyx_PyBytes_As"
    ),
    "it only looks at a type": re.compile(r"TypeTest$|^__Pyx_ArgTypeTest$|^__Pyx_Raise|Check$|^__Pyx_CheckUnpickle"),
    "it finds a name of the module": re.compile(r"^__Pyx_(?:GetModuleGlobalName|GetBuiltinName|ImportFrom)$"),
    "it handles an exception": re.compile(
        r"^PyErr_(?!CheckSignals|Warn)|^__Pyx_(?:GetException|PyErr_|Err|Exception|IterFinish)"
    ),
    "it drops an argument of its own": re.compile(r"^__Pyx_ListComp_AppendAndDecref$|^__Pyx_IternextUnpackEndCheck$"),
    "it gives the function that iterates": re.compile(r"GetIterNextFunc$"),
    "it gives neither an object nor a number": re.compile(r"MemoryviewSlice"),
}
# What can run Python code, so that a signal's handler can raise when it has done its work.
RUNS_PYTHON = re.compile(
    r"Call|CheckSignals|GetAttr|SetAttr|Iter_?Next|GetIter|LookupSpecial|Repr|Str$|Unicode$|Format|IsTrue|Compare|"
    r"(?:Get|Set|Del)Item|Dict_Pop|Import|^next$|WarnEx|^PyNumber|PyIndex"
)
# These are called by C code that goes on at once: no interpreter is there to raise when they return.
NO_RETURN = {"__cinit__", "__dealloc__", "__getbuffer__", "__releasebuffer__"}
# What Cython adds: pickling, and its own type of views.
NOT_OURS = re.compile(r"__(?:reduce|setstate)_cython__|__pyx_unpickle_|^View_dot_MemoryView")


def readable(name: str, module: str) -> str:
    """Return a function's name as in the .pyx, with its class, of the mangled one."""
    rest = name.removeprefix("".join(f"{len(part)}{part}_" for part in f"queuecore._core.{module}".split(".")))
    parts = []
    rest = rest.removeprefix("_") if rest == name else rest
    while found := re.match(r"(\d+)(?=\D)", rest):
        length, behind = int(found[1]), rest[found.end() :]
        if len(behind) <= length or behind[length] != "_" or behind.startswith("__"):
            rest = behind
            break
        parts.append(behind[:length])
        rest = behind[length + 1 :]
    return ".".join([*parts, rest])


def functions(lines: list[str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the kind, the mangled name, the first line and the line behind the last of each function of a .pyx."""
    at = 0
    while at < len(lines):
        function = FUNCTION.match(lines[at]) if lines[at][:1] not in " \n#/}" else None
        if function is None:
            at += 1
            continue
        first = at
        while not lines[at].startswith("{") and not lines[at].rstrip().endswith(("{", ";")):
            at += 1
        if lines[at].rstrip().endswith(";"):
            at += 1
            continue
        while not lines[at].startswith("}"):
            at += 1
        yield function[1], function[2], first, at


def closing(line: str, at: int) -> int:
    """Return the place behind the parenthesis that closes the one at `at`; strings and characters are passed over."""
    depth = 0
    for found in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]').finditer(line, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
    return -1


def failed(lines: list[str], at: int, behind: int, name: str) -> str:
    """Return the value of a variable that means failure by the check that follows a call, or an empty string."""
    pointer = re.compile(rf"unlikely\(\(?\(?!{name}\b|unlikely\(\(?{name} == \(+(?:void|PyObject) ?\*\)+ ?NULL")
    number = re.compile(rf"unlikely\(\(?{name} == \(*([\w ]+)\)-1")
    negative = re.compile(rf"unlikely\(\(?{name} < 0")
    for text in [lines[at][behind:], *lines[at + 1 : at + 12]]:
        if pointer.search(text):
            return "0"
        if found := number.search(text):
            return f"({found[1]})-1"
        if negative.search(text):
            return "-1"
        if re.search(rf"\b{name} = (?!0;)", text):
            return ""
    return ""


def is_raised(lines: list[str], at: int, name: str) -> bool:
    """Return whether what a call gives is an exception that is raised behind it."""
    return any(text.lstrip().startswith(f"__Pyx_Raise({name}, ") for text in lines[at + 1 : at + 12])


def reason(call: str) -> str:
    """Return why a call is no site, or an empty string."""
    return next((why for why, names in NO_SITE.items() if names.search(call)), "")


class Module:
    """The sites of one module, and its text with a hook at each."""

    def __init__(self, module: str, text: str) -> None:
        self.module = module
        self.lines = text.splitlines()
        self.sites: dict[str, Counter[str]] = {}
        for kind, mangled, first, behind in functions(self.lines):
            name = readable(mangled, module)
            if not NOT_OURS.search(name):
                self._function(kind, name, first, behind)

    def _function(self, kind: str, name: str, first: int, behind: int) -> None:
        ours, unpacked = True, {}
        for at in range(first, behind):
            line = self.lines[at]
            if match := PLACE.match(line):
                ours = match[1].startswith("queuecore/")
            elif re.match(r"\s*(?:\*|/\*|#)", line) or not ours:
                continue
            elif kind == "pw":
                self._returned(name, at)
            elif "PyIter_Next : " in line and (match := re.search(r"(__pyx_t_\d+) = \(CYTHON_COMP", line)):
                unpacked[match[1]] = "next"
            elif ASSIGNED.search(line):
                self._assigned(name, at, unpacked)
            elif TESTED.match(line):
                self._tested(name, at)

    def _hook(self, function: str, call: str) -> str:
        """Return the name of a new site, as a C string."""
        call = call.removeprefix("__Pyx_")
        self.sites.setdefault(function, Counter())[call] += 1
        return f'"{self.module} {function} {call} {self.sites[function][call]}"'

    def _returned(self, function: str, at: int) -> None:
        found = RETURNED.match(self.lines[at])
        if found and function.rpartition(".")[2] not in NO_RETURN:
            self.lines[at] = f"{found[1]}qc_after({self._hook(function, 'return')}, {found[2]});"

    def _assigned(self, function: str, at: int, unpacked: dict[str, str]) -> None:
        line = self.lines[at]
        for assignment in reversed(list(ASSIGNED.finditer(line))):
            call = CALL.search(line, assignment.start(2))
            name = unpacked.get(call[1], call[1])
            if name.startswith("__pyx_tp_new_"):
                name = "new"
            end = line.find(";", closing(line, call.end() - 1))
            value = failed(self.lines, at, end, assignment[1])
            if reason(name) or not value or end < 0:
                continue
            if is_raised(self.lines, at, assignment[1]):
                name = f"{name} raised"
            expression = line[assignment.start(2) : end]
            if RUNS_PYTHON.search(name):
                expression = f"qc_after({self._hook(function, f'{name} after')}, {expression})"
            hook = f"qc_before({self._hook(function, name)}) ? {value} : {expression}"
            line = f"{line[: assignment.start(2)]}{hook}{line[end:]}"
        self.lines[at] = line

    def _tested(self, function: str, at: int) -> None:
        head = TESTED.match(self.lines[at])
        call = next((one[1] for one in CALL.finditer(self.lines[at]) if not reason(one[1])), "")
        opened = self.lines[at].index("(", len(head[1]))
        end = closing(self.lines[at], opened)
        if not call or end < 0 or reason(CALL.search(self.lines[at])[1]):
            return
        condition = self.lines[at][opened:end]
        if RUNS_PYTHON.search(call):
            condition = f"({condition} || qc_before({self._hook(function, f'{call} after')}))"
        hook = f"(qc_before({self._hook(function, call)}) || {condition})"
        self.lines[at] = f"{self.lines[at][:opened]}{hook}{self.lines[at][end:]}"


def rewrite(source: Path, into: Path, module: str) -> Path:
    """Write a module's C++ with its hooks into a folder, unless it is there, and return its path."""
    rewritten = into / f"{module}.cpp"
    lines = Module(module, source.read_text(encoding="utf-8")).lines
    # Behind Python.h, which Cython includes before it looks at the version.
    at = next(number for number, line in enumerate(lines) if line.startswith('#include "Python.h"')) + 1
    text = "\n".join([*lines[:at], f'#include "{HEADER}"', *lines[at:], ""])
    if not rewritten.exists() or rewritten.read_text(encoding="utf-8") != text:
        rewritten.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=into, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).replace(rewritten)
    return rewritten
