"""The compiled half of queuecore: extensions, Cython directives, compiler flags and debug switches.

Metadata and the settings of every tool are in pyproject.toml. Switches are environment variables:

QUEUECORE_SANITIZE         ``address``, ``thread`` or ``undefined``, or a comma list that the compiler accepts; with
                           clang also ``fuzzer``, the counters that libFuzzer reads
QUEUECORE_DEBUG            no optimisation, full debug information, assertions on
QUEUECORE_COVERAGE         gcov counters, with lines that name the .pyx
QUEUECORE_TESTING          also build what only tests use: the folder ``testing``; system calls and requests for memory
                           go through a table that tests can replace
QUEUECORE_RAISE            hooks wherever native code calls Python or returns to it (.ci/sites.py): tests raise there
QUEUECORE_ONLY             a comma list of modules below ``queuecore._core``, or of folders: no others are built
QUEUECORE_QUICK            optimize little: a third less time for the compiler, where only what is packed matters
QUEUECORE_CYTHON_CACHE     a folder that keeps translations, for another build of the same sources
QUEUECORE_NO_EXTENSIONS    install the Python files only; ``build_ext --inplace`` then builds the rest
"""

import sys

# Before the first import of a tool that may be missing elsewhere: this message must be the one that is seen.
if not sys.platform.startswith("linux"):
    raise SystemExit(
        f"queuecore needs Linux for now, and this is {sys.platform!r}: "
        "its native core waits on futexes and reads with preadv2, which other systems do not have."
    )

import hashlib
import itertools
import os
import re
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.command.build_py import build_py as _build_py
from setuptools.modified import newer_group

PACKAGE = "queuecore._core"
# Relative, with the project root as working directory: setuptools refuses absolute paths in `depends`.
SRC = Path("src/queuecore")
CORE = SRC / "_core"
TEST_ONLY = "testing."
SANITIZERS = ("address", "fuzzer", "thread", "undefined")

DIRECTIVES = {
    "language_level": 3,
    "embedsignature": True,
    "embedsignature.format": "python",
    # Off, `%` and `/` raise ZeroDivisionError, and so take the GIL even in `noexcept nogil` code.
    "cdivision": True,
    "binding": True,
}


def switch(name: str) -> bool:
    """Return whether the environment switch QUEUECORE_<name> is on."""
    return os.environ.get(f"QUEUECORE_{name}", "0").lower() not in ("", "0", "no", "false", "off")


def words(name: str) -> list[str]:
    """Return the comma list in QUEUECORE_<name>."""
    return [word for word in re.split(r"[,\s]+", os.environ.get(f"QUEUECORE_{name}", "")) if word]


def sanitizers() -> list[str]:
    """Return the sanitizers that QUEUECORE_SANITIZE asks for."""
    wanted = words("SANITIZE")
    unknown = sorted(set(wanted) - set(SANITIZERS))
    if unknown:
        raise SystemExit(f"QUEUECORE_SANITIZE: unknown {', '.join(unknown)}; known are {', '.join(SANITIZERS)}")
    return sorted(set(wanted))


def sanitize_flag() -> str:
    """Return the flag for all of them. libFuzzer itself is in the process already, as are the other runtimes."""
    return f"-fsanitize={','.join(sanitizers())}".replace("fuzzer", "fuzzer-no-link")


