"""Numbers that no size can be, wherever a number can be given: a named error, or what was asked for; never a crash.

The cases are in `helpers.faults.sizes`. They run in a process of their own, whose address space is limited: what would
take the memory of the machine fails there.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from helpers.faults import sizes
from helpers.process import _environment

FILE = pathlib.Path(sizes.__file__)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sizes")
    sizes.prepare(made)
    return made


def outcomes(folder, group):
    """Run all cases of a group, those after a crash in a new process; return [name, value, outcome, words] of each."""
    environment = {**_environment(), "QUEUECORE_SIZES_FOLDER": os.fspath(folder)}
    results = []
    while True:
        child = subprocess.run(
            [sys.executable, "-P", FILE, group, str(len(results))],
            env=environment,
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        results += [line for line in lines if line[2] != "begun"]
        if not lines or lines[-1][2] != "begun":
            assert child.returncode == 0, child.stderr
            return results
        results.append([*lines[-1][:2], "died", f"exit code {child.returncode}: {child.stderr[-2000:]}"])


@pytest.mark.thorough
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer takes more addresses than the limit leaves")
@pytest.mark.parametrize("group", sizes.GROUPS)
def test_every_number_is_refused_by_name_or_works(folder, group):
    found = outcomes(folder, group)
    assert len(found) == len(sizes.GROUPS[group]) * len(sizes.values_of(group))
    assert [one for one in found if one[2] not in ("fine", "named")] == []
    # No case is refused whatever the number is, but those that need another number for anything to fit.
    assert {one[2] for one in found} == {"fine", "named"}


def test_a_case_that_crashes_is_told(folder, monkeypatch):
    code = 'import sys; print(\'["a", "1", "begun", ""]\', flush=True); import os; os.abort()'
    run = subprocess.run

    def crashes(command, **options):
        return run([sys.executable, "-c", code if command[-1] == "0" else ""], **options)

    monkeypatch.setattr(subprocess, "run", crashes)
    (only,) = outcomes(folder, "queues")
    assert only[:3] == ["a", "1", "died"]
