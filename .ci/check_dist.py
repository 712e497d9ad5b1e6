"""Say whether an sdist and the wheel made of it hold what they must, and nothing else: check_dist.py SDIST WHEEL."""

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
TEST_ONLY = "queuecore/_core/testing/"  # setup.py builds it for tests and never for a wheel


def native_sources() -> set[str]:
    """Return every file that compiling needs, relative to the project."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.suffix in {".pyx", ".pxd", ".hpp"}
    }


def check_sdist(path: Path) -> list[str]:
    """Return what is wrong with the sdist."""
    with tarfile.open(path) as archive:
        names = {str(PurePosixPath(*PurePosixPath(one).parts[1:])) for one in archive.getnames()}
    needed = native_sources() | {
        "setup.py",
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "tests/conftest.py",
        "queuecore/py.typed",
    }
    wrong = [f"sdist lacks {name}" for name in sorted(needed - names)]
    built = (".so", ".o", ".pyc")
    # What Cython writes is C++; the tests' driver is written in it by hand.
    written = {
        name for name in names if name.endswith(built) or (name.endswith(".cpp") and not name.startswith("tests/"))
    }
    return wrong + [f"sdist holds a build result, {name}" for name in sorted(written)]


def check_wheel(path: Path) -> list[str]:
    """Return what is wrong with the wheel."""
    names = set(zipfile.ZipFile(path).namelist())
    core = ROOT / "src/queuecore/_core"
    modules = {f"queuecore/_core/{path.relative_to(core).with_suffix('')}" for path in core.rglob("*.pyx")}
    modules = {module for module in modules if not module.startswith(TEST_ONLY)}
    package = {name for name in names if name.startswith("queuecore/")}
    wrong = []

    needed = {"queuecore/py.typed", "queuecore/_core/device.hpp"}
    needed |= {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "queuecore").rglob("*.py*")
        if path.suffix in {".py", ".pyi"}
    }
    needed = {name for name in needed if not name.startswith(TEST_ONLY)}
    wrong += [f"wheel lacks {name}" for name in sorted(needed - package)]

    compiled = {name.partition(".")[0]: name for name in package if name.endswith(".so")}
    wrong += [f"wheel lacks the compiled {name}" for name in sorted(modules - compiled.keys())]
    wrong += [f"wheel holds a foreign {compiled[name]}" for name in sorted(compiled.keys() - modules)]

    other = package - needed - set(compiled.values())
    wrong += [f"wheel holds {name}" for name in sorted(other)]
    top = {name.split("/")[0] for name in names}
    return wrong + [
        f"wheel holds {name} at its top"
        for name in sorted(top)
        if name != "queuecore" and not name.endswith(".dist-info")
    ]


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    sdist, wheel = map(Path, sys.argv[1:])
    wrong = check_sdist(sdist) + check_wheel(wheel)
    print(*wrong, sep="\n") if wrong else print(f"{sdist.name} and {wheel.name}: contents as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
