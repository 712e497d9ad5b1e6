"""The processors and the bytes of memory that this process may use, as far as the system limits them.

A container sees all processors and all memory of its machine; its control groups (Linux's cgroups, of either version,
also both at once) say what it may use of them: ``cpu.max`` or ``cpu.cfs_quota_us``, and ``memory.max``,
``memory.high`` or ``memory.limit_in_bytes``. A group's limits hold for all groups in it, so the tightest one of a
process's group and of those around it counts.
"""

from __future__ import annotations

import functools
import math
import os
import re
import resource
from pathlib import Path
from typing import NamedTuple

__all__ = ["Limits", "cpus", "limits_of", "memory_bytes", "quota_cpus"]


class Limits(NamedTuple):
    """The tightest limits of a process's control groups; `math.inf` where there is none.

    Attributes
    ----------
    cpus : float
        Seconds of processors for each second.
    memory : float
        Bytes.
    """

    cpus: float
    memory: float


class _Mount(NamedTuple):
    # Of a hierarchy of groups. `root` is the group that is seen at `point`.
    controllers: frozenset[str]
    root: str
    point: str


def limits_of(root: str | os.PathLike[str] = "/") -> Limits:
    """Return the limits of this process's control groups, read from the files under `root`.

    A file that can't be read, or isn't understood, sets no limit.
    """
    base = Path(root)
    cpus = memory = math.inf
    mounts = _mounts(base / "proc/self/mountinfo")
    for line in _lines(base / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        for mount in mounts:
            if not (mount.controllers & set(names.split(",")) if names else number == "0" and not mount.controllers):
                continue
            for folder in _folders(base, mount, group):
                cpus = min(cpus, _cpus(folder))
                memory = min(memory, _memory(folder))
    return Limits(cpus, memory)


def _mounts(path: Path) -> list[_Mount]:
    found = []
    for line in _lines(path):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        if kinds[0] == "cgroup2":
            found.append(_Mount(frozenset(), _plain(fields[3]), _plain(fields[4])))
        elif kinds[0] == "cgroup":
            found.append(_Mount(frozenset(kinds[2].split(",")), _plain(fields[3]), _plain(fields[4])))
    return found


def _plain(field: str) -> str:
    # Blanks and the like are written as octal numbers.
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _folders(base: Path, mount: _Mount, group: str) -> list[Path]:
    """Return the folder of a group, and those of the groups around it, as far as they can be seen."""
    top = base / mount.point.lstrip("/")
    root = mount.root.rstrip("/")
    inner = group[len(root) :] if group == root or group.startswith(root + "/") else ""
    parts = [part for part in inner.split("/") if part]
    if ".." in parts:  # out of what this process sees
        parts = []
    return [top.joinpath(*parts[:count]) for count in range(len(parts) + 1)]


def _cpus(folder: Path) -> float:
    words = " ".join(_lines(folder / "cpu.max")).split()
    if not words:
        words = [*_lines(folder / "cpu.cfs_quota_us")[:1], *_lines(folder / "cpu.cfs_period_us")[:1]]
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", for one
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def _memory(folder: Path) -> float:
    least = math.inf
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        for word in _lines(folder / name)[:1]:
            if word.isdecimal() and int(word) > 0:
                least = min(least, int(word))
    return least


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


_limits = functools.cache(limits_of)


def quota_cpus() -> int:
    """Return the processors that the control groups leave to this process, rounded up; a large number: any."""
    return min(max(math.ceil(min(_limits().cpus, 1 << 20)), 1), 1 << 20)


def cpus() -> int:
    """Return how many processors this process may use: those of its affinity, no more than its control groups allow."""
    return min(len(os.sched_getaffinity(0)), quota_cpus())


def memory_bytes() -> int:
    """Return how much memory this process may have: the machine's, no more than control groups and ulimit -v allow."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    return int(min(machine, _limits().memory, math.inf if addresses == resource.RLIM_INFINITY else addresses))
