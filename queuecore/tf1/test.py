"""``tf.test``: the class of test cases of TensorFlow's, on `unittest`, with sessions and comparisons of arrays."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import re
import shutil
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import numpy as np

from queuecore._runners.threads import Thread
from queuecore.errors import QueueCoreError
from queuecore.tf1._graph.graph import (
    Graph,
    Operation,
    Tensor,
    default_session,
    get_default_graph,
    reset_default_graph,
    set_random_seed,
)
from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._graph.session import ConfigProto, Session
from queuecore.tf1._graph.values import as_dtype, as_shape

__all__ = [
    "TestCase",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_gpu_available",
    "main",
    "mock",
    "test_src_dir_path",
]

_GRAPH_SEED = 87654321  # of the default graph of each test, as there
_PYTHON_SEED = 1618


# Folders and the machine

_folders: list[str] = []


def get_temp_dir() -> str:
    """Return a folder for the files of this process's tests; it is removed when the process ends."""
    if not _folders:
        import atexit

        given = os.environ.get("TEST_TMPDIR")
        if given:
            os.makedirs(given, exist_ok=True)
            _folders.append(given)
        else:
            _folders.append(tempfile.mkdtemp(prefix="queuecore-test-"))
            atexit.register(shutil.rmtree, _folders[0], ignore_errors=True)
    return _folders[0]


def test_src_dir_path(relative_path: str) -> str:
    """Return the path of a file beside the sources: the working directory, or ``TEST_SRCDIR``, and this path."""
    return os.path.join(os.environ.get("TEST_SRCDIR", os.getcwd()), relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]  # for pytest: it is none


def is_built_with_cuda() -> bool:
    """Return `False`: operations of a graph run on the host."""
    return False


def is_built_with_gpu_support() -> bool:
    """Return `False`: operations of a graph run on the host."""
    return False


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """Return `False`: operations of a graph run on the host."""
    del cuda_only, min_cuda_compute_capability
    return False


