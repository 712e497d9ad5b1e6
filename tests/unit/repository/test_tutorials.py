"""The tutorials' programs, examples/tutorials: each runs to its end, and finds what it asserts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.process import PATIENCE

FOLDER = Path(__file__).parents[3] / "examples" / "tutorials"
PROGRAMS = sorted(FOLDER.glob("*.py"))

# Which runners are native, by a part of their queue's name.
LOWERED = {"csv_files": "batch", "cifar10": "shuffle_batch"}


def test_all_of_them_are_there():
    assert len(PROGRAMS) == 13


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.stem)
def test_program(program, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("QUEUECORE")}
    environment["TMPDIR"] = os.fspath(tmp_path)  # they leave files there
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    if program.stem not in ("blocking_queue",):  # tf.Print writes there
        assert done.stderr == ""
    part = LOWERED.get(program.stem)
    if part is not None:
        assert any(part in line and line.rstrip(",]").endswith(": lowered") for line in done.stdout.splitlines())
