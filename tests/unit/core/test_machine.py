"""What a process may use of its machine, by trees of files as Linux, Docker and systemd make them."""

import math
import os
import resource

import pytest

import queuecore as qc
from queuecore import _machine

V2 = "30 23 0:26 {root} {point} rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "33 32 0:29 {root} {point} rw,nosuid shared:9 - cgroup cgroup rw,{names}\n"


def tree(folder, cgroup, mountinfo, files):
    for path, text in {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return _machine.limits_of(folder)


NONE = (math.inf, math.inf)
TREES = {
    "no control groups": ("", "", {}, NONE),
    "no limits": (
        "0::/\n",
        V2.format(root="/", point="/sys/fs/cgroup"),
        {"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"},
        NONE,
    ),
    "a container of its own namespace": (
        "0::/\n",
        V2.format(root="/", point="/sys/fs/cgroup"),
        {"sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/memory.max": "536870912\n"},
        (1.5, 2**29),
    ),
    "a service": (
        "0::/system.slice/train.service\n",
        V2.format(root="/", point="/sys/fs/cgroup"),
        {
            "sys/fs/cgroup/system.slice/train.service/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/system.slice/train.service/memory.max": "max\n",
            "sys/fs/cgroup/system.slice/train.service/memory.high": "1000000\n",
        },
        (4, 1_000_000),
    ),
    "a tighter group around it": (
        "0::/a/b/c\n",
        V2.format(root="/", point="/sys/fs/cgroup"),
        {
            "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/b/memory.max": "4096\n",
            "sys/fs/cgroup/a/b/c/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/a/b/c/memory.max": "8192\n",
            "sys/fs/cgroup/other/cpu.max": "1000 100000\n",
        },
        (2, 4096),
    ),
    "a mount that shows a part": (
        "0::/docker/abc/inner\n",
        V2.format(root="/docker/abc", point="/sys/fs/cgroup"),
        {
            "sys/fs/cgroup/cpu.max": "300000 100000\n",
            "sys/fs/cgroup/inner/memory.max": "777\n",
            "sys/fs/cgroup/docker/abc/inner/cpu.max": "1000 100000\n",
        },
        (3, 777),
    ),
    "a group out of sight": (
        "0::/../other\n",
        V2.format(root="/", point="/sys/fs/cgroup"),
        {"sys/fs/cgroup/cpu.max": "50000 100000\n", "sys/fs/other/cpu.max": "1000 100000\n"},
        (0.5, math.inf),
    ),
    "a mount point with a blank": (
        "0::/\n",
        V2.format(root="/", point="/my\\040groups"),
        {"my groups/cpu.max": "100000 100000\n"},
        (1, math.inf),
    ),
    "version 1": (
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        V1.format(root="/docker/abc", point="/sys/fs/cgroup/cpu,cpuacct", names="cpu,cpuacct")
        + V1.format(root="/docker/abc", point="/sys/fs/cgroup/memory", names="memory"),
        {
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
        },
        (2.5, 2**28),
    ),
    "version 1 without a quota": (
        "4:cpu,cpuacct:/\n",
        V1.format(root="/", point="/sys/fs/cgroup/cpu", names="cpu,cpuacct"),
        {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        NONE,
    ),
    "both": (
        "4:cpu:/x\n0::/y\n",
        V1.format(root="/", point="/sys/fs/cgroup/cpu", names="cpu")
        + V2.format(root="/", point="/sys/fs/cgroup/unified"),
        {
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "900000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "700000\n",
            "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/unified/y/memory.max": "12345\n",
        },
        (7, 12345),
    ),
    "nonsense": (
        "0::/\nwhat\n::\n",
        V2.format(root="/", point="/sys/fs/cgroup") + "1 2 3\n - cgroup2\n",
        {"sys/fs/cgroup/cpu.max": "many\n", "sys/fs/cgroup/memory.max": "-5\n"},
        NONE,
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_limits(tmp_path, name):
    cgroup, mountinfo, files, expected = TREES[name]
    assert tree(tmp_path, cgroup, mountinfo, files)[:2] == expected


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "folder"),
    [
        ("0::/a\n", V2.format(root="/", point="/groups"), "groups/a"),
        ("9:pids:/docker/abc\n", V1.format(root="/docker/abc", point="/groups/pids", names="pids"), "groups/pids"),
    ],
)
@pytest.mark.parametrize(("text", "threads"), [("100\n", 100), ("max\n", math.inf), ("", math.inf)])
def test_limits_of_threads(tmp_path, cgroup, mountinfo, folder, text, threads):
    assert tree(tmp_path, cgroup, mountinfo, {f"{folder}/pids.max": text}) == (math.inf, math.inf, threads)


def test_what_errors_say_of_threads(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (123, 456))
    monkeypatch.setattr(_machine, "_limits", lambda: _machine.Limits(math.inf, math.inf, 77))
    said = _machine.thread_limits()
    assert said.startswith("the limits of threads: 123 of the user (ulimit -u), 77 of the control group (pids.max), ")
    assert said.endswith(" of the machine (kernel.threads-max), memory")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(_machine, "_limits", lambda: _machine.Limits(math.inf, math.inf))
    monkeypatch.setattr(_machine, "_number", lambda folder, name: math.inf)
    assert _machine.thread_limits() == "the limits of threads: memory"


def limited(monkeypatch, cpus=math.inf, memory=math.inf):
    monkeypatch.setattr(_machine, "_limits", lambda: _machine.Limits(cpus, memory))


@pytest.mark.parametrize(("quota", "expected"), [(math.inf, 16), (0.25, 1), (1, 1), (1.5, 2), (3, 3), (64, 16)])
def test_cpus(monkeypatch, quota, expected):
    limited(monkeypatch, cpus=quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert _machine.cpus() == expected


def test_memory(monkeypatch):
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    limited(monkeypatch)
    assert _machine.memory_bytes() == machine
    limited(monkeypatch, memory=4096)
    assert _machine.memory_bytes() == 4096
    limited(monkeypatch, memory=2 * machine)
    assert _machine.memory_bytes() == machine
    monkeypatch.setattr(resource, "getrlimit", lambda which: (100_000, 200_000))
    assert _machine.memory_bytes() == 100_000


@pytest.mark.parametrize(("quota", "threads"), [(1, 1), (2, 1), (3, 2), (4.5, 4), (math.inf, 8)])
def test_threads_by_default(monkeypatch, quota, threads):
    limited(monkeypatch, cpus=quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    ds = qc.data.Dataset.range(3)
    assert ds._chain.threads() == (threads, True)
    assert ds.with_options(qc.data.Options(num_threads=5))._chain.threads()[0] == 5  # what is said is done
