"""Traps of building: flags that only fit this machine, stale objects, GIL calls nobody wrote, other systems.

What needs an sdist or a wheel is checked where these are built, by `make dist`.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import queuecore

ROOT = Path(__file__).resolve().parents[3]

in_source_tree = pytest.mark.skipif(
    Path(queuecore.__file__).resolve().parent != ROOT / "queuecore", reason="the package under test is not built here"
)


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without switches that change a build or an import."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))} | more


def build_settings(monkeypatch: pytest.MonkeyPatch, **environment: str) -> dict:
    """Return the names that setup.py defines under some switches."""
    for key in [key for key in os.environ if key.startswith("QUEUECORE_")]:
        monkeypatch.delenv(key)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(ROOT)
    return runpy.run_path(str(ROOT / "setup.py"), run_name="setup")


# ---- flags -----------------------------------------------------------------------------------------------------------


def test_release_flags_fit_every_machine(monkeypatch):
    settings = build_settings(monkeypatch)
    flags = settings["compile_flags"]() + settings["link_flags"]()
    assert not [flag for flag in flags if flag.startswith(("-march", "-mtune", "-mcpu", "-mavx")) or "fast" in flag]
    assert {"-std=c++17", "-O3", "-fvisibility=hidden", "-g0"} <= set(flags)


@pytest.mark.parametrize("wanted", ["thread", "address", "undefined", "address,undefined"])
def test_sanitizer_flags_keep_debug_information(monkeypatch, wanted):
    settings = build_settings(monkeypatch, QUEUECORE_SANITIZE=wanted)
    flags = settings["compile_flags"]()
    assert f"-fsanitize={wanted}" in flags
    assert f"-fsanitize={wanted}" in settings["link_flags"]()
    assert "-g0" not in flags and "-O3" not in flags


def test_unknown_sanitizer_is_refused(monkeypatch):
    settings = build_settings(monkeypatch, QUEUECORE_SANITIZE="memory")
    with pytest.raises(SystemExit):
        settings["compile_flags"]()


def test_debug_build_has_assertions(monkeypatch):
    flags = build_settings(monkeypatch, QUEUECORE_DEBUG="1")["compile_flags"]()
    assert {"-O0", "-UNDEBUG"} <= set(flags)


# ---- what is built ---------------------------------------------------------------------------------------------------


def test_what_was_built_of_modules_that_are_gone_goes(monkeypatch, tmp_path):
    drop_orphans = build_settings(monkeypatch)["drop_orphans"]
    monkeypatch.chdir(tmp_path)
    built = {
        name: tmp_path / name
        for name in (
            "build/cython/src/queuecore/_core/io/gone.cpp",
            "build/cython/src/queuecore/_core/io/kept.cpp",
            "tree/io/gone.cpython-311-x86_64-linux-gnu.so",
            "tree/io/kept.cpython-311-x86_64-linux-gnu.so",
        )
    }
    for path in (*built.values(), tmp_path / "src/queuecore/_core/io/kept.pyx"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    drop_orphans(None, Path("tree"))
    assert [name for name, path in built.items() if path.exists()] == [name for name in built if "kept" in name]


def test_testing_hooks_are_left_out_unless_asked_for(monkeypatch):
    names = {one.name for one in build_settings(monkeypatch)["extensions"]()}
    with_hooks = {one.name for one in build_settings(monkeypatch, QUEUECORE_TESTING="1")["extensions"]()}
    assert not [name for name in names if "test" in name]
    assert {name.rpartition(".")[0] for name in with_hooks - names} == {"queuecore._core.testing"}


def test_some_modules_can_be_built_alone(monkeypatch):
    some = build_settings(monkeypatch, QUEUECORE_ONLY="io.csv, atoms.errors")["extensions"]()
    assert [one.name for one in some] == ["queuecore._core.atoms.errors", "queuecore._core.io.csv"]


def test_a_module_that_is_not_there_cannot_be_built_alone(monkeypatch):
    settings = build_settings(monkeypatch, QUEUECORE_ONLY="io.csv, cs")
    with pytest.raises(SystemExit, match="called cs$"):
        settings["extensions"]()


def test_the_fuzzers_build_counts_what_is_reached(monkeypatch):
    settings = build_settings(monkeypatch, QUEUECORE_SANITIZE="address,fuzzer,undefined", CXX="clang++")
    # libFuzzer itself, with its main(), is no part of a module.
    assert "-fsanitize=address,fuzzer-no-link,undefined" in settings["compile_flags"]()
    assert settings["link_flags"]()[-1] == "-fsanitize=address,fuzzer-no-link,undefined"


def test_only_modules_that_cimport_numpy_see_its_headers(monkeypatch):
    extensions = build_settings(monkeypatch)["extensions"]()
    with_numpy = {one.name for one in extensions if any("numpy" in folder for folder in one.include_dirs)}
    names = (
        "atoms.own",
        "device.staged",
        "handoff.slots",
        "steps.example",
        "steps.stages",
        "stream.arrow",
        "stream.feed",
        "stream.fold",
        "stream.views",
    )
    assert with_numpy <= {f"queuecore._core.{name}" for name in names}


def test_every_package_is_named():
    with open(ROOT / "pyproject.toml", "rb") as file:
        named = tomllib.load(file)["tool"]["setuptools"]["packages"]
    there = {".".join(one.relative_to(ROOT).parent.parts) for one in (ROOT / "queuecore").rglob("__init__.py")}
    assert set(named) == there - {"queuecore._core.testing"}


def test_tests_do_not_put_the_source_tree_on_the_path():
    assert not (ROOT / "conftest.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))


# ---- what is rebuilt -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    """Return a project with our setup.py and one tiny module, whose header includes another."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    files = {
        "pyproject.toml": '[project]\nname = "small"\nversion = "1"\n[tool.setuptools]\npackages = []\n',
        "src/queuecore/__init__.pxd": "",
        "src/queuecore/_core/__init__.pxd": "",
        "src/queuecore/include/queuecore/outer.hpp": '#include "queuecore/inner.hpp"\n',
        "src/queuecore/include/queuecore/inner.hpp": "static const int number = 1;\n",
        "src/queuecore/_core/used.pxd": (
            'cdef extern from "queuecore/outer.hpp" nogil:\n    const int number\n'
            "cdef inline int twice() noexcept nogil:\n    return 2 * number\n"
        ),
        "src/queuecore/_core/atoms.pyx": (
            "from queuecore._core.below.more cimport more\ndef get():\n    return more() - 1\n"
        ),
        "src/queuecore/_core/below/__init__.pxd": "",
        "src/queuecore/_core/below/more.pxd": "cdef int more() noexcept nogil\n",
        "src/queuecore/_core/below/more.pyx": (
            "from queuecore._core.used cimport twice\ncdef int more() noexcept nogil:\n    return twice() + 1\n"
            "def get():\n    return more()\n"
        ),
        "queuecore/_core/__init__.py": "",
        "queuecore/_core/below/__init__.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def built_number(project: Path, **environment: str) -> tuple[int, int]:
    """Build in place; return what the module says, and its file's time."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=project,
        env=clean_environment(CFLAGS="-O0", **environment),
        check=True,
        capture_output=True,
        timeout=100,
    )
    code = "from queuecore._core import atoms; print(atoms.get())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=clean_environment(), check=True, capture_output=True, timeout=50
    )
    (compiled,) = (project / "build/inplace/queuecore/_core").glob("atoms.*.so")
    return int(done.stdout), compiled.stat().st_mtime_ns


def edit(path: Path, old: str, new: str, seconds: int) -> None:
    """Replace text, and date the file `seconds` from now, so that no clock's resolution hides the change."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    stamp = path.stat().st_mtime + seconds
    os.utime(path, (stamp, stamp))


