"""Pipelines against tf.data itself, in a child process: the same elements in the same order, with and without seeds.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import random
import subprocess

import pytest
from helpers.process import put_temporary_files
from helpers.tensorflow import data as tensorflow_data
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

import queuecore as qc
from queuecore.data import Dataset

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(600),
]


@pytest.fixture(autouse=True)
def _temporary_files(monkeypatch, tmp_path):
    put_temporary_files(monkeypatch, tmp_path)  # snapshots


def chain(state: random.Random) -> list[list[object]]:
    """A pipeline of numbers, with batches at its end."""
    steps: list[list[object]] = [["range", state.randint(0, 40)]]
    for _ in range(state.randint(0, 5)):
        steps.append(
            state.choice(
                [
                    ["take", state.randint(-1, 30)],
                    ["skip", state.randint(0, 12)],
                    ["repeat", state.randint(0, 3)],
                    ["shuffle", state.randint(1, 50), state.randint(1, 5)],
                    ["shuffle", state.randint(1, 9), state.randint(1, 5), False],
                    ["shard", 3, state.randint(0, 2)],
                    ["affine", state.randint(-2, 3), state.randint(0, 9)],
                    ["divisible", state.randint(1, 4)],
                    ["below", state.randint(0, 50)],
                    ["sums"],
                    ["ranges", state.randint(1, 4), state.randint(1, 3)],
                    ["windows", state.randint(1, 4), state.randint(1, 3), state.randint(1, 2), state.random() < 0.5],
                    ["concatenate", {"of": [["range", state.randint(0, 9)], ["repeat", 2]]}],
                    ["choose", {"of": [["range", state.randint(0, 9)]]}],
                    ["cache"],
                    ["prefetch", 2],
                ]
            )
        )
        if steps[-1] == ["repeat", 0] and steps[-2][0] == "shuffle":
            steps.pop()  # TensorFlow makes one step of the two, and refuses it
        if steps[-1][0] == "windows":
            steps.append(["unbatch"])
    last = state.random()
    if last < 0.3:
        steps.append(["zip", {"of": [["range", 25], ["shuffle", 7, 2]]}])
        steps.append(["batch", state.randint(1, 7), state.random() < 0.5])
    elif last < 0.5:
        steps.append(["enumerate", 5])
    elif last < 0.8:
        steps += [["batch", state.randint(1, 7), True], ["shuffle", 3, 4], ["unbatch"]]
    else:
        size = state.randint(1, 7)
        steps += {6: [["listed"], ["batch", 3]], 7: [["sum"]]}.get(size, [["batch", size]])
    return steps


def snapshots(state: random.Random) -> list[list[object]]:
    """A pipeline with a snapshot, all of which is read: else it depends on how far ahead that happens."""
    steps: list[list[object]] = [["range", state.randint(0, 40)]]
    for most in (state.randint(0, 2), state.randint(0, 3)):
        for _ in range(most):
            steps.append(
                state.choice(
                    [
                        ["skip", state.randint(0, 12)],
                        ["repeat", state.randint(1, 3)],
                        ["shuffle", state.randint(1, 50), state.randint(1, 5)],
                        ["affine", state.randint(-2, 3), state.randint(0, 9)],
                        ["divisible", state.randint(1, 4)],
                        ["ranges", state.randint(1, 4), state.randint(1, 3)],
                        ["concatenate", {"of": [["range", state.randint(0, 9)], ["repeat", 2]]}],
                        ["prefetch", 2],
                    ]
                )
            )
        if not any(step[0] == "kept" for step in steps):
            steps.append(["kept", state.randint(1, 4)])
    return [*steps, ["batch", state.randint(1, 7)]]


def failures(state: random.Random) -> list[list[object]]:
    """A pipeline whose functions fail for some numbers.

    Without batches that an error cuts short (TensorFlow drops what is good of them), and without skip and shard behind
    a function that fails: there TensorFlow forgets how many it had left out before an error.
    """
    steps: list[list[object]] = [["range", state.randint(0, 40)]]
    for _ in range(state.randint(1, 4)):
        steps.append(
            state.choice(
                [
                    ["fails", state.randint(2, 9), state.randint(0, 1)],
                    ["fails", state.randint(2, 9), state.randint(0, 1)],
                    ["refuses", state.randint(2, 9), state.randint(0, 1)],
                    ["take", state.randint(-1, 30)],
                    ["repeat", state.randint(1, 3)],
                    ["shuffle", state.randint(1, 9), state.randint(1, 5)],
                    ["affine", state.randint(1, 3), state.randint(0, 9)],
                    ["divisible", state.randint(1, 4)],
                    ["below", state.randint(0, 50)],
                    ["ranges", state.randint(1, 4), state.randint(1, 3)],
                    ["concatenate", {"of": [["range", state.randint(0, 9)], ["fails", 3, 1]]}],
                    ["choose", {"of": [["range", state.randint(0, 9)], ["fails", 4, 2]]}],
                    ["prefetch", 2],
                    ["ignore_errors"],
                ]
            )
        )
    last = state.random()
    if last < 0.3:
        steps.append(["zip", {"of": [["range", 25], ["fails", 5, 3], ["shuffle", 7, 2]]}])
        steps += [["ignore_errors"]] * state.randint(0, 1)
    elif last < 0.5:
        steps.append(["enumerate", 5])
    elif last < 0.8:
        steps.append(["batch", state.randint(1, 4), True])
    return steps


def test_random_pipelines():
    state = random.Random(1)
    calls = [{"seed": state.randint(1, 3), "steps": chain(state)} for _ in range(400)]
    calls += [{"seed": state.randint(1, 3), "steps": snapshots(state)} for _ in range(100)]
    compare(calls)


def test_random_pipelines_that_fail():
    state = random.Random(2)
    compare([{"seed": state.randint(1, 3), "steps": failures(state), "events": True} for _ in range(200)])


def compare(calls):
    command = [PYTHON, "-P", tensorflow_data.__file__]
    done = subprocess.run(command, input=json.dumps(calls), capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    for call, expected in zip(calls, json.loads(done.stdout), strict=True):
        got = tensorflow_data.answer(qc, Dataset, qc.set_random_seed, call)
        qc.set_random_seed(None)
        assert got == expected or len(expected) == len(got) == 1, call
