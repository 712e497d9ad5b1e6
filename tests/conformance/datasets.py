"""The base classes of tests of tf.data: how they take elements, compare them, and save an iterator's place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from conformance import cases
from conformance.modes import EAGER, GRAPH, Missing, mode

import queuecore.tf1 as tf
from queuecore.errors import OutOfRangeError, PipelineError, QueueCoreError

_MODES = [EAGER, GRAPH]


def default_test_combinations() -> list[dict[str, Any]]:
    """Return both versions in both modes."""
    return cases.combine(tf_api_version=[1, 2], mode=_MODES)


def eager_only_combinations() -> list[dict[str, Any]]:
    """Return both versions, eagerly."""
    return cases.combine(tf_api_version=[1, 2], mode=EAGER)


def graph_only_combinations() -> list[dict[str, Any]]:
    """Return both versions in graphs."""
    return cases.combine(tf_api_version=[1, 2], mode=GRAPH)


def v1_only_combinations() -> list[dict[str, Any]]:
    """Return TensorFlow 1 in both modes."""
    return cases.combine(tf_api_version=1, mode=_MODES)


def v2_only_combinations() -> list[dict[str, Any]]:
    """Return TensorFlow 2 in both modes."""
    return cases.combine(tf_api_version=2, mode=_MODES)


def v2_eager_only_combinations() -> list[dict[str, Any]]:
    """Return TensorFlow 2, eagerly."""
    return cases.combine(tf_api_version=2, mode=EAGER)


def flatten(value: Any) -> list[Any]:
    """Return the leaves of an element; lists are leaves, as in tf.data."""
    if isinstance(value, Mapping):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    if isinstance(value, tuple) and not _is_sparse(value) and not _is_ragged(value):
        return [leaf for part in value for leaf in flatten(part)]
    return [value]


def _is_sparse(value: Any) -> bool:
    return all(hasattr(value, part) for part in ("indices", "values", "dense_shape"))


def _is_ragged(value: Any) -> bool:
    return hasattr(value, "row_splits")


def taker(dataset: Any) -> Callable[[], Any]:
    """Return a function that gives the next element of a dataset of `queuecore.data`; after the last, an error."""
    iterator = iter(dataset)

    def take() -> Any:
        try:
            return next(iterator)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None
        except PipelineError as error:  # of a function: TensorFlow raises what the operation in it raised
            if isinstance(error.__cause__, QueueCoreError):
                raise error.__cause__ from error
            raise

    take.iterator = iterator  # type: ignore[attr-defined]
    return take


class DatasetTestBase(cases.TestCase):
    """The base of the tests of datasets."""

    __test__ = False

    def assert_op_cancelled(self, op: Any) -> None:
        with self.assertRaises(tf.errors.CancelledError):
            self.evaluate(op)

    def assertValuesEqual(self, expected: Any, actual: Any) -> None:  # noqa: N802
        if isinstance(expected, Mapping):
            self.assertCountEqual(expected, actual)
            for key in expected:
                self.assertValuesEqual(expected[key], actual[key])
        elif _is_sparse(expected):
            self.assertSparseValuesEqual(expected, actual)
        elif _is_ragged(expected) or _is_ragged(actual):
            wanted = self.evaluate(expected) if isinstance(expected, tf.RaggedTensor) else expected
            self.assertEqual(_listed(wanted), _listed(actual))
        else:
            self.assertAllEqual(expected, actual)

    def getNext(self, dataset: Any, requires_initialization: bool = False, shared_name: Any = None) -> Any:  # noqa: N802
        if mode() == EAGER:
            return taker(dataset)
        if requires_initialization:
            iterator = tf.data.make_initializable_iterator(dataset, shared_name)
            self.evaluate(iterator.initializer)
        else:
            iterator = tf.data.make_one_shot_iterator(dataset)
        element = iterator.get_next()
        return lambda: element

    def getIteratorOutput(self, get_next: Any) -> list[Any]:  # noqa: N802
        return list(self._elements(get_next))

    def _elements(self, get_next: Any) -> Iterator[Any]:
        while True:
            try:
                yield self.evaluate(get_next())
            except OutOfRangeError:
                return

    def getDatasetOutput(self, dataset: Any, requires_initialization: bool = False) -> list[Any]:  # noqa: N802
        return self.getIteratorOutput(self.getNext(dataset, requires_initialization))

    def assertDatasetProduces(  # noqa: N802
        self, dataset: Any, expected_output: Any = None, expected_shapes: Any = None, expected_error: Any = None,
        requires_initialization: bool = False, num_test_iterations: int = 1, assert_items_equal: bool = False,
        expected_error_iter: int = 1,
    ) -> None:  # fmt: skip
        if expected_error is not None:
            with self.assertRaisesWithPredicateMatch(expected_error[0], expected_error[1]):
                get_next = self.getNext(dataset, requires_initialization)
                for _ in range(expected_error_iter):
                    self.evaluate(get_next())
            return
        if expected_shapes:
            self.assertEqual(expected_shapes, tf.data.get_output_shapes(dataset))
        for _ in range(num_test_iterations):
            get_next = self.getNext(dataset, requires_initialization)
            values = [self.evaluate(get_next()) for _ in range(len(expected_output))]
            self._compare(values, expected_output, assert_items_equal)
            for _ in range(2):
                with self.assertRaises(OutOfRangeError):
                    self.evaluate(get_next())

    def _compare(self, values: list[Any], expected: Any, in_any_order: bool) -> None:
        if in_any_order:
            self.assertCountEqual(values, expected)
            return
        for value, wanted in zip(values, expected, strict=True):
            found, leaves = flatten(value), flatten(wanted)
            self.assertEqual(len(leaves), len(found), f"another structure: {value!r}, not {wanted!r}")
            for one, other in zip(leaves, found, strict=True):
                self.assertValuesEqual(one, other)

    def assertDatasetsEqual(self, dataset1: Any, dataset2: Any) -> None:  # noqa: N802
        first, second = self.getDatasetOutput(dataset1), self.getDatasetOutput(dataset2)
        self.assertEqual(len(first), len(second))
        self._compare(second, first, False)

    def structuredElement(self, element_structure: Any, shape: Any = None, dtype: Any = None) -> Any:  # noqa: N802
        if element_structure is None:
            return np.zeros(shape or [], np.dtype(dtype or np.int64))
        return tuple(self.structuredElement(one, shape, dtype) for one in element_structure)

    def checkDeterminism(self, dataset_fn: Any, expect_determinism: bool, expected_elements: Any) -> None:  # noqa: N802
        if expect_determinism:
            self.assertAllEqual(expected_elements, self.getDatasetOutput(dataset_fn(100)))
            return
        # queuecore may keep the order where TensorFlow may lose it.
        self.assertCountEqual(expected_elements, self.getDatasetOutput(dataset_fn(10)))

    def graphRoundTrip(self, dataset: Any, allow_stateful: bool = False) -> Any:  # noqa: N802
        return Missing("graphs of datasets as messages")()


def _listed(value: Any) -> Any:
    if hasattr(value, "to_list"):
        return _listed(value.to_list())
    if isinstance(value, (list, tuple)):
        return [_listed(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


class CheckpointTestBase(DatasetTestBase):
    """The base of the tests of saved places: `state_dict` and `load_state_dict` of `queuecore.data`'s iterators."""

    __test__ = False

    def setUp(self) -> None:
        super().setUp()
        if mode() == GRAPH:
            Missing("checkpoints of iterators of a graph")()

    def _outputs(self, ds_fn: Any, count: int, breaks: list[int], exhausted: bool) -> list[Any]:
        take = taker(ds_fn())
        outputs = []
        for index in range(count + 1):
            if index in breaks:
                # Through JSON: the place in another process.
                state = json.loads(json.dumps(take.iterator.state_dict()))  # type: ignore[attr-defined]
                take = taker(ds_fn())
                take.iterator.load_state_dict(state)  # type: ignore[attr-defined]
            if index < count:
                outputs.append(take())
        if exhausted:
            with self.assertRaises(OutOfRangeError):
                take()
        return outputs

    def verify_run_with_breaks(
        self, ds_fn: Any, break_points: list[int], num_outputs: int, sparse_tensors: bool = False,
        verify_exhausted: bool = True, assert_items_equal: bool = False,
    ) -> None:  # fmt: skip
        expected = self._outputs(ds_fn, num_outputs, [], verify_exhausted)
        found = self._outputs(ds_fn, num_outputs, break_points, verify_exhausted)
        self._compare(found, expected, assert_items_equal)

    def verify_unused_iterator(self, ds_fn: Any, num_outputs: int, **named: Any) -> None:
        self.verify_run_with_breaks(ds_fn, [0], num_outputs, **named)

    def verify_fully_used_iterator(self, ds_fn: Any, num_outputs: int, **named: Any) -> None:
        self.verify_run_with_breaks(ds_fn, [num_outputs], num_outputs, **named)

    def verify_exhausted_iterator(self, ds_fn: Any, num_outputs: int, **named: Any) -> None:
        take = taker(ds_fn())
        for _ in range(num_outputs):
            take()
        with self.assertRaises(OutOfRangeError):
            take()
        again = taker(ds_fn())
        again.iterator.load_state_dict(take.iterator.state_dict())  # type: ignore[attr-defined]
        with self.assertRaises(OutOfRangeError):
            again()

    def verify_multiple_breaks(self, ds_fn: Any, num_outputs: int, num_breaks: int = 10, **named: Any) -> None:
        breaks = sorted({int(at) for at in np.linspace(0, num_outputs, num_breaks)})
        self.verify_run_with_breaks(ds_fn, breaks, num_outputs, **named)

    def verify_reset_restored_iterator(self, ds_fn: Any, num_outputs: int, **named: Any) -> None:
        self.skipTest("Eager mode iteration does not support re-initialization.")

    def run_core_tests(self, ds_fn: Any, num_outputs: int, sparse_tensors: bool = False, **named: Any) -> None:
        for name in _VERIFY[:4]:
            getattr(self, name)(ds_fn, num_outputs, **named)


_VERIFY = [
    "verify_unused_iterator",
    "verify_fully_used_iterator",
    "verify_exhausted_iterator",
    "verify_multiple_breaks",
    "verify_reset_restored_iterator",
]


def checkpoint_combinations() -> list[dict[str, Any]]:
    """Return the ways of verifying a saved place."""

    def verify(name: str) -> Any:
        return cases.NamedObject(name, lambda test, *args, **named: getattr(test, name)(*args, **named))

    return [{"verify_fn": verify(name)} for name in _VERIFY]
