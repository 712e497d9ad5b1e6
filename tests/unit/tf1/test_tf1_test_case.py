"""`queuecore.tf1.test`: the class of test cases that programs of TensorFlow's bring with them."""

import os
import random
import re
import subprocess
import sys
import unittest

import numpy as np
import pytest

import queuecore.tf1 as tf


class Case(tf.test.TestCase):
    __test__ = False

    def runTest(self):
        pass


@pytest.fixture
def case():
    made = Case()
    made.setUp()
    yield made
    made.tearDown()


def test_a_test_begins_anew(case):
    a = case.get_temp_dir()
    assert os.path.isdir(a) and a.startswith(tf.test.get_temp_dir()) and a == case.get_temp_dir()
    first = random.random(), np.random.rand()
    graph = tf.get_default_graph()
    assert graph.seed == 87654321
    again = Case()
    again.setUp()
    assert (random.random(), np.random.rand()) == first and tf.get_default_graph() is not graph
    assert again.get_temp_dir() != a


def test_sessions(case):
    assert tf.get_default_session() is None
    x = tf.constant([1, 2])
    with case.cached_session() as first:
        assert tf.get_default_session() is first
        assert case.evaluate(x).tolist() == [1, 2] == x.eval().tolist()
        with case.test_session() as second:
            assert second is first
        with case.session() as other:
            assert other is not first and tf.get_default_session() is other
        with pytest.raises(RuntimeError, match="closed"):
            other.run(x)
    with pytest.raises(ValueError, match="different"), case.cached_session(graph=tf.Graph()):
        pass
    with pytest.raises(ValueError, match="different"), case.cached_session(config=tf.ConfigProto()):
        pass
    with tf.Graph().as_default() as graph, case.test_session(graph=graph):
        assert tf.get_default_session().graph is graph
    assert case.evaluate({"x": x})["x"].tolist() == [1, 2]
    case.tearDown()
    with pytest.raises(RuntimeError, match="closed"):
        first.run(x)


def test_errors_of_operations(case):
    with case.cached_session() as sess:
        wrong = tf.Assert(False, ["what"], name="check")
        with case.assertRaisesOpError("assertion failed.*what"):
            sess.run(wrong)
        with case.assertRaisesOpError("Caused by op: check"):
            sess.run(wrong)
        with case.assertRaisesWithPredicateMatch(tf.errors.InvalidArgumentError, lambda e: e.op is wrong):
            sess.run(wrong)
        with pytest.raises(AssertionError, match="assertion failed"), case.assertRaisesOpError("something else"):
            sess.run(wrong)
        with pytest.raises(AssertionError, match="no error of an op"), case.assertRaisesOpError("no error"):
            raise ValueError("no error of an op")
        with pytest.raises(AssertionError, match="QueueCoreError not raised"), case.assertRaisesOpError("x"):
            pass
        with pytest.raises(KeyboardInterrupt), case.assertRaisesOpError("x"):
            raise KeyboardInterrupt
    with case.assertRaisesRegexp(ValueError, "ab+"):
        raise ValueError("abb")
    with case.assertRaisesIncompatibleShapesError(ValueError):
        tf.TensorShape([2]).assert_is_compatible_with([3])


def fails(what, *args, **named):
    with pytest.raises(AssertionError):
        what(*args, **named)


def test_equal(case):
    case.assertAllEqual([1, 2], np.array([1, 2]))
    case.assertAllEqual(["a", b"b"], np.array([b"a", b"b"], object))
    case.assertAllEqual(b"a\0", "a\0")
    case.assertAllEqual([float("nan"), 1.0], np.array([np.nan, 1]))
    case.assertAllEqual([[1], [2, 3]], [[1], [2, 3]])
    case.assertAllEqual(tf.constant([1, 2]), [1, 2])
    case.assertAllEqual([], np.zeros(0))
    fails(case.assertAllEqual, [1, 2], [1, 3])
    fails(case.assertAllEqual, [1, 2], [[1, 2]])
    fails(case.assertAllEqual, 1, [1])
    fails(case.assertAllEqual, b"a\0", b"a")
    fails(case.assertAllEqual, [[1], [2, 3]], [[1], [2, 4]])
    fails(case.assertAllEqual, [[1], [2, 3]], [[1]])
    case.assertNotAllEqual([1, 2], [1, 3])
    fails(case.assertNotAllEqual, [1], [1])


def test_near(case):
    case.assertAllClose([1.0, 2.0], np.array([1.0000001, 2]))
    case.assertAllClose({"a": 1.0, "b": [2.0]}, {"a": 1.0, "b": np.array([2.0])})
    case.assertAllClose([np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)])
    case.assertAllClose(np.float16(1), np.float16(1.005))
    case.assertAllClose(tf.constant(1.0), 1.0)
    fails(case.assertAllClose, [1.0], [1.1])
    fails(case.assertAllClose, [1.0], [1.0, 1.0])
    fails(case.assertAllClose, {"a": 1.0}, {"b": 1.0})
    fails(case.assertAllClose, {"a": 1.0}, [1.0])
    fails(case.assertAllClose, [np.ones(2), np.ones(3)], [np.ones(2)])
    case.assertAllCloseAccordingToType(np.float32(1), np.float32(1.0001), float_rtol=1e-3)
    fails(case.assertAllCloseAccordingToType, np.float64(1), np.float64(1.0001), float_rtol=1e-3)
    case.assertNotAllClose([1.0], [1.1])
    fails(case.assertNotAllClose, [1.0], [1.0])
    case.assertNear(1.0, 1.1, 0.2)
    fails(case.assertNear, 1.0, 1.3, 0.2)
    case.assertNear(float("inf"), float("inf"), 0)
    case.assertArrayNear([1, 2], [1, 2.1], 0.2)
    fails(case.assertArrayNear, [1, 2], [1, 2.3], 0.2)
    case.assertNDArrayNear(np.ones(2), np.ones(2) + 0.01, 0.1)
    fails(case.assertNDArrayNear, np.ones(2), np.ones(2) + 0.1, 0.1)


