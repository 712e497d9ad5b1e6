"""Programs of TensorFlow 1, run with `queuecore.tf1` and with TensorFlow: the same results, and the same errors.

What TensorFlow gives is recorded; the record is compared with TensorFlow itself where there is a Python that has it:
the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import os
import pathlib
import subprocess

import pytest
from helpers.process import PATIENCE, soon, thread_ids
from helpers.tensorflow import tf1_scenarios
from helpers.tensorflow.peers import PYTHON, asks_tensorflow
from helpers.tensorflow.tf1_scenarios import DIFFERENT, RECORDED, SCENARIOS, outcomes

import queuecore.tf1 as tf

tf1_scenarios.load()

THEIRS = json.loads(RECORDED.read_text())


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(DIFFERENT)))
def test_as_tensorflow_does(name):
    assert outcomes(tf, [name])[name] == THEIRS[name]


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_ours_differs(name):
    assert outcomes(tf, [name])[name] == json.loads(json.dumps(DIFFERENT[name])) != THEIRS[name]


def test_nothing_else_is_recorded():
    assert set(THEIRS) == set(SCENARIOS)


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    done = subprocess.run(
        [PYTHON, "-P", tf1_scenarios.__file__],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(tf1_scenarios.__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == THEIRS