def gpu_device_name() -> str:
    """Return an empty text: operations of a graph run on the host."""
    return ""


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the program that calls this: as `unittest.main`."""
    unittest.main(argv=argv if argv is not None else sys.argv)


# Threads whose failures are the test's


class _CheckedThread:
    # A thread; an exception in it is raised by join().

    def __init__(self, owner: TestCase, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._owner = owner
        self._target = target
        self._given = (tuple(args or ()), dict(kwargs or {}))
        self._thread = Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self._joined = False

    def _run(self) -> None:
        arguments, named = self._given
        try:
            self._target(*arguments, **named)
        except BaseException as error:
            self._error = error

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._joined = True
        self._thread.join()
        if self._error is not None:
            self._owner.fail(f"Error in checkedThread: {self._error!s}")

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def check_termination(self) -> None:
        if self._thread.is_alive():
            self._owner.fail("A checked thread was not joined, and still runs at the end of its test.")


# Comparisons


def _arrays_near(left: Any, right: Any, rtol: float, atol: float) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.allclose(left, right, rtol=rtol, atol=atol, equal_nan=True))


def _is_many(value: Any) -> bool:
    # Lists and tuples whose items are compared one by one: those that are no array of their own.
    return isinstance(value, (list, tuple)) and not _is_rectangular(value)


def _is_rectangular(value: Any) -> bool:
    try:
        made = np.array(value)
    except ValueError:
        return False
    return made.dtype != object or not any(isinstance(one, (list, tuple, np.ndarray, dict)) for one in made.flat)


class TestCase(unittest.TestCase):
    """The base class of tests: each begins with an empty default graph, and fixed seeds.

    Parameters
    ----------
    methodName : str, default "runTest"
        The method that is the test.
    """

    __test__ = False  # for pytest: a subclass in a test module is one, and this is none

    def __init_subclass__(cls, **options: Any) -> None:
        """Let test runners find subclasses."""
        super().__init_subclass__(**options)
        if "__test__" not in vars(cls):
            cls.__test__ = True

    def __init__(self, methodName: str = "runTest") -> None:  # noqa: N803 - unittest's name
        super().__init__(methodName)
        self._cached: Session | None = None
        self._threads: list[_CheckedThread] = []
        self._folder: str | None = None

    def setUp(self) -> None:  # noqa: N802
        """Begin with an empty default graph and fixed seeds."""
        super().setUp()
        if self._testMethodName == "test_session":  # unittest takes it for a test, by its name
            self.skipTest("Not a test.")
        self._clear_cached_session()
        random.seed(_PYTHON_SEED)
        np.random.seed(_PYTHON_SEED)
        reset_default_graph()
        set_random_seed(_GRAPH_SEED)

    def tearDown(self) -> None:  # noqa: N802
        """End the session, and fail if a thread of `checkedThread` still runs."""
        for thread in self._threads:
            thread.check_termination()
        self._clear_cached_session()
        super().tearDown()

    def _clear_cached_session(self) -> None:
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    # ---- files and output

    def get_temp_dir(self) -> str:
        """Return a folder of this test's own, below the process's."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(dir=get_temp_dir(), prefix=f"{self.id().replace('/', '_')[-80:]}_")
        return self._folder

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[Any]:  # noqa: N802
        """Return what is written to a stream, such as ``sys.stderr``, in the ``contents()`` of the value.

        Parameters
        ----------
        stream : file
            A stream that has a number of the system's.
        """
        number = stream.fileno()
        with tempfile.TemporaryFile() as file:
            old_fd = os.dup(number)
            capture = _Captured()
            stream.flush()
            os.dup2(file.fileno(), number)
            try:
                yield capture
            finally:
                stream.flush()
                os.dup2(old_fd, number)
                os.close(old_fd)
                file.seek(0)
                capture.text = file.read().decode(errors="replace")

    # ---- sessions

    def evaluate(self, tensors: Any) -> Any:
        """Return the values of tensors in this test's session, or the default one."""
        session = self._cached
        if session is None or session.is_closed or default_session() is not session:
            session = default_session() or session
        if session is None:
            with self.test_session() as made:
                return made.run(tensors)
        return session.run(tensors)

    @contextlib.contextmanager
    def session(
        self, graph: Graph | None = None, config: ConfigProto | None = None, use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:  # fmt: skip
        """Return a new session, the default one while the context lasts, which closes it."""
        del use_gpu, force_gpu
        with Session(graph=graph, config=config) as made:
            yield made

    @contextlib.contextmanager
    def cached_session(
        self, graph: Graph | None = None, config: ConfigProto | None = None, use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:  # fmt: skip
        """Return this test's session, the default one while the context lasts; all calls in a test return the same.

        Raises
        ------
        ValueError
            If it was made for another graph or with another configuration.
        """
        del use_gpu, force_gpu
        session = self._cached
        wanted = get_default_graph() if graph is None else graph
        if session is None or session.is_closed:
            self._cached = session = Session(graph=wanted, config=config)
            self._cached_with = (graph, config)
        elif graph is not None and graph is not self._cached_with[0]:
            raise ValueError("The graph used to get the cached session is different than the one that was used to "
                             "create the session. Maybe create a new session with self.session()")  # fmt: skip
        elif config is not None and config is not self._cached_with[1]:
            raise ValueError("The config used to get the cached session is different than the one that was used to "
                             "create the session. Maybe create a new session with self.session()")  # fmt: skip
        with session.graph.as_default(), session.as_default():
            yield session

    def test_session(
        self, graph: Graph | None = None, config: ConfigProto | None = None, use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Any:  # fmt: skip
        """Return `cached_session`, or with a graph `session`."""
        made = self.session if graph is not None else self.cached_session
        return made(graph, config, use_gpu, force_gpu)

    test_session.__test__ = False  # type: ignore[attr-defined]

    def checkedThread(self, target: Any, args: Any = None, kwargs: Any = None) -> Any:  # noqa: N802
        """Return a thread whose ``join()`` fails the test if its function raised; not started yet."""
        made = _CheckedThread(self, target, args, kwargs)
        self._threads.append(made)
        return made

    # ---- errors

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected: Any) -> Iterator[None]:  # noqa: N802
        """Expect an error of a class that a function accepts, or whose text, with its operations, has a pattern.

        Parameters
        ----------
        exception_type : class of exceptions, or tuple of them
        expected : str, pattern or callable
        """
        accepts = expected if callable(expected) else functools.partial(_told, expected)
        try:
            yield
        except BaseException as error:
            if not isinstance(error, exception_type):
                if isinstance(error, Exception):
                    raise AssertionError(f"Exception of type {type(error)}: {error!s}") from error
                raise
            if not accepts(error):
                raise AssertionError(f"Exception of type {type(error)}: {error!s}") from error
        else:
            self.fail(f"{_names(exception_type)} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:  # noqa: N802
        """Expect an error of an operation; see `assertRaisesWithPredicateMatch`."""
        return self.assertRaisesWithPredicateMatch(QueueCoreError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(  # noqa: N802
        self, exception_type: Any = QueueCoreError, x: Any = None, y: Any = None, *args: Any
    ) -> Any:
        """Expect an error about incompatible shapes."""
        del x, y, args
        return self.assertRaisesWithPredicateMatch((exception_type, ValueError), "[Ii]ncompatible|must be equal")

    def assertRaisesRegexp(self, *given: Any, **named: Any) -> Any:  # noqa: N802
        """As `assertRaisesRegex`, of which it is an older name."""
        return self.assertRaisesRegex(*given, **named)

    # ---- arrays

    def _value(self, given: Any) -> Any:
        if isinstance(given, (Tensor, Operation)) or hasattr(given, "_as_graph_element") or hasattr(given, "_fetch"):
            given = self.evaluate(given)
        return given

    def _array(self, given: Any) -> Any:
        value: Any = self._value(given)
        if isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value):
            value = self.evaluate(value)
        to_list: Any = None if isinstance(value, np.ndarray) else getattr(value, "to_list", None)
        if to_list is not None:
            value = to_list()
        if isinstance(value, (str, bytes)):
            array = np.empty((), object)
            array[()] = value
            return array
        array = np.asarray(value)
        if array.dtype.kind in "SU":  # NumPy's own strings lose zeros at their ends
            array = np.asarray(value, object)
        return array

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect the same shape and the same items; text is equal to its bytes of UTF-8."""
        if hasattr(self._value(a), "row_splits") or _is_many(a) or _is_many(b):
            self._assert_items_equal(self._value(a), self._value(b), msg)
            return
        left, right = _as_bytes(self._array(a)), _as_bytes(self._array(b))
        self.assertEqual(left.shape, right.shape, f"Shape mismatch: expected {left.shape}, got {right.shape}. {msg}")
        same = left == right
        if left.dtype.kind in "fc" and right.dtype.kind in "fc":
            same = np.logical_or(same, np.isnan(left) & np.isnan(right))
        if not np.all(same):
            where = np.argwhere(np.atleast_1d(~np.asarray(same, bool)))[:5].tolist()
            self.fail(f"Arrays are not equal {msg or ''}: not equal at {where}: {left!r} and {right!r}")

    def _assert_items_equal(self, a: Any, b: Any, msg: str | None) -> None:
        left = a.to_list() if hasattr(a, "to_list") else list(a)
        right = b.to_list() if hasattr(b, "to_list") else list(b)
        self.assertEqual(len(left), len(right), msg)
        for one, other in zip(left, right, strict=True):
            self.assertAllEqual(one, other, msg)

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect that `assertAllEqual` fails."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(f"The two values are equal at all elements. {msg or ''}")

    def assertAllClose(  # noqa: N802
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Expect the same structure and shape, and items within ``atol + rtol * abs(b)`` of each other."""
        a, b = self._value(a), self._value(b)
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self.assertTrue(isinstance(a, Mapping) and isinstance(b, Mapping), f"Expected two dictionaries. {msg}")
            self.assertCountEqual(a.keys(), b.keys(), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg)
        elif _is_many(a) or _is_many(b):
            self.assertEqual(len(a), len(b), f"Mismatched length. {msg}")
            for one, other in zip(a, b, strict=True):
                self.assertAllClose(one, other, rtol, atol, msg)
        else:
            left, right = self._array(a), self._array(b)
            self.assertEqual(left.shape, right.shape, f"Shape mismatch: expected {left.shape}, got {right.shape}.")
            if {left.dtype.name, right.dtype.name} & {"float16", "bfloat16"}:
                rtol, atol = max(rtol, 1e-2), max(atol, 1e-2)
            if not _arrays_near(left, right, rtol, atol):
                self.fail(f"Mismatched values, rtol={rtol}, atol={atol}: {left!r} and {right!r}. {msg or ''}")

    def assertAllCloseAccordingToType(  # noqa: N802
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6,
        float_atol: float = 1e-6, half_rtol: float = 1e-3, half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2, msg: str | None = None,
    ) -> None:  # fmt: skip
        """As `assertAllClose`, with a tolerance for each type."""
        kinds = {self._array(one).dtype.name for one in (a, b)}
        for name, relative, absolute in (
            ("float32", float_rtol, float_atol), ("complex64", float_rtol, float_atol),
            ("float16", half_rtol, half_atol), ("bfloat16", bfloat16_rtol, bfloat16_atol),
        ):  # fmt: skip
            if name in kinds:
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(  # noqa: N802
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Expect that `assertAllClose` fails."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(f"The two values are close at all elements. {msg or ''}")

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Expect numbers no more than `err` apart."""
        self.assertTrue(f1 == f2 or math.fabs(f1 - f2) <= err, f"{f1} != {f2} +/- {err} {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Expect lists of numbers no more than `err` apart."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(other), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:  # noqa: N802
        """Expect arrays whose difference has a norm below `err`."""
        left, right = self._array(ndarray1), self._array(ndarray2)
        self.assertEqual(left.shape, right.shape, msg)
        self.assertLess(np.linalg.norm((left - right).ravel()), err, msg)

    def _assert_all(self, holds: Any, told: str) -> None:
        self.assertTrue(bool(np.all(holds)), told)

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Expect that all items are greater."""
        self._assert_all(self._array(a) > comparison_target, f"not all of {a!r} are > {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Expect that all items are greater or equal."""
        self._assert_all(self._array(a) >= comparison_target, f"not all of {a!r} are >= {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Expect that all items are less."""
        self._assert_all(self._array(a) < comparison_target, f"not all of {a!r} are < {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:  # noqa: N802
        """Expect that all items are less or equal."""
        self._assert_all(self._array(a) <= comparison_target, f"not all of {a!r} are <= {comparison_target}")

    def assertAllInRange(  # noqa: N802
        self, target: Any, lower_bound: Any, upper_bound: Any, open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:  # fmt: skip
        """Expect that all items are between two bounds."""
        found = self._array(target)
        if not np.issubdtype(found.dtype, np.number):
            raise AssertionError(f"The value of {target!r} does not have an ordered numeric type: {found.dtype}")
        low = found > lower_bound if open_lower_bound else found >= lower_bound
        high = found < upper_bound if open_upper_bound else found <= upper_bound
        self._assert_all(low & high, f"not all of {found!r} are between {lower_bound} and {upper_bound}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:  # noqa: N802
        """Expect that all items are in a set."""
        found = set(self._array(target).ravel().tolist())
        self.assertTrue(found <= set(expected_set), f"{found - set(expected_set)} not in the set {expected_set}")

    # ---- facts of tensors

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect that an array has the known shape of a tensor."""
        self.assertIsInstance(np_array, (np.ndarray, np.generic))
        self.assertAllEqual(np.shape(np_array), as_shape(tf_tensor.get_shape()).as_list(), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:  # noqa: N802
        """Expect that a value or a tensor has a type."""
        found = target.dtype if hasattr(target, "dtype") else self._array(target).dtype
        self.assertEqual(as_dtype(found), as_dtype(expected_dtype))

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect the same name of a device."""
        self.assertEqual(device1 or "", device2 or "", msg)

    # ---- containers

    def assertStartsWith(self, actual: Any, expected_start: str, msg: str | None = None) -> None:  # noqa: N802
        """Expect a text with this beginning."""
        if not actual.startswith(expected_start):
            self.fail(f"{actual!r} does not start with {expected_start!r} {msg or ''}")

    def assertEndsWith(self, actual: Any, expected_end: str, msg: str | None = None) -> None:  # noqa: N802
        """Expect a text with this end."""
        if not actual.endswith(expected_end):
            self.fail(f"{actual!r} does not end with {expected_end!r} {msg or ''}")

    def assertItemsEqual(self, first: Any, second: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect the same items in any order."""
        self.assertCountEqual(list(first), list(second), msg)

    def assertSameElements(self, expected_seq: Any, actual_seq: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect the same items in any order, each any number of times."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertEmpty(self, container: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect a container that holds nothing."""
        self.assertEqual(len(container), 0, msg or f"{container!r} has length of {len(container)}.")

    def assertNotEmpty(self, container: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect a container that holds something."""
        self.assertGreater(len(container), 0, msg or f"{container!r} has length of 0.")

    def assertLen(self, container: Any, expected_len: int, msg: str | None = None) -> None:  # noqa: N802
        """Expect a container with so many items."""
        self.assertEqual(len(container), expected_len, msg or f"{container!r} has length of {len(container)}.")

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:  # noqa: N802
        """Expect a value between two bounds, both included."""
        self.assertTrue(minv <= value <= maxv, msg or f"{value!r} unexpectedly not between {minv!r} and {maxv!r}")

    def assertContainsSubset(  # noqa: N802
        self, expected_subset: Any, actual_set: Any, msg: str | None = None
    ) -> None:
        """Expect that a container has all of some items."""
        self.assertTrue(
            set(expected_subset) <= set(actual_set), msg or f"{expected_subset} is no subset of {actual_set}"
        )

    def assertEquals(self, first: Any, second: Any, msg: Any = None) -> None:  # noqa: N802
        """As `assertEqual`, of which it is an older name."""
        self.assertEqual(first, second, msg)

    def assertNotEquals(self, first: Any, second: Any, msg: Any = None) -> None:  # noqa: N802
        """As `assertNotEqual`, of which it is an older name."""
        self.assertNotEqual(first, second, msg)

    def assertRegexpMatches(self, text: Any, expected_regex: Any, msg: Any = None) -> None:  # noqa: N802
        """As `assertRegex`, of which it is an older name."""
        self.assertRegex(text, expected_regex, msg)


class _Captured:
    text = ""

    def contents(self) -> str:
        return self.text


def _told(pattern: Any, error: BaseException) -> bool:
    text = error.message if isinstance(error, QueueCoreError) else str(error)
    op = getattr(error, "op", None)
    if op is not None:
        text += f"\nCaused by op: {op.name}"
    return re.search(pattern, text) is not None


def _names(kinds: Any) -> str:
    several = kinds if isinstance(kinds, tuple) else (kinds,)
    return " or ".join(one.__name__ for one in several)


def _as_bytes(array: Any) -> Any:
    if array.dtype.kind != "O":
        return array
    made = np.empty(array.shape, object)
    flat = [one.encode() if isinstance(one, str) else one for one in array.flat]
    for at, one in zip(np.ndindex(array.shape), flat, strict=True):
        made[at] = one
    return made


__getattr__ = _refusing("tf.test")
