"""What a test of a fault may leave behind: nothing."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator

import pytest
from helpers.process import AT_ONCE, PATIENCE, child_processes, mapped_files, open_descriptors, soon, thread_ids


@contextlib.contextmanager
def nothing_left(folder: pathlib.Path) -> Iterator[None]:
    """Check that a test leaves threads, descriptors, child processes, mapped and temporary files as they were.

    What has to end gets time for it. `folder` is that of temporary files meanwhile, for this process and for those that
    it starts.
    """
    _comes(lambda: not _ours(), AT_ONCE)  # what tests before this one have left
    ours, threads, descriptors = _ours(), thread_ids(), open_descriptors()
    children, mapped = child_processes(), mapped_files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", os.fspath(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield
    assert _comes(lambda: _ours() <= ours), _ours() - ours
    assert _comes(lambda: thread_ids() <= threads), {number: _comm(number) for number in thread_ids() - threads}
    assert _comes(lambda: open_descriptors() <= descriptors), (open_descriptors(), descriptors)
    assert _comes(lambda: child_processes() <= children), child_processes() - children
    assert _comes(lambda: mapped_files() <= mapped), mapped_files() - mapped
    assert os.listdir(folder) == []


def _comm(number: str) -> str:
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/self/task", number, "comm").read_text().strip()
    return "has ended"


def _ours() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("qc-")}


def _comes(condition: Callable[[], bool], within: float = PATIENCE) -> bool:
    # What a test's own cycles keep is no leak; looking for them takes long, and is rarely needed.
    return soon(condition, 0.05) or (gc.collect() >= 0 and soon(condition, within))
