"""The processors, the memory and the threads that this process may use, as far as the system limits them.

A container sees all processors and all memory of its machine; its control groups (Linux's cgroups, of either version,
also both at once) say what it may use of them: ``cpu.max`` or ``cpu.cfs_quota_us``, ``memory.max``, ``memory.high`` or
``memory.limit_in_bytes``, and ``pids.max``. A group's limits hold for all groups in it, so the tightest one of a
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

__all__ = ["Limits", "cpus", "limits_of", "memory_bytes", "quota_cpus", "thread_limits"]


class Limits(NamedTuple):
    """The tightest limits of a process's control groups; `math.inf` where there is none.

    Attributes
    ----------
    cpus : float
        Seconds of processors for each second.
    memory : float
        Bytes.
    threads : float
        Threads of all processes of a group.
    """

    cpus: float
    memory: float
    threads: float = math.inf


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
    cpus = memory = threads = math.inf
    mounts = _mounts(base / "proc/self/mountinfo")
    for line in _lines(base / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        for mount in mounts:
            if not (mount.controllers & set(names.split(",")) if names else number == "0" and not mount.controllers):
                continue
            for folder in _folders(base, mount, group):
                cpus = min(cpus, _cpus(folder))
                memory = min(memory, _number(folder, "memory.max", "memory.high", "memory.limit_in_bytes"))
                threads = min(threads, _number(folder, "pids.max"))
    return Limits(cpus, memory, threads)


def _mounts(path: Path) -> list[_Mount]:
    mounts = []
    for line in _lines(path):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        if kinds[0] == "cgroup2":
            mounts.append(_Mount(frozenset(), _plain(fields[3]), _plain(fields[4])))
        elif kinds[0] == "cgroup":
            mounts.append(_Mount(frozenset(kinds[2].split(",")), _plain(fields[3]), _plain(fields[4])))
    return mounts


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


def _number(folder: Path, *names: str) -> float:
    """Return the least of the positive numbers in these files, or `math.inf`: some say "max"."""
    least = math.inf
    for name in names:
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


def thread_limits() -> str:
    """Return the limits that a thread which cannot start may have met, for the sentence of an error."""
    user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits = [
        (math.inf if user == resource.RLIM_INFINITY else user, "of the user (ulimit -u)"),
        (_limits().threads, "of the control group (pids.max)"),
        (_number(Path("/proc/sys/kernel"), "threads-max"), "of the machine (kernel.threads-max)"),
    ]
    said = [f"{number:.0f} {whose}" for number, whose in limits if number < math.inf]
    return f"the limits of threads: {', '.join([*said, 'memory'])}"
