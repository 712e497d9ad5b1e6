"""Compile benchmarks/native in place: ``python benchmarks/native/build.py``.

Only here may code be compiled for the machine at hand (``-march=native``): a yardstick should be as fast as it can be.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = HERE / "bench_native.pyx"


def is_fresh() -> bool:
    """Return whether the built module is newer than its source."""
    built = list(HERE.glob(f"bench_native.cpython-{sys.version_info.major}{sys.version_info.minor}*.so"))
    return any(one.stat().st_mtime > SOURCE.stat().st_mtime for one in built)


def build() -> None:
    """Compile the module, in a process of its own because setuptools changes global state."""
    if is_fresh():
        return
    subprocess.run([sys.executable, str(Path(__file__).resolve()), "build_ext", "--inplace"], check=True, cwd=HERE)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        build()
    else:
        from Cython.Build import cythonize
        from setuptools import Extension, setup

        extension = Extension(
            "bench_native", ["bench_native.pyx"], language="c++", extra_compile_args=["-O3", "-march=native", "-g0"]
        )
        work = ROOT / "build" / "benchmarks"
        setup(
            name="bench_native",
            py_modules=[],
            ext_modules=cythonize([extension], build_dir=str(work / "cython")),
            script_args=["build_ext", "--inplace", "--build-temp", str(work), "--build-lib", str(work / "lib")],
        )
