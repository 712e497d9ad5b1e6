"""The search runs each step to its end, takes the halves of the thorough tests by turns, and keeps three runs."""

import importlib.machinery
import importlib.util
import sys

import pytest
from helpers.repository.failures import ROOT

HALF = 'test "$QUEUECORE_SEARCH" = 1 && echo "half $QUEUECORE_SEARCH_HALF"'
FAILING = "echo 'FAILED tests/unit/test_x.py::test_y[two words] - why'; echo half $QUEUECORE_SEARCH_HALF; exit 1"


@pytest.fixture
def nightly(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("nightly", str(ROOT / ".ci/nightly"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("nightly", loader))
    loader.exec_module(module)
    monkeypatch.setattr(
        module, "STEPS", {"test": ["sh", "-c", HALF], "thorough": ["sh", "-c", FAILING], "soak": ["true"]}
    )
    monkeypatch.setattr(module, "TABLE", tmp_path / "nightly.txt")
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(module, "PACKAGES", ["true"])
    return module


def searched(nightly, monkeypatch, *steps):
    monkeypatch.setattr(sys, "argv", ["nightly", *steps])
    failed = nightly.main()
    return failed, (nightly.LOGS / "thorough.log").read_text().splitlines()[-1]


def test_runs_are_kept(nightly, monkeypatch):
    monkeypatch.setattr(nightly, "commit", iter("abcd").__next__)
    for half in (1, 2, 1, 2):
        assert searched(nightly, monkeypatch) == (1, f"half {half}")
    runs = nightly.earlier_runs()
    assert [[row.split(" | ")[0] for row in run] for run in runs] == [["b"] * 3, ["c"] * 3, ["d"] * 3]
    assert [row.split(" | ")[3:5] + row.split(" | ")[6:] for row in runs[0]] == [
        ["test", "passed"],
        ["thorough, half 2", "failed", "tests/unit/test_x.py::test_y[two words]"],
        ["soak", "passed"],
    ]


def test_some_steps_are_no_run_of_the_search(nightly, monkeypatch):
    assert searched(nightly, monkeypatch, "thorough") == (1, "half 0")
    assert not nightly.TABLE.exists()
    with pytest.raises(SystemExit, match="no such step: no_step"):
        searched(nightly, monkeypatch, "no_step")


def test_a_step_that_is_out_of_time_is_named_and_the_rest_not_run(nightly, monkeypatch):
    monkeypatch.setattr(nightly, "LIMIT_SECONDS", 1)
    monkeypatch.setattr(nightly, "STEPS", {"test": ["sh", "-c", "exec sleep 60"], "soak": ["true"]})
    monkeypatch.setattr(sys, "argv", ["nightly"])
    assert nightly.main() == 1
    (rows,) = nightly.earlier_runs()
    assert [row.split(" | ")[4] for row in rows] == ["out of time", "not run"]