def test_order_and_range(case):
    case.assertAllGreater([2, 3], 1)
    fails(case.assertAllGreater, [2, 1], 1)
    case.assertAllGreaterEqual([2, 1], 1)
    fails(case.assertAllGreaterEqual, [2, 0], 1)
    case.assertAllLess([2, 3], 4)
    fails(case.assertAllLess, [2, 4], 4)
    case.assertAllLessEqual([2, 4], 4)
    fails(case.assertAllLessEqual, [2, 5], 4)
    case.assertAllInRange([1, 2], 1, 2)
    fails(case.assertAllInRange, [1, 2], 1, 2, open_upper_bound=True)
    fails(case.assertAllInRange, [1, 2], 1, 2, open_lower_bound=True)
    fails(case.assertAllInRange, ["a"], 1, 2)
    case.assertAllInSet([1, 1, 2], {1, 2})
    fails(case.assertAllInSet, [1, 3], {1, 2})
    case.assertBetween(2, 1, 3)
    fails(case.assertBetween, 4, 1, 3)


def test_facts_and_containers(case):
    x = tf.constant(np.ones((2, 3), np.int64))
    case.assertShapeEqual(np.ones((2, 3)), x)
    fails(case.assertShapeEqual, np.ones((3, 2)), x)
    case.assertDTypeEqual(x, np.int64)
    fails(case.assertDTypeEqual, x, np.int32)
    case.assertDeviceEqual(x.device, None)
    fails(case.assertDeviceEqual, "/cpu:0", None)
    case.assertStartsWith("abc", "ab")
    fails(case.assertStartsWith, "abc", "b")
    case.assertEndsWith("abc", "bc")
    fails(case.assertEndsWith, "abc", "b")
    case.assertItemsEqual([1, 2, 2], [2, 1, 2])
    fails(case.assertItemsEqual, [1, 2, 2], [2, 1, 1])
    case.assertSameElements([1, 2, 2], [2, 1])
    fails(case.assertSameElements, [1], [1, 2])
    case.assertEmpty([])
    fails(case.assertEmpty, [1])
    case.assertNotEmpty([1])
    fails(case.assertNotEmpty, [])
    case.assertLen([1], 1)
    fails(case.assertLen, [1], 2)
    case.assertContainsSubset([1], [1, 2])
    fails(case.assertContainsSubset, [3], [1, 2])
    case.assertEquals(1, 1)
    case.assertNotEquals(1, 2)
    case.assertRegexpMatches("abc", "b")


def test_checked_threads(case):
    done = []
    thread = case.checkedThread(done.append, args=(1,))
    thread.start()
    thread.join()
    assert done == [1] and not thread.is_alive()
    bad = case.checkedThread(lambda: 1 // 0)
    bad.start()
    with pytest.raises(AssertionError, match="Error in checkedThread: .*zero"):
        bad.join()


def test_a_thread_that_still_runs_fails_its_test(case):
    with case.cached_session() as sess:
        queue = tf.FIFOQueue(1, tf.int32)
        thread = case.checkedThread(sess.run, args=(queue.dequeue(),))
        thread.start()
        with pytest.raises(AssertionError, match="not joined"):
            case.tearDown()
        sess.run(queue.enqueue(1))
        thread.join()


def test_what_is_written_to_a_stream(case):
    with open(os.path.join(case.get_temp_dir(), "out"), "w") as stream:
        with case.captureWritesToStream(stream) as told:
            print("hello", file=stream, flush=True)
            os.write(stream.fileno(), b"there")
        assert told.contents() == "hello\nthere"
        print("kept", file=stream)
    with open(stream.name) as again:
        assert again.read() == "kept\n"


def test_a_program_of_tests(tmp_path):
    path = tmp_path / "some_test.py"
    path.write_text("""
import queuecore.tf1 as tf

class Some(tf.test.TestCase):
    def testValue(self):
        with self.cached_session():
            self.assertAllEqual([3], self.evaluate(tf.constant([1]) + 2))

    def testWrong(self):
        with self.cached_session():
            self.assertAllEqual([4], self.evaluate(tf.constant([1]) + 2))

if __name__ == "__main__":
    tf.test.main()
""")
    program = [sys.executable, "-P", "-W", "ignore", str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "FAILED (failures=1, skipped=1)" in done.stderr
    assert re.search("FAIL: testWrong", done.stderr)


def test_the_machine():
    assert not tf.test.is_gpu_available() and not tf.test.is_built_with_cuda()
    assert not tf.test.is_built_with_gpu_support() and tf.test.gpu_device_name() == ""
    assert tf.test.test_src_dir_path("a/b").endswith("a/b")
    assert tf.test.mock is unittest.mock
