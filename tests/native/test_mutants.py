"""Mistakes in the queues' native code: the judge of concurrent histories must find every one of them.

Each runs in a process of its own on one copy of the package (mutants.py), until the first history that no queue can
have, the first call that never ends, or the first wrong count. The same copy without a mistake passes the same runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutants import MUTANTS, ROOT, VARIABLE, Edit, Mistake, Stale, build, mutated, sources  # noqa: E402

sys.path.pop(0)

spec = importlib.util.find_spec("queuecore")
PACKAGE = Path(spec.origin).parent if spec and spec.origin else None
if PACKAGE != ROOT / "queuecore" or os.environ.get("QUEUECORE_SANITIZED_TREE"):
    pytest.skip("for the package that is built here", allow_module_level=True)

# Until a call that should be over counts as one that never will be. Long where nothing may go wrong.
SHORTLY, LONG = 1, 20
ROUNDS, ROUNDS_WITHOUT = 3000, 40
TRIES = 5


@pytest.fixture(scope="module")
def tree(run_folder: Path) -> Path:
    # What has the queues' code in it: the classes, and what runs the hand-off alone.
    extensions = ["handoff.queues", "handoff.slots", "testing.hand", "testing.schedule_atoms"]
    return build(PACKAGE, run_folder / "mutants", MUTANTS, *extensions)


def searched(tree: Path, number: int, threads: str, workload: str, patience: float, rounds: int):
    """Return what is wrong in the histories of one mutant; 0 is none."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))}
    environment |= {VARIABLE: str(number), "PYTHONPATH": f"{tree}{os.pathsep}{ROOT / 'tests'}"}
    arguments = [threads, workload, str(tree), str(patience), str(rounds)]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "helpers.queues.histories", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
        )
    except subprocess.TimeoutExpired:
        return "nothing came to an end"
    assert done.stdout, f"{done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)


def test_every_mistake_has_its_place():
    assert len(sources(MUTANTS)) > 1


@pytest.mark.thorough
@pytest.mark.watchdog(400)
@pytest.mark.parametrize("runs", sorted({(one.threads, one.workload) for one in MUTANTS}), ids=" ".join)
def test_the_copy_without_a_mistake_passes(tree, runs):
    assert searched(tree, 0, *runs, LONG, ROUNDS_WITHOUT) is None


@pytest.mark.thorough
@pytest.mark.watchdog(400)
@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=lambda number: MUTANTS[number - 1].name)
def test_a_mistake_is_found(tree, number):
    one = MUTANTS[number - 1]
    # Whether threads meet in the wrong moment is luck, of which a busy machine gives less.
    assert any(searched(tree, number, one.threads, one.workload, SHORTLY, ROUNDS) is not None for _ in range(TRIES))


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(Edit("a.pxd f", "x = 1"), id="twice"),
        pytest.param(Edit("a.pxd g", "y = 2"), id="not there"),
        pytest.param(Edit("a.pxd h", "x = 1"), id="no such function"),
        pytest.param(Edit("a.pxd g", "z"), id="twice in a line"),
        pytest.param(Edit("a.pxd f 1/3", "x = 1"), id="not three times"),
        pytest.param(Edit("a.pxd g", "return x", "return again"), id="a name that only a comment has"),
    ],
)
def test_a_mistake_that_fits_nowhere_is_an_error(edit):
    source = "cdef int f():\n    x = 1\n    x = 1  # again\n\n\ncdef int g():\n    x = z + z\n    return x\n"
    with pytest.raises(Stale):
        mutated("a.pxd", source, [Mistake("a mistake", (edit,))])
