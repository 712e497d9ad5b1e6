"""The runner of peers' tests: our names under theirs, what doesn't apply, tests that hang, and the table."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conformance import run
from conformance.child import Rules

TESTS = Path(__file__).resolve().parents[2]

OF_DATASETS = """
import os

from absl.testing import parameterized
from tensorflow.python.data.kernel_tests import checkpoint_test_base, test_base
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.distribute import strategies
from tensorflow.python.framework import combinations, dtypes, errors, test_util
from tensorflow.python.ops import array_ops, made_up_ops, math_ops
from tensorflow.python.platform import test


class Of(test_base.DatasetTestBase, parameterized.TestCase):
    @combinations.generate(
        combinations.times(test_base.default_test_combinations(), combinations.combine(count=[1, 2]))
    )
    def testBothModes(self, count):
        dataset = dataset_ops.Dataset.range(count).map(math_ops.square).batch(2)
        self.assertDatasetProduces(dataset, [list(range(count))])
        self.assertEqual(dtypes.int64, dataset_ops.get_legacy_output_types(dataset))

    @combinations.generate(test_base.default_test_combinations())
    def testError(self):
        with self.assertRaises(errors.InvalidArgumentError):
            self.evaluate(dataset_ops.Dataset.range(3).batch(0)._variant_tensor)

    @parameterized.named_parameters(("One", 1), ("Two", 2))
    def testNamed(self, number):
        self.assertEqual(number, 1)

    def testUnknownName(self):
        array_ops.no_such_operation(1)

    def testDistributed(self):
        strategies.Mirrored()

    def testSkips(self):
        self.skipTest("not here")

    @made_up_ops.decorated
    def testDecorated(self):
        pass

    def testEndsTheProcess(self):
        os._exit(3)

    def testZ(self):
        pass


class Saved(checkpoint_test_base.CheckpointTestBase, parameterized.TestCase):
    @combinations.generate(
        combinations.times(test_base.default_test_combinations(), checkpoint_test_base.default_test_combinations())
    )
    def test(self, verify_fn):
        verify_fn(self, lambda: dataset_ops.Dataset.range(9).shuffle(3, seed=1), num_outputs=9)
"""

OF_GRAPHS = """
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import dtypes as dtypes_lib, ops, test_util
from tensorflow.python.ops import data_flow_ops
from tensorflow.python.platform import test
import tensorflow.python.ops.nn_grad


@test_util.run_all_in_graph_and_eager_modes
class Queue(test.TestCase):
    def testQueue(self):
        queue = data_flow_ops.FIFOQueue(3, dtypes_lib.float32)
        self.evaluate(queue.enqueue((10.0,)))
        self.assertEqual(10.0, self.evaluate(queue.dequeue()))
        self.assertFalse(context.executing_eagerly())

    @test_util.run_deprecated_v1
    def testPublicNames(self):
        with tf.Session() as session:
            self.assertEqual(3, session.run(tf.constant(1) + 2))


if __name__ == "__main__":
    test.main()
