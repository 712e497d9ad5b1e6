"""An exception at every place where native code calls Python or returns to it, one after the other.

The package is built once more, with a hook at each of these places (`.ci/sites.py`; tests/faults/sites.txt lists them).
For each scenario of helpers.faults.raise_scenarios a process raises at the first site that it comes to, then at the
second, until it gets to its end; after each the accounts are exact, or the object says that it failed.
"""

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build/raise"
NATIVE = ROOT / "tests/native/raise"

MAIN = (
    *("fixed", "lines", "records", "copies", "shuffled", "csv", "examples", "bad_records", "states"),
    *("mapped", "generated", "objects", "filtered", "flat", "interleaved", "scanned", "reduced", "arrow"),
)
QUEUES = ("fifo", "strings", "shuffling", "padding", "priority", "leases", "objects_queue", "reading", "program")
OTHERS = ("mapped", "generated", "objects", "filtered", "flat", "interleaved")

# Where an exception of another thread is dropped, because nothing is lost by that: as the thread begins or ends, as it
# gives back what its work is done with, or as it waits for work while nobody has any more.
DROPPED = (
    "atoms.runtime Start.",
    "atoms.times WorkTimes.leave return",
    "stream.scope Scope.",
    "stream.feed Feed.end return",
    "stream.feed Feed.next_pass return",
)
IDLE = (
    "handoff.objects SimpleQueue.put return",
    "handoff.objects SimpleQueue.get return",
    "handoff.objects _Store._wait",
)

pytestmark = [pytest.mark.thorough, pytest.mark.watchdog(900)]


def _built() -> None:
    """Build the tree, or what of it is stale. The first of several processes does, the others wait."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build/raise.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(TREE)]
        environment = {**os.environ, "QUEUECORE_RAISE": "1", "QUEUECORE_TESTING": "0"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
        for path in (ROOT / "queuecore").rglob("*.py"):
            made = TREE / path.relative_to(ROOT)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, made)


@functools.cache
def _library(folder: Path) -> Path:
    made = folder / f"raise-{os.getpid()}.so"
    include = sysconfig.get_path("include")
    command = ["cc", "-O1", "-fPIC", "-shared", f"-I{include}", "-o", str(made), str(NATIVE / "raise.c")]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="session")
def library(run_folder):
    """The library that decides which site raises; the tree is there as well."""
    _built()
    return _library(run_folder)


def swept(library, folder, scenario, which):
    """Try one scenario, with each site, in a process of its own. Returns what came of it."""
    environment = {**os.environ, "PYTHONPATH": f"{TREE}{os.pathsep}{ROOT / 'tests'}"}
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-P",
        "-m",
        "helpers.faults.raising",
        library,
        folder,
        scenario,
        which,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    last = (folder / "last").read_text() if (folder / "last").exists() else "none"
    assert done.returncode == 0, f"{scenario}: at site {last} it ended with {done.returncode}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def judge(made, least):
    """Judge what came of the sites: at least so many there were."""
    for one in made["wrong"]:
        print(one["n"], one["site"], one["kind"], one["came"], one["wrong"], sep="\n")
    assert not made["wrong"], [one["site"] for one in made["wrong"]]
    assert made["sites"] >= least
    assert made["came"].get("came out", 0) >= 0.9 * made["sites"]
    assert [site for site in made["swallowed"] if not site.startswith((*DROPPED, *IDLE))] == []


@pytest.mark.parametrize("scenario", MAIN)
def test_on_the_way_to_the_caller(library, tmp_path, scenario):
    judge(swept(library, tmp_path, scenario, "main"), 100)


@pytest.mark.parametrize("scenario", QUEUES)
def test_queues_and_readers(library, tmp_path, scenario):
    judge(swept(library, tmp_path, scenario, "main"), 40)


@pytest.mark.parametrize("scenario", OTHERS)
def test_in_threads_that_run_functions(library, tmp_path, scenario):
    judge(swept(library, tmp_path, scenario, "others"), 10)


def test_all_sites_are_listed(library):
    """As `make lint` has it, of what this build was made from."""
    command = [sys.executable, "-P", str(ROOT / ".ci/sites.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