@pytest.mark.thorough
@pytest.mark.watchdog(300)
def test_a_change_anywhere_below_a_module_rebuilds_it(small_project):
    pytest.importorskip("Cython", reason="building needs Cython")
    number, first = built_number(small_project)
    assert number == 2
    # Cython sees outer.hpp, which the .pxd names, but not inner.hpp.
    edit(small_project / "src/queuecore/include/queuecore/inner.hpp", "= 1", "= 5", 2)
    number, second = built_number(small_project)
    assert number == 10 and second != first
    edit(small_project / "src/queuecore/_core/used.pxd", "2 *", "3 *", 4)
    assert built_number(small_project)[0] == 15
    # Flags are no file, so distutils does not see them change.
    before = built_number(small_project)[1]
    assert built_number(small_project, QUEUECORE_DEBUG="1")[1] != before


@pytest.mark.thorough
@pytest.mark.watchdog(300)
def test_nothing_is_left_of_a_module_that_moves_to_a_folder(small_project):
    pytest.importorskip("Cython", reason="building needs Cython")
    core = small_project / "src/queuecore/_core"
    assert built_number(small_project)[0] == 2
    below = [small_project / folder for folder in ("queuecore/_core/below", "build/cython/src/queuecore/_core/below")]
    assert [len(list(folder.glob("more.*.so")) + list(folder.glob("more.cpp"))) for folder in below] == [1, 1]
    for suffix in ("pxd", "pyx"):
        (core / f"below/more.{suffix}").rename(core / f"more.{suffix}")
    edit(core / "atoms.pyx", "below.more", "more", 2)
    assert built_number(small_project)[0] == 2
    assert not [one for folder in below for one in folder.glob("more.*")]


