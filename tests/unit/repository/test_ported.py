"""The programs of examples/ported: each runs to its end with queuecore, and with one import changed with TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.process import PATIENCE
from helpers.tensorflow.peers import PYTHON, asks_tensorflow

FOLDER = Path(__file__).parents[3] / "examples" / "ported"
PROGRAMS = sorted(FOLDER.glob("*.py"))
OURS = "import queuecore.tf1 as tf\n"
THEIRS = "import tensorflow.compat.v1 as tf\n\ntf.disable_v2_behavior()\n"
# What left TensorFlow with its version 1
WITHOUT = {"slim_provider": "tf.contrib"}


def run(command, **environment):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("QUEUECORE")}
    done = subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_all_of_them_are_there():
    assert [one.stem for one in PROGRAMS] == [
        "cifar10_input", "im2txt_inputs", "inception_images", "ptb_reader", "slim_provider"
    ]  # fmt: skip
    assert all(one.read_text().count(OURS) == 1 for one in PROGRAMS)


@pytest.mark.watchdog(90)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.stem)
def test_program(program):
    assert run([sys.executable, "-W", "error", str(program)]).stderr == ""


@asks_tensorflow
@pytest.mark.watchdog(300)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.stem)
def test_program_with_tensorflow(program, tmp_path):
    if program.stem in WITHOUT:
        pytest.skip(f"TensorFlow 2 has no {WITHOUT[program.stem]}")
    changed = tmp_path / program.name
    changed.write_text(program.read_text().replace(OURS, THEIRS))
    assert PYTHON is not None
    theirs = run([PYTHON, str(changed)], TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="").stdout
    assert theirs == run([sys.executable, str(program)]).stdout
