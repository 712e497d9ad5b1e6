"""Compile benchmarks/native in place: ``python benchmarks/native/build.py [module ...]``.

Only here may code be compiled for the machine at hand (``-march=native``): a yardstick should be as fast as it can be.

The ring benchmark is compiled with those peers whose headers are found, where Debian's packages put them.
"""

import functools
import json
import os
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "benchmarks"
CORE = ROOT / "src" / "queuecore"
STAMP = WORK / "peers.json"

# Hidden: what two of these modules both have, each means for itself.
FLAGS = ["-std=c++17", "-O3", "-march=native", "-g0", "-pthread", "-fvisibility=hidden"]

# Module: the files beside its .pyx that it is made of.
MODULES: dict[str, list[str]] = {
    "bench_native": [],
    "cold_native": ["cold_loops.hpp"],
    "ring_native": ["ring_loops.hpp", "ring_ours.hpp", "ring_ours.pxd", "ring_peers.hpp"],
    "ring_stall": ["ring_loops.hpp", "ring_ours.hpp", "ring_ours.pxd"],
}


@dataclass(frozen=True)
class Peer:
    """A library that the ring benchmark drives where it is installed."""

    macro: str
    header: str
    package: str
    libraries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@functools.cache
def multiarch() -> str:
    """Return the name of Debian's folder for this processor, or nothing elsewhere."""
    done = subprocess.run([*compiler(), "-print-multiarch"], capture_output=True, text=True)
    return done.stdout.strip()


def compiler() -> list[str]:
    """Return the command of the C++ compiler that setuptools will use."""
    return shlex.split(os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++")


def peers() -> dict[str, Peer]:
    """Return the peers by name."""
    return {
        "moodycamel concurrentqueue": Peer(
            "HAVE_MOODYCAMEL", "concurrentqueue/blockingconcurrentqueue.h", "libconcurrentqueue-dev"
        ),
        "moodycamel readerwriterqueue": Peer(
            "HAVE_READERWRITERQUEUE", "readerwriterqueue/readerwritercircularbuffer.h", "libreaderwriterqueue-dev"
        ),
        "boost lockfree": Peer("HAVE_BOOST", "boost/lockfree/queue.hpp", "libboost-dev"),
        "oneTBB": Peer("HAVE_TBB", "oneapi/tbb/concurrent_queue.h", "libtbb-dev", ("tbb",)),
        "ck_ring": Peer("HAVE_CK", "ck_ring.h", "libck-dev"),
        "DPDK rte_ring": Peer(
            "HAVE_DPDK",
            "rte_ring.h",
            "libdpdk-dev",
            ("rte_ring",),
            ("/usr/include/dpdk", f"/usr/include/{multiarch()}/dpdk"),
        ),
        "libcds": Peer("HAVE_LIBCDS", "cds/container/vyukov_mpmc_cycle_queue.h", "libcds-dev", ("cds",)),
    }


def _folder_flags(peer: Peer) -> list[str]:
    return [f"-I{folder}" for folder in peer.folders]


def headers_found() -> dict[str, bool]:
    """Return which peers have their header. One run of the preprocessor, so it can be asked every time."""
    headers = peers()
    text = "".join(f"#if __has_include(<{peer.header}>)\nfound {peer.macro}\n#endif\n" for peer in headers.values())
    folders = [flag for peer in headers.values() for flag in _folder_flags(peer)]
    done = subprocess.run(
        [*compiler(), "-E", "-P", "-x", "c++", *folders, "-"], input=text, capture_output=True, text=True, check=True
    )
    return {name: f"found {peer.macro}" in done.stdout for name, peer in headers.items()}


def why_unusable(peer: Peer) -> str:
    """Compile and link a program that drives this peer alone; return nothing, or what went wrong."""
    WORK.mkdir(parents=True, exist_ok=True)
    folders = [f"-I{HERE}", f"-I{CORE / 'include'}", *_folder_flags(peer)]
    flags = ["-std=c++17", "-O1", "-march=native", "-pthread", f"-D{peer.macro}", *folders]
    libraries = [f"-l{library}" for library in peer.libraries]
    command = [*compiler(), *flags, "-x", "c++", "-", "-o", str(WORK / "probe"), *libraries]
    text = '#include "ring_peers.hpp"\nint main() { rings::add_peers(); }\n'
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if "error" in line or "cannot find" in line]
    return f"<{peer.header}> is there, but: {said[0] if said else done.stderr.strip()}"


def absent_peers() -> dict[str, str]:
    """Return the peers that can't be compiled here, and why. Remembered until another set of headers is there."""
    headers = headers_found()
    if STAMP.exists():
        remembered = json.loads(STAMP.read_text(encoding="utf-8"))
        if remembered["found"] == headers:
            return dict(remembered["absent"])
    absences = {}
    for name, peer in peers().items():
        why = why_unusable(peer) if headers[name] else f"no <{peer.header}>; Debian has it in {peer.package}"
        if why:
            absences[name] = why
    WORK.mkdir(parents=True, exist_ok=True)
    STAMP.write_text(json.dumps({"found": headers, "absent": absences}, indent=1) + "\n", encoding="utf-8")
    return absences


def is_fresh(module: str) -> bool:
    """Return whether the built module is newer than what it is made of."""
    built = list(HERE.glob(f"{module}.cpython-{sys.version_info.major}{sys.version_info.minor}*.so"))
    made_of = [HERE / name for name in (f"{module}.pyx", *MODULES[module])]
    if module != "bench_native":
        made_of += [Path(__file__), *CORE.rglob("*.pxd"), *CORE.rglob("*.hpp")]
    if module == "ring_native":
        absent_peers()
        made_of.append(STAMP)
    newest = max(path.stat().st_mtime for path in made_of)
    return any(one.stat().st_mtime > newest for one in built)


def build(*modules: str) -> None:
    """Compile modules, in a process of its own because setuptools changes global state."""
    stale = [module for module in modules or MODULES if not is_fresh(module)]
    if stale:
        subprocess.run([sys.executable, str(Path(__file__).resolve()), "--compile", *stale], check=True, cwd=HERE)


def _compile(modules: list[str]) -> None:
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    extensions = []
    for module in modules:
        extension = Extension(
            module,
            [f"{module}.pyx"],
            language="c++",
            extra_compile_args=list(FLAGS),
            extra_link_args=["-pthread"],
            depends=MODULES[module],
        )
        if module != "bench_native":
            extension.include_dirs = [str(HERE), str(CORE / "include")]
        if module == "ring_native":
            absences = absent_peers()
            for name, peer in peers().items():
                if name not in absences:
                    extension.define_macros.append((peer.macro, "1"))
                    extension.include_dirs += peer.folders
                    extension.libraries += peer.libraries
        extensions.append(extension)
    setup(
        name="benchmarks",
        py_modules=[],
        ext_modules=cythonize(extensions, build_dir=str(WORK / "cython"), include_path=[str(ROOT / "src")]),
        script_args=["build_ext", "--inplace", "--force", "--build-temp", str(WORK), "--build-lib", str(WORK / "lib")],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        _compile(sys.argv[2:])
    else:
        build(*sys.argv[1:])
