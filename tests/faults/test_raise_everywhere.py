"""An exception at every place where native code calls Python or returns to it, one after the other.

The package is built once more, with a hook at each of these places (`.ci/sites.py`).
For each scenario of helpers.faults.raise_scenarios a process raises at the first site that it comes to, then at the
second, until it gets to its end; after each the accounts are exact, or the object says that it failed. A site that no
scenario comes to has a reason in tests/faults/unreached.txt.
"""

import subprocess
import sys

import pytest
from helpers.faults.raise_tree import MAIN, OTHERS, QUEUES, ROOT, build, compile_library, run

# Where an exception of another thread is dropped, because nothing is lost by that: as the thread begins or ends, as it
# gives back what its work is done with, or as it waits for work while nobody has any more. So is the lack of memory for
# the files that the next pass would be told of.
DROPPED = (
    "atoms.runtime SafeStart.",
    "atoms.times WorkTimes.leave return",
    "io.sources known_files_of",
    "stream.stream Stream.known_files return",
    "stream.scope Scope.",
    "stream.feed Feed.end return",
    "stream.feed Feed.next_pass return",
)
IDLE = (
    "atoms.times ThreadTimes.",
    "handoff.objects SimpleQueue.put return",
    "handoff.objects SimpleQueue.get return",
    "handoff.objects _Store._wait",
)

pytestmark = [pytest.mark.thorough, pytest.mark.watchdog(900)]


@pytest.fixture(scope="session")
def library(run_folder):
    """The library that decides which site raises; the tree is there as well."""
    build()
    return compile_library(run_folder)


def judge(result, least):
    """Judge what came of the sites: at least so many there were."""
    for outcome in result["wrong"]:
        print(outcome["n"], outcome["site"], outcome["kind"], outcome["came"], outcome["wrong"], sep="\n")
    assert not result["wrong"], [outcome["site"] for outcome in result["wrong"]]
    assert result["sites"] >= least
    assert result["came"].get("came out", 0) >= 0.9 * result["sites"]
    assert [site for site in result["swallowed"] if not site.startswith((*DROPPED, *IDLE))] == []


def test_every_site_is_reached_or_has_a_reason(library):
    command = [sys.executable, "-P", str(ROOT / ".ci/check_reached.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("scenario", MAIN)
def test_on_the_way_to_the_caller(library, tmp_path, scenario):
    judge(run(library, tmp_path, scenario, "main"), 100)


@pytest.mark.parametrize("scenario", QUEUES)
def test_queues_and_readers(library, tmp_path, scenario):
    judge(run(library, tmp_path, scenario, "main"), 40)


@pytest.mark.parametrize("scenario", OTHERS)
def test_in_threads_that_run_functions(library, tmp_path, scenario):
    judge(run(library, tmp_path, scenario, "others"), 10)
