"""Search the generated C++ of native-thread code for the GIL: check_native.py [--built LOG].

Translates every module afresh, fails on each of Cython's performance hints and warnings about files under src/, and on
each function of ours that takes the GIL by itself. With --built, it reads what lies in build/cython, and what that
build printed, and does not translate.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Modules, and a folder, whose work is to raise, or to be called by tests or by other libraries: they may take the GIL.
EXEMPT = {"arrow", "errors", "testing"}

# Cython's names for cdef functions and methods. Wrappers of Python functions (pw, pf) are entered with the GIL, and
# what they release is taken back by PyEval_RestoreThread; a `with gil` in them is for Python threads by nature.
OURS = re.compile(r"^(?:static|extern|__PYX_EXTERN_C)?[^=;#]*?\b(__pyx_f_\w+)\(.*\{\s*(?:/\*.*)?$")
# An Ensure that is called, or an "unraisable" that is told to take the GIL first (its last argument is 1).
TAKES_GIL = re.compile(r"PyGILState_Ensure\s*\(|__Pyx_WriteUnraisable\(.*,\s*1\s*\)\s*;")
PLACE = re.compile(r'^\s*/\* "([^"]+)":(\d+)')
HINT = re.compile(r"^(?:performance hint|warning): .*", re.MULTILINE)


def gil_calls(text: str) -> list[tuple[str, str, str]]:
    """Return (function, place in the .pyx, line) for each call that takes the GIL in a cdef function of ours."""
    calls = []
    function = place = ""
    for line in text.splitlines():
        if not function:
            match = OURS.match(line)
            if match:
                function, place = match[1], ""
        elif line.startswith("}"):
            function = ""
        elif match := PLACE.match(line):
            place = f"{match[1]}:{match[2]}"
        elif TAKES_GIL.search(line):
            calls.append((function, place, line.strip()))
    return calls


def translate(into: str) -> str:
    """Translate everything anew into a folder, and return what Cython printed."""
    code = (
        "import runpy; build = runpy.run_path('setup.py', run_name='setup');"
        f"build['cythonize_all'](build['extensions'](), {len(os.sched_getaffinity(0))}, force=True, build_dir={into!r})"
    )
    environment = {**os.environ, "QUEUECORE_TESTING": "0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout + done.stderr


def check(folder: Path) -> list[str]:
    """Return one sentence for each GIL call in native-thread code among the C++ of a folder."""
    wrong = []
    sources = sorted(one for one in folder.rglob("*.cpp") if not EXEMPT & {one.stem, one.parent.name})
    if not sources:
        wrong.append(f"no generated C++ under {folder}")
    for source in sources:
        for function, place, line in gil_calls(source.read_text(encoding="utf-8")):
            wrong.append(f"{place or source.name}: {function} takes the GIL: {line}")
    return wrong


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    with tempfile.TemporaryDirectory() as fresh:
        if sys.argv[1:2] == ["--built"]:
            folder, printed = ROOT / "build/cython", Path(sys.argv[2]).read_text(encoding="utf-8")
        else:
            folder, printed = Path(fresh), translate(fresh)
        wrong = [line for line in HINT.findall(printed) if "src/queuecore" in line]
        wrong += check(folder / "src/queuecore/_core")
    print(*wrong, sep="\n") if wrong else print("native code: no GIL, no hint")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