# ---- the GIL ---------------------------------------------------------------------------------------------------------

HIDDEN_GIL = """
cdef int careless() nogil except? -1:
    return 1

cdef void unsafe() nogil:
    careless()

cdef void explicit() noexcept nogil:
    with gil:
        print(1)

cdef void swallowed() noexcept nogil:
    careless()

cdef int clean(int x) noexcept nogil:
    return x % 7
"""


def check_native() -> dict:
    """Return the names that the checker of generated C++ defines."""
    return runpy.run_path(str(ROOT / ".ci/check_native.py"))


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="the checker is not part of an sdist")
def test_checker_finds_a_planted_gil_call(tmp_path):
    pytest.importorskip("Cython", reason="translating needs Cython")
    (tmp_path / "planted.pyx").write_text(HIDDEN_GIL)
    command = [sys.executable, "-m", "cython", "--cplus", "-3", "-X", "cdivision=True", "planted.pyx"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    checker = check_native()
    assert checker["HINT"].findall(done.stdout + done.stderr)
    found = {name for name, _, _ in checker["gil_calls"]((tmp_path / "planted.cpp").read_text())}
    assert {name.rpartition("_")[2] for name in found} == {"unsafe", "explicit", "swallowed"}


@in_source_tree
def test_native_code_takes_no_gil():
    assert check_native()["check"](ROOT / "build/cython/src/queuecore/_core") == []


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="the checker is not part of an sdist")
@pytest.mark.parametrize(
    ("line", "wraps"),
    [
        ("p = malloc(n * 8)", True),
        ("p = malloc(n * sizeof(int64_t))", True),
        ("p = malloc(sizeof(Run) + n * sizeof(int64_t))", True),
        ("p = <Run*>malloc((n + 1) * sizeof(Run))", True),
        ("p = realloc(q, 2 * n)", True),
        ("p = calloc(rows * columns, 4)", True),
        ("p = calloc(n, columns * sizeof(Run))", True),
        ("p = alloc_lines(a * b)", True),
        ("p = map_pages(1 << n)", True),
        ("p = mmap(NULL, n * PAGE, 0, 0, -1, 0)", True),
        ("p = malloc(size_product(a * b, sizeof(Run)))", True),
        ("posix_memalign(&p, kLine, size * count)", True),
        ("p = malloc(n)", False),
        ("p = <Run**>malloc(size_product(n, sizeof(Run*)))", False),
        ("p = malloc(size_product(2 * n + 2, sizeof(Run)))", False),
        ("p = malloc(size_sum(sizeof(Run), size_product(n, sizeof(int64_t))))", False),
        ("p = calloc(2 * len(columns) + 1, sizeof(Column) + MAX_DIMS * sizeof(int64_t))", False),
        ("p = calloc(n, (1 + MAX_DIMS) * sizeof(int64_t))", False),
        ("p = malloc(3 * sizeof(EventCount))", False),
        ("p = malloc(n)  # not n * 8", False),
        ("q = n * 8", False),
    ],
)
def test_checker_finds_sizes_that_wrap(line, wraps):
    check = runpy.run_path(str(ROOT / ".ci/check_sizes.py"))["check"]
    assert check(f"a = 1\n    {line}\n", "#") == ([(2, line)] if wraps else [])
    head, _, _ = line.partition("(")
    assert check(f"    {head}(\n        {line[len(head) + 1 :]}\n", "#") == ([(1, f"{head}(")] if wraps else [])


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="the checker is not part of an sdist")
@pytest.mark.parametrize(
    ("suffix", "line", "wrong"),
    [
        (".pyx", "from libc.stdlib cimport qsort, free", True),
        (".pyx", "from posix.unistd cimport close", True),
        (".pyx", "from cpython.mem cimport PyMem_Malloc", True),
        (".pxd", 'cdef extern from "time.h" nogil: int nanosleep(const timespec*, timespec*)', True),
        (".pxd", 'cdef extern from *: """ inline int f(int fd) { return ::close(fd); } """', True),
        (".pxd", 'cdef extern from *: """ inline void* f() { return malloc(8); } """', True),
        (".hpp", "void* p = std::malloc(n);", True),
        (".hpp", "syscall(SYS_futex, word);", True),
        (".hpp", "auto* p = new Part;", True),
        (".hpp", "std::vector<int> all;", True),
        (".pyx", "from libc.stdlib cimport qsort", False),
        (".pyx", "from queuecore._core.atoms.memory cimport free, malloc", False),
        (".pyx", "syscalls().close(fd)", False),
        (".pyx", "def close(self): pass", False),
        (".hpp", "syscalls()->close(fd);", False),
        (".hpp", "int x = 0;  // as std::malloc(8)", False),
    ],
)
def test_checker_finds_calls_that_go_round_the_table(suffix, line, wrong):
    check = runpy.run_path(str(ROOT / ".ci/check_calls.py"))["check"]
    head, _, rest = line.partition(": ")
    if head.startswith("cdef extern"):
        assert check(f"a = 1\n{head}:\n    {rest}\n", suffix) == [(3, rest)]
    else:
        assert check(f"a = 1\n{line}\n", suffix) == ([(2, line)] if wrong else [])