"""


@pytest.fixture
def peer(tmp_path):
    """A folder with the layout of TensorFlow's tests, with two modules of our own."""
    of_datasets = tmp_path / "tensorflow/python/data/kernel_tests/made_test.py"
    of_graphs = tmp_path / "tensorflow/python/kernel_tests/queue_test.py"
    for path, text in ((of_datasets, OF_DATASETS), (of_graphs, OF_GRAPHS)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (of_graphs.parent / "broken_test.py").write_text("raise RuntimeError('not today')\n")
    (of_graphs.parent / "helper.py").write_text("raise RuntimeError('no test')\n")
    return tmp_path


def outcomes(outcome: run.Outcome) -> dict[str, str]:
    return {name.partition(":")[2]: test["outcome"] for name, test in outcome.tests.items()}


def test_tests_of_datasets_run_in_graphs_and_eagerly(peer, tmp_path):
    file = peer / "tensorflow/python/data/kernel_tests/made_test.py"
    outcome = run.run_module(peer, file, tmp_path / "out", 100, 50)
    named = outcomes(outcome)
    saved = {name: named.pop(name) for name in list(named) if name.startswith("Saved.")}
    assert named == {
        "Of.testBothModes__mode_graph__count_1": "passed",
        "Of.testBothModes__mode_graph__count_2": "passed",
        "Of.testBothModes__mode_eager__count_1": "passed",
        "Of.testBothModes__mode_eager__count_2": "passed",
        "Of.testError__mode_graph": "passed",
        "Of.testError__mode_eager": "passed",
        "Of.testNamed__One": "passed",
        "Of.testNamed__Two": "failed",
        "Of.testUnknownName": "failed",
        "Of.testDecorated": "failed",
        "Of.testDistributed": "not applying",
        "Of.testSkips": "not applying",
        "Of.testEndsTheProcess": "failed",
        "Of.testZ": "passed",
    }
    # Graphs have no saved places; eagerly one of five ways of verifying is for graphs alone.
    assert sorted(saved.values()) == ["not applying"] * 6 + ["passed"] * 4
    told = {test["test"].rpartition(".")[2]: test.get("reason", "") for test in outcome.tests.values()}
    assert "queuecore has no tensorflow.python.ops.array_ops.no_such_operation" in told["testUnknownName"]
    assert "queuecore has no tensorflow.python.ops.made_up_ops.decorated" in told["testDecorated"]


def test_tests_of_graphs_run_once_and_the_page_has_the_table(peer, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"Head\n\n{run.BEGIN}\nold\n{run.END}\n\nTail\n")
    monkeypatch.setenv("QUEUECORE_PEER_TESTS", str(peer))
    (peer / "tensorflow/python/data/kernel_tests/made_test.py").unlink()
    assert run.main(["queue_test", "--page", str(page), "--build", str(tmp_path / "build")]) == 0
    assert "queue_test.py: 2 passed, 0 failed" in capsys.readouterr().out
    assert "old" in page.read_text()  # a part of the modules is no table
    assert run.main(["--page", str(page), "--build", str(tmp_path / "build")]) == 0
    text = page.read_text()
    assert text.startswith("Head") and text.endswith("Tail\n") and "old" not in text
    assert "| `tensorflow/python/kernel_tests/queue_test.py` | 2 | 2 | 0 | 0 |" in text
    assert "can't be run: RuntimeError: not today" in text
    assert "| all | 2 | 2 | 0 | 0 |" in text


def test_a_test_that_takes_too_long_fails_and_the_others_run(tmp_path):
    file = tmp_path / "tensorflow/python/kernel_tests/slow_test.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import subprocess, time, unittest\n\n\nclass Slow(unittest.TestCase):\n"
        "    def testA(self):\n        subprocess.Popen(['sleep', '90'])\n        time.sleep(60)\n\n"
        "    def testB(self):\n        pass\n"
    )
    begun = time.monotonic()
    found = run.run_module(tmp_path, file, tmp_path / "out", 100, 0.5)
    assert outcomes(found) == {"Slow.testA": "failed", "Slow.testB": "passed"}
    assert time.monotonic() - begun < 60  # the process that the test left isn't waited for


def test_a_process_that_a_test_spawns_has_our_names(tmp_path):
    file = tmp_path / "tensorflow/python/kernel_tests/spawn_test.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import multiprocessing, unittest\nfrom tensorflow.python.framework import dtypes\n\n\n"
        "def name(queue):\n    queue.put(dtypes.int32.name)\n\n\nclass Spawns(unittest.TestCase):\n"
        "    def test(self):\n        context = multiprocessing.get_context('spawn')\n"
        "        queue = context.SimpleQueue()\n        child = context.Process(target=name, args=(queue,))\n"
        "        child.start()\n        self.assertEqual(queue.get(), 'int32')\n        child.join()\n"
    )
    assert outcomes(run.run_module(tmp_path, file, tmp_path / "out", 100, 50)) == {"Spawns.test": "passed"}


def test_without_a_folder_the_command_says_so(monkeypatch, capsys):
    monkeypatch.delenv("QUEUECORE_PEER_TESTS", raising=False)
    monkeypatch.delenv("QUEUECORE_TENSORFLOW_PYTHON", raising=False)
    assert run.main([]) == 2
    assert "QUEUECORE_PEER_TESTS" in capsys.readouterr().err


def test_every_rule_has_a_reason_and_patterns():
    rules = Rules()
    for rule in rules.listed:
        assert rule.keys() <= {"reason", "tests", "names", "errors"}
        assert rule["reason"] and len(rule) > 1
    assert rules.of_test("tensorflow.python.distribute.x_test:A.b") is not None
    assert rules.of_test("tensorflow.python.data.kernel_tests.map_test:A.b") is None


def test_the_hook_can_be_taken_out(tmp_path):
    code = (
        "import sys; from pathlib import Path; from conformance.facades import install\n"
        "end = install(Path('.'))\n"
        "from tensorflow.python.framework import dtypes\n"
        "print(dtypes.int32.name)\n"
        "end()\n"
        "print('tensorflow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env={"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["int32", "False"]