def compile_flags() -> list[str]:
    """Return the compiler's flags. No -march=native and no -ffast-math: a wheel runs on every machine alike."""
    # Processors that multiply and add in one instruction round once where others round twice.
    flags = ["-std=c++17", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread", "-ffp-contract=off"]
    if "clang" in os.environ.get("CXX", ""):
        # It gives up on the table of powers of five after a million steps.
        flags += ["-fconstexpr-steps=100000000"]
    if sanitizers():
        flags += ["-O1", "-g", "-fno-omit-frame-pointer", sanitize_flag()]
        if "thread" in sanitizers():
            # GCC's thread sanitizer does not model fences, and says so at each one. Ours order atomics with each other
            # (store before load, in parking); none of them publishes plain memory.
            flags += ["-Wno-tsan"]
        if "undefined" in sanitizers():
            # Recovering would print and go on: the job would pass.
            flags += ["-fno-sanitize-recover=undefined"]
            # Python's own flags allow what runs over, and its C code needs that; ours doesn't.
            flags += ["-fno-wrapv"]
        if "fuzzer" in sanitizers():
            # Types of functions aren't known across modules whose symbols are hidden.
            flags += ["-fno-sanitize=function,vptr"]
    elif switch("DEBUG"):
        flags += ["-O0", "-g3", "-UNDEBUG", "-D_GLIBCXX_ASSERTIONS"]
    elif switch("COVERAGE"):
        flags += ["-O0", "-g1", "--coverage"]
    elif switch("RAISE"):
        flags += ["-O0", "-g0"]
    elif switch("QUICK"):
        flags += ["-O1", "-g0"]
    else:
        flags += ["-O3", "-g0"]
    return flags


def link_flags() -> list[str]:
    """Return the linker's flags."""
    flags = ["-pthread"]
    if sanitizers():
        flags += [sanitize_flag()]
    if switch("COVERAGE"):
        flags += ["--coverage"]
    return flags


def cimports_numpy(pyx: Path) -> bool:
    """Return whether a module, or its own .pxd, cimports numpy and so needs its headers."""
    pattern = re.compile(r"^\s*(?:cimport\s+numpy\b|from\s+numpy\b[\w.]*\s+cimport\b)", re.MULTILINE)
    return any(
        pattern.search(path.read_text(encoding="utf-8")) for path in (pyx, pyx.with_suffix(".pxd")) if path.exists()
    )


def native_modules() -> dict[str, Path]:
    """Return the .pyx file of each module that is wanted, by the module's name below PACKAGE."""
    modules = {".".join(pyx.relative_to(CORE).with_suffix("").parts): pyx for pyx in sorted(CORE.rglob("*.pyx"))}
    only = words("ONLY")
    wanted = {name: [word for word in only if f"{name}.".startswith(f"{word}.")] for name in modules}
    unknown = sorted(set(only) - {word for some in wanted.values() for word in some})
    if unknown:
        raise SystemExit(f"QUEUECORE_ONLY: no module or folder of {PACKAGE} is called {', '.join(unknown)}")
    if not switch("TESTING"):
        modules = {name: pyx for name, pyx in modules.items() if not name.startswith(TEST_ONLY)}
    return {name: pyx for name, pyx in modules.items() if wanted[name] or not only}


def extensions() -> list[Extension]:
    """Return one extension for each native module."""
    # Cython follows `cimport` from file to file, but of headers it sees only those that a .pyx names, not those
    # that these include. So every extension depends on every header.
    headers = sorted(path.as_posix() for path in (SRC / "include").rglob("*.hpp"))
    modules = []
    for name, pyx in native_modules().items():
        include_dirs = [(SRC / "include").as_posix()]
        macros = [("QUEUECORE_SCHEDULE", "1")] if name.startswith("testing.schedule_") else []
        if switch("TESTING"):
            macros.append(("QUEUECORE_TESTING", "1"))
        if cimports_numpy(pyx):
            import numpy

            include_dirs.append(numpy.get_include())
            macros.append(("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"))
        modules.append(
            Extension(
                f"{PACKAGE}.{name}",
                [pyx.as_posix()],
                language="c++",
                include_dirs=include_dirs,
                define_macros=macros,
                extra_compile_args=compile_flags(),
                extra_link_args=link_flags(),
                depends=headers,
            )
        )
    return modules


def drop_orphans(*packages: Path | None) -> None:
    """Delete what was built into these folders from sources that are gone: it would still be imported and checked."""
    for folder in (*filter(None, packages), Path("build/cython") / CORE):
        for path in itertools.chain(folder.rglob("*.so"), folder.rglob("*.cpp")):
            source = CORE / path.relative_to(folder).with_name(f"{path.name.partition('.')[0]}.pyx")
            if not source.exists():
                path.unlink()


def cythonize_all(modules: list[Extension], jobs: int, **options) -> list[Extension]:
    """Translate .pyx to C++ under build/cython, and return extensions made of the C++."""
    from Cython.Build import cythonize
    from Cython.Compiler.Errors import CompileError

    coverage = switch("COVERAGE")
    # The #line directives of a coverage build are not part of Cython's own freshness check.
    options.setdefault("build_dir", "build/cython-coverage" if coverage else "build/cython")
    # Not where a translation is asked for by force: what is taken from the cache prints no hints.
    options.setdefault("cache", False if options.get("force") else os.environ.get("QUEUECORE_CYTHON_CACHE") or False)
    try:
        return cythonize(
            modules,
            nthreads=jobs if len(modules) > 1 else 0,
            include_path=["src"],
            # A copy: Cython adds to it.
            compiler_directives=dict(DIRECTIVES),
            emit_linenums=coverage,
            **options,
        )
    except CompileError as error:
        # Cython has printed what is wrong; the traceback of a worker process would bury it.
        raise SystemExit(f"Cython could not translate {error}") from None


def put_hooks(modules: list[Extension], into: Path) -> None:
    """Compile, of every module that isn't a test's own, C++ with the hooks of .ci/sites.py."""
    sys.path.insert(0, ".ci")
    import sites

    for ext in modules:
        name = ext.name.removeprefix(f"{PACKAGE}.")
        if not name.startswith(TEST_ONLY):
            ext.sources = [sites.rewrite(Path(ext.sources[0]), into / "hooks", name).as_posix()]
            ext.depends = [*ext.depends, "tests/native/raise/sites.hpp"]


class build_ext(_build_ext):
    """Translate everything first, on all cores; rebuild when the flags have changed, not only the files."""

    def finalize_options(self):
        """Give an in-place build an intermediate folder of its own, and use every core unless told otherwise."""
        if self.inplace and self.build_lib is None:
            # setuptools builds into build_lib and copies. In the shared one, a later `pip wheel` in this tree
            # would pack what was built here for tests.
            self.build_lib = "build/inplace"
        if self.build_temp is None:
            kind = "-".join(sanitizers()) or ("raise" if switch("RAISE") else "plain")
            self.build_temp = f"build/temp-{kind}-{sys.implementation.cache_tag}"
        super().finalize_options()
        if self.parallel is None:
            self.parallel = len(os.sched_getaffinity(0))

    def run(self):
        """Build, and delete what earlier builds left of modules that are gone."""
        in_place = self.inplace  # setuptools changes it meanwhile
        super().run()
        drop_orphans(Path("queuecore/_core") if in_place else None, Path(self.build_lib, "queuecore/_core"))

    def build_extensions(self):
        """Translate, then compile."""
        jobs = int(self.parallel or 1)
        for ext, made in zip(self.extensions, cythonize_all(self.extensions, jobs, force=self.force), strict=True):
            ext.sources = made.sources
        if switch("RAISE"):
            put_hooks(self.extensions, Path(self.build_temp))
        self.stale = {ext.name for ext in self.extensions if self.flags_changed(ext)}
        # distutils compares the times of files only; a missing result is one that is always built.
        for name in self.stale:
            Path(self.get_ext_fullpath(name)).unlink(missing_ok=True)
        # The longest first: else it begins when the others are done, and all but one processor wait for it.
        self.extensions.sort(key=lambda ext: -Path(ext.sources[0]).stat().st_size)
        self.to_compile = [ext.name for ext in self.extensions if self.is_stale(ext)]
        super().build_extensions()
        for ext in self.extensions:
            stamp = self.flags_stamp(ext)
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.write_text(self.flags_text(ext), encoding="utf-8")

    def is_stale(self, ext) -> bool:
        """Return whether distutils will compile an extension."""
        return bool(self.force or newer_group([*ext.sources, *ext.depends], self.get_ext_fullpath(ext.name), "newer"))

    def build_extension(self, ext):
        """Say which one it is, because many seconds pass between them."""
        if ext.name in self.to_compile:
            number, count = self.to_compile.index(ext.name) + 1, len(self.to_compile)
            print(f"[{number:2}/{count}] Compiling {ext.sources[0]}", flush=True)
        super().build_extension(ext)

    def flags_text(self, ext) -> str:
        """Return all that shapes an extension besides its files."""
        from Cython import __version__ as cython_version

        parts = [*ext.extra_compile_args, *ext.extra_link_args, *ext.include_dirs, *map(str, ext.define_macros)]
        parts += [f"{key}={value}" for key, value in DIRECTIVES.items()]
        parts += [f"{key}={os.environ.get(key, '')}" for key in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS")]
        return "\n".join([sys.version, cython_version, *parts])

    def flags_stamp(self, ext) -> Path:
        """Return the file that remembers flags_text() of an extension's last build."""
        place = os.path.abspath(self.get_ext_fullpath(ext.name))
        return Path(self.build_temp, "flags", hashlib.sha256(place.encode()).hexdigest()[:16])

    def flags_changed(self, ext) -> bool:
        """Return whether an extension's last build had other flags."""
        stamp = self.flags_stamp(ext)
        return not stamp.exists() or stamp.read_text(encoding="utf-8") != self.flags_text(ext)


class build_py(_build_py):
    """Start from an empty folder: what is packed is all of build_lib, also what was deleted or built for tests."""

    def run(self):
        """Empty the package's folder, then copy."""
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "queuecore"), ignore_errors=True)
        super().run()


# Worker processes of Cython may import this file again, and the cross-compile check reads the flags from it.
if __name__ == "__main__":
    setup(
        ext_modules=[] if switch("NO_EXTENSIONS") else extensions(),
        cmdclass={"build_ext": build_ext, "build_py": build_py},
    )