# ---- other systems, wrong copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_told_that_linux_is_needed(platform):
    code = f"import runpy, sys; sys.platform = {platform!r}; runpy.run_path('setup.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, "build_ext"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode != 0
    assert "Linux" in done.stderr and platform in done.stderr
    assert "Traceback" not in done.stderr


@in_source_tree
def test_run_on_an_installed_package_refuses_the_source_tree(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", Path(__file__).with_name("test_package.py")],
        cwd=tmp_path,
        env=clean_environment(QUEUECORE_TEST_INSTALLED="1"),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "source tree" in done.stderr


def test_a_hanging_test_ends_the_run_with_tracebacks(tmp_path):
    (tmp_path / "tests/faults").mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "tests/faults/matrix.toml").write_bytes((ROOT / "tests/faults/matrix.toml").read_bytes())
    (tmp_path / "tests/test_hang.py").write_text("import time\n\ndef test_it():\n    time.sleep(30)\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = watchdog(seconds)\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest"],
        cwd=tmp_path,
        env=clean_environment(QUEUECORE_WATCHDOG="0.5"),
        capture_output=True,
        text=True,
        timeout=25,
    )
    assert done.returncode == 1
    assert "test_it" in done.stderr and "Timeout" in done.stderr


def test_what_is_too_long_is_seen(tmp_path):
    check = runpy.run_path(str(ROOT / ".ci/check_lengths.py"))["check"]
    body = "\n".join(f"        x{number} = {number}" for number in range(81))
    given = ",\n".join(f"a{number}: dict[str, int] = ()" for number in range(9))
    file = tmp_path / "one.pyx"
    for text, wrong in (
        (f"cdef class One:\n    def run(self):\n{body}\n", ["one.pyx:2: a function of 82 lines"]),
        (f'class One:\n    def run(self):\n        """{body}"""\n        # {body[:30]}\n', []),
        (f"cdef class One:\n    def __init__(self, {given}):\n        pass\n", ["one.pyx:2: a constructor of 9"]),
        (f"# over the limit: a table\ncdef class One:\n    def run(self):\n{body}\n", []),
        (f"# {'a' * 119}\n# over the limit: a table\n", ["one.pyx:1: a line of 121 columns"]),
    ):
        file.write_text(text)
        found = check(file)
        assert [one.removeprefix(f"{tmp_path}/").startswith(said) for one, said in zip(found, wrong, strict=True)] == [
            True for _ in wrong
        ]
