"""The same programs with TensorFlow's coordinator and runners, in a process of their own, and with ours."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from helpers import runtime_scenarios
from helpers.runtime_scenarios import DIFFERENT, SCENARIOS, Ours


@pytest.fixture(scope="module")
def tensorflows():
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed in this environment")
    child = subprocess.run(
        [sys.executable, "-P", runtime_scenarios.__file__],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - set(DIFFERENT)))
def test_as_tensorflow_does(tensorflows, name):
    ours = SCENARIOS[name](Ours())
    # The straggler's error is a RuntimeError of our own.
    renamed = json.loads(json.dumps(ours).replace("FailedPreconditionError", "RuntimeError"))
    assert renamed == tensorflows[name]


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_ours_differs(name):
    assert SCENARIOS[name](Ours()) == DIFFERENT[name][1]


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_where_tensorflows_differs(tensorflows, name):
    assert tensorflows[name] == DIFFERENT[name][0]
