"""The programs of examples/ beside the tutorials': each runs to its end; and the index names all there are."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.process import PATIENCE

FOLDER = Path(__file__).parents[3] / "examples"
# What they need that may be absent.
NEEDED = {"pytorch_training": "torch", "imagenet": "torch", "jax_training": "jax", "imagenet_jax": "jax"}
PROGRAMS = [
    pytest.param(one, id=one.stem, marks=pytest.mark.doors if one.stem in NEEDED else ())
    for one in sorted(FOLDER.glob("*.py"))
]


def test_all_of_them_are_in_the_index():
    named = re.findall(r"\]\(([\w/]+\.py)\)", (FOLDER / "README.md").read_text())
    assert sorted(named) == sorted(str(one.relative_to(FOLDER)) for one in FOLDER.rglob("*.py"))


@pytest.mark.watchdog(90)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program, tmp_path):
    package = NEEDED.get(program.stem)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make doors")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("QUEUECORE")}
    environment["TMPDIR"] = os.fspath(tmp_path)  # they leave files there
    # Other packages warn while they are imported.
    options = ["-W", "error"] if package is None else []
    command = [sys.executable, *options, str(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    if package is None:
        assert done.stderr == ""
