"""The same programs with TensorFlow's coordinator and runners, in a process of their own, and with ours."""

import json
import os
import subprocess

import pytest
from helpers.tensorflow import runtime_scenarios
from helpers.tensorflow.peers import PYTHON, asks_tensorflow
from helpers.tensorflow.runtime_scenarios import DIFFERENT, SCENARIOS, Ours


@pytest.fixture(scope="module")
def tensorflows():
    child = subprocess.run(
        [PYTHON, "-P", runtime_scenarios.__file__],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


@asks_tensorflow
@pytest.mark.watchdog(600)
@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(DIFFERENT)))
def test_as_tensorflow_does(tensorflows, name):
    ours = SCENARIOS[name](Ours())
    # The straggler's error is a RuntimeError of our own.
    renamed = json.loads(json.dumps(ours).replace("FailedPreconditionError", "RuntimeError"))
    assert renamed == tensorflows[name]


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_ours_differs(name):
    assert SCENARIOS[name](Ours()) == DIFFERENT[name][1]


@asks_tensorflow
@pytest.mark.watchdog(600)
@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_tensorflows_differs(tensorflows, name):
    assert tensorflows[name] == DIFFERENT[name][0]
