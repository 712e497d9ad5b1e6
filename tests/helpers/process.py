"""What the operating system says about this process, and processes of one's own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import queuecore

# How long something may take that should happen at once; under a sanitizer all is many times slower. Only a failing
# test waits that long.
AT_ONCE = 10.0 if "LD_PRELOAD" in os.environ else 1.0
PATIENCE = 20.0


def thread_count() -> int:
    """Threads of this process, Python's and native ones."""
    return len(os.listdir("/proc/self/task"))


def open_descriptors() -> int:
    """Open file descriptors, without the one that this look needs."""
    return len(os.listdir("/proc/self/fd")) - 1


def soon(condition: Callable[[], bool], within: float = AT_ONCE) -> bool:
    """Whether a condition comes true within so many seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def run_python(code: str, *arguments: object, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter that imports the same queuecore."""
    return subprocess.run(
        _command(code, arguments), env=_environment(), capture_output=True, text=True, timeout=timeout, check=False
    )


def _command(code: str, arguments: tuple[object, ...]) -> list[str]:
    # -P: the directory it is started from must not hide the package under test.
    return [sys.executable, "-P", "-c", textwrap.dedent(code), *map(str, arguments)]


def _environment() -> dict[str, str]:
    package = pathlib.Path(queuecore.__file__).parent.parent
    helpers = pathlib.Path(__file__).parent.parent
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{helpers}"}
