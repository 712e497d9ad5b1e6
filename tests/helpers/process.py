"""What the operating system says about this process, and processes of one's own."""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import queuecore

if TYPE_CHECKING:
    import pytest

# How long something may take that should happen at once, on a machine that may stop for seconds under other work; under
# a sanitizer all is many times slower. Only a failing test waits that long.
AT_ONCE = 10.0 if "LD_PRELOAD" in os.environ else 5.0
PATIENCE = 20.0


def collect() -> None:
    """Collect garbage. What is left is a whole run's, and long to walk through: no later collection looks at it."""
    gc.collect()
    gc.freeze()


def thread_ids() -> set[str]:
    """Threads of this process, Python's and native ones, as the system numbers them.

    Not how many: a thread of an earlier test may end at any moment, and would hide one that has begun.
    """
    # While one ends, a listing may leave out another: one that is the same twice is whole.
    found = set(os.listdir("/proc/self/task"))
    while (again := set(os.listdir("/proc/self/task"))) != found:
        found = again
    return found


def pipeline_threads() -> set[threading.Thread]:
    """Python threads that work for a pipeline.

    Not the servers of remote files: one stays as long as the process, whichever test has read such a file.
    """
    ours = {one for one in threading.enumerate() if one.name.startswith("qc-")}
    return {one for one in ours if not one.name.startswith("qc-remote-")}


def open_descriptors() -> int:
    """Open file descriptors, without the one that this look needs."""
    return len(os.listdir("/proc/self/fd")) - 1


def child_processes() -> set[str]:
    """Numbers of this process's children, also of those that have ended and that nobody has waited for."""
    return {number for file in pathlib.Path("/proc/self/task").glob("*/children") for number in _words(file)}


def mapped_files() -> set[str]:
    """Files that this process has mapped to memory, apart from code and the system's: also deleted and shared ones."""
    lines = [line.split(maxsplit=5) for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    named = {line[5] for line in lines if len(line) == 6 and not line[5].startswith("[")}
    return {name for name in named if ".so" not in name and not name.startswith("/usr/")}


def _words(file: pathlib.Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # the thread has ended meanwhile
        return []


def soon(condition: Callable[[], bool], within: float = AT_ONCE) -> bool:
    """Whether a condition comes true within so many seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@contextlib.contextmanager
def interrupted_in(function: str) -> Iterator[None]:
    """Send Ctrl-C once the main thread runs this function, and expect that it ends the block.

    Not at any other moment: what a garbage collection calls swallows it.
    """
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def interrupt() -> None:
        if soon(lambda: sys._current_frames()[main_thread].f_code.co_name == function, PATIENCE):
            _thread.interrupt_main()

    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        sender.join()
    raise AssertionError("nothing was interrupted")


def put_temporary_files(patch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
    """Have this process, and those that it starts, make temporary files in a folder."""
    patch.setenv("TMPDIR", os.fspath(folder))
    patch.setattr(tempfile, "tempdir", None)


def run_python(code: str, *arguments: object, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter that imports the same queuecore."""
    return subprocess.run(
        _command(code, arguments), env=_environment(), capture_output=True, text=True, timeout=timeout, check=False
    )


def start_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start such a script, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        _command(code, arguments), env=_environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def _command(code: str, arguments: tuple[object, ...]) -> list[str]:
    # -P: the directory it is started from must not hide the package under test.
    return [sys.executable, "-P", "-c", textwrap.dedent(code), *map(str, arguments)]


def _environment() -> dict[str, str]:
    package = pathlib.Path(queuecore.__file__).parent.parent
    helpers = pathlib.Path(__file__).parent.parent
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{helpers}"}
