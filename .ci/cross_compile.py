"""Compile every extension for another processor, to objects: cross_compile.py aarch64-linux-gnu-g++.

It needs no Python for that processor. The headers of this one do, because both are 64-bit little-endian Linux, where
C's types have the same sizes; what is compiled is thrown away.
"""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Compile all; return 1 if anything fails."""
    compiler = sys.argv[1]
    if shutil.which(compiler) is None:
        print(f"{compiler} is missing; on Debian: apt-get install g++-aarch64-linux-gnu", file=sys.stderr)
        return 1
    os.chdir(ROOT)
    build = runpy.run_path("setup.py", run_name="setup")
    jobs = len(os.sched_getaffinity(0))
    extensions = build["cythonize_all"](build["extensions"](), jobs)
    out = Path("build", compiler)
    out.mkdir(parents=True, exist_ok=True)
    paths = sysconfig.get_paths()
    python_dirs = {paths["include"], paths["platinclude"]}

    def compile_one(extension) -> tuple[str, int, str]:
        (source,) = extension.sources
        # Nothing of it runs: the optimiser's time would be wasted.
        command = [compiler, "-fPIC", "-DNDEBUG", *extension.extra_compile_args, "-O0"]
        command += [f"-I{directory}" for directory in (*extension.include_dirs, *sorted(python_dirs))]
        command += [f"-D{name}={value}" for name, value in extension.define_macros]
        command += ["-c", source, "-o", str(out / f"{extension.name}.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        return extension.name, done.returncode, done.stdout + done.stderr

    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        for name, code, text in pool.map(compile_one, extensions):
            print(f"{compiler} {name}: {'ok' if code == 0 else 'failed'}")
            if text:
                print(text)
            if code:
                failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
