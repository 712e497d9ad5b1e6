"""Test methods with parameters and modes: what peers' decorators say, made into methods of their own.

Stands for ``absl.testing.parameterized``, and TensorFlow's ``combinations`` and ``test_util``.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import types
import unittest
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from conformance.modes import EAGER, GRAPH, Missing, enter, mode

import queuecore.tf1 as tf

_CASES = "_conformance_cases"
_MODES = "_conformance_modes"
# Decorators of test_util that change nothing here
_WITHOUT_EFFECT = """
    add_graph_building_optimization_tests disable_asan disable_eager_op_as_function disable_mlir_bridge disable_tfrt
    disable_xla enable_control_flow_v2 enable_eager_op_as_function run_gpu_only run_without_tensor_float_32
    with_control_flow_v2
"""


class NamedObject:
    """An object with a name for the names of tests."""

    def __init__(self, name: str, obj: Any) -> None:
        self._name, self._obj = name, obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obj, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._obj(*args, **named)

    def __repr__(self) -> str:
        return self._name


# What decorators leave on a function: for each case a name, arguments, and perhaps a mode.


class _Case:
    def __init__(self, name: str, args: tuple[Any, ...], named: dict[str, Any], where: str | None) -> None:
        self.name, self.args, self.named, self.mode = name, args, named, where


def _add(function: Any, cases: list[_Case]) -> Any:
    before: list[_Case] | None = getattr(function, _CASES, None)
    if before is not None:
        cases = [
            _Case(f"{one.name}{other.name}", one.args + other.args, one.named | other.named, one.mode or other.mode)
            for one, other in itertools.product(before, cases)
        ]
    setattr(function, _CASES, cases)
    return function


def _named(values: dict[str, Any]) -> str:
    return "".join(f"__{key}_{re.sub(r'[^0-9A-Za-z]+', '_', _text(value)).strip('_')}" for key, value in values.items())


def _text(value: Any) -> str:
    return getattr(value, "__name__", "function") if inspect_is_function(value) else repr(value)[:40]


def inspect_is_function(value: Any) -> bool:
    """Return whether the text of a value would have an address in it."""
    return isinstance(value, (types.FunctionType, functools.partial)) or " at 0x" in repr(value)


# combinations


def combine(**axes: Any) -> list[dict[str, Any]]:
    """Return all combinations of values, each a dict; what is no list is a single value."""
    lists = [value if isinstance(value, list) else [value] for value in axes.values()]
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*lists)]


def times(*combined: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the product of lists of combinations."""
    return [functools.reduce(lambda a, b: a | b, some, {}) for some in itertools.product(*combined)]


def mode_of(combination: dict[str, Any]) -> str | None:
    """Return the mode that stands for a combination: TF 1 in graphs, TF 2 eagerly; None: one of the other two."""
    wanted, version = combination.get("mode", GRAPH), combination.get("tf_api_version")
    if version is not None and version != {GRAPH: 1, EAGER: 2}[wanted]:
        return None
    return wanted


def generate(combined: list[dict[str, Any]], test_combinations: Any = None) -> Callable[[Any], Any]:
    """Return a decorator: the function is a test for each combination whose mode we have."""
    cases = []
    for combination in combined:
        where = mode_of(combination)
        if where is not None:
            named = {key: value for key, value in combination.items() if key not in ("mode", "tf_api_version")}
            cases.append(_Case(_named({"mode": where} | named), (), named, where))
    return lambda function: _add(function, cases)


# parameterized


def parameters(*given: Any) -> Callable[[Any], Any]:
    """Return a decorator: the function is a test for each tuple or dict of arguments."""
    listed = list(given[0]) if len(given) == 1 and _is_list(given[0]) else list(given)
    return lambda function: _add(function, [_case(f"__{at}", one) for at, one in enumerate(listed)])


def named_parameters(*given: Any) -> Callable[[Any], Any]:
    """Return a decorator: as `parameters`, with the name of the test first, or as ``testcase_name``."""
    listed = list(given[0]) if len(given) == 1 and _is_list(given[0]) else list(given)

    def case(one: Any) -> _Case:
        if isinstance(one, dict):
            return _case(f"__{one['testcase_name']}", {key: at for key, at in one.items() if key != "testcase_name"})
        return _case(f"__{one[0]}", tuple(one[1:]))

    return lambda function: _add(function, [case(one) for one in listed])


def product(*dicts: Any, **axes: Any) -> Callable[[Any], Any]:
    """Return a decorator: the function is a test for each combination of keyword arguments."""
    whole = times(*[list(some) for some in dicts], combine(**{key: list(some) for key, some in axes.items()}))
    return lambda function: _add(function, [_Case(_named(one), (), one, None) for one in whole])


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, tuple, dict))


def _case(name: str, given: Any) -> _Case:
    if isinstance(given, dict):
        return _Case(name, (), given, None)
    return _Case(name, given if isinstance(given, tuple) else (given,), {}, None)


# test cases


def expand(cls: type) -> None:
    """Replace each test that has cases by a method for each of them, and one in two modes by two."""
    for name, function in list(vars(cls).items()):
        if not callable(function) or not name.startswith("test") or name == "test_session":
            continue
        cases = getattr(function, _CASES, None)
        modes = getattr(function, _MODES, None) or getattr(cls, _MODES, None) or (None,)
        if cases is None and modes == (None,):
            continue
        delattr(cls, name)
        for case, where in itertools.product(cases or [_Case("", (), {}, None)], modes):
            taken = case.mode or where
            label = name + case.name + (f"__mode_{where}" if case.mode is None and where and len(modes) > 1 else "")
            while label in vars(cls):
                label += "_"
            if case.mode is None or where is None or case.mode == where:
                setattr(cls, label, _method(function, case, taken, label))


def _method(function: Any, case: _Case, place: str | None, label: str) -> Any:
    def test(self: Any) -> Any:
        return function(self, *case.args, **case.named)

    test.__name__ = test.__qualname__ = label
    test.__doc__ = None
    setattr(test, _MODES, (place,))
    return test


def mode_of_test(test: Any, name: str) -> str:
    """Return the mode of a method of a test case."""
    return (getattr(getattr(test, name, None), _MODES, None) or (None,))[0] or GRAPH


# test_util


def _marks(*modes: str) -> Callable[..., Any]:
    # A decorator for functions and classes, with or without arguments of its own.
    def mark(target: Any = None, *args: Any, **named: Any) -> Any:
        if isinstance(target, type):
            setattr(target, _MODES, modes)
            expand(target)
            return target
        if inspect_is_function(target):
            setattr(target, _MODES, modes)
            return target
        return mark

    return mark


def _same(given: Any = None, *args: Any, **named: Any) -> Any:
    return given if inspect_is_function(given) or isinstance(given, type) else _same


@contextlib.contextmanager
def _nothing(*args: Any, **named: Any) -> Iterator[None]:
    yield


def both_modes(module: str) -> tuple[str, ...]:
    """Return the modes of "graph and eager": only datasets have an eager form here."""
    return (GRAPH, EAGER) if module.startswith("tensorflow.python.data") else (GRAPH,)


def _graph_and_eager(given: Any = None, *args: Any, **named: Any) -> Any:
    if isinstance(given, type) or inspect_is_function(given):
        return _marks(*both_modes(given.__module__))(given)
    return _graph_and_eager


def _run_v1(given: Any = None, *args: Any, **named: Any) -> Any:
    return _marks(GRAPH)(given)


def test_util() -> dict[str, Any]:
    """Return the names of ``tensorflow.python.framework.test_util``."""
    names: dict[str, Any] = dict.fromkeys(_WITHOUT_EFFECT.split(), _same)
    names |= dict.fromkeys(
        ["run_v1_only", "run_deprecated_v1", "deprecated_graph_mode_only", "run_in_graph_mode"], _run_v1
    )
    names |= dict.fromkeys(["run_in_graph_and_eager_modes", "run_all_in_graph_and_eager_modes"], _graph_and_eager)
    names |= dict.fromkeys(["run_v2_only", "run_in_eager_mode"], _marks(EAGER))
    names |= dict.fromkeys(["use_gpu", "force_cpu", "device", "force_gpu", "deterministic_ops"], _nothing)
    names |= {"is_gpu_available": lambda *a, **k: False, "gpu_device_name": lambda: "", "TensorFlowTestCase": TestCase}
    names |= {"is_xla_enabled": lambda: False, "GpuSupportsHalfMatMulAndConv": lambda: False}
    return names


class ParameterizedTestCase(unittest.TestCase):
    """The test case of ``parameterized``: it stands beside TensorFlow's, or alone."""

    __test__ = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        expand(cls)


class TestCase(tf.test.TestCase, ParameterizedTestCase):
    """TensorFlow's test case in the mode of the test: eagerly, values are what they are."""

    __test__ = False

    def run(self, result: Any = None) -> Any:
        before = enter(mode_of_test(self, self._testMethodName))
        try:
            return super().run(result)
        finally:
            enter(before)

    def evaluate(self, tensors: Any) -> Any:
        if isinstance(tensors, Variant):
            return tensors.open()
        if mode() == EAGER:
            return _plain(tensors)
        return super().evaluate(tensors)

    @contextlib.contextmanager
    def cached_session(self, *given: Any, **named: Any) -> Iterator[Any]:
        if mode() == EAGER:
            yield types.SimpleNamespace(run=lambda fetches, feed_dict=None: _plain(fetches))
            return
        with super().cached_session(*given, **named) as session:
            yield session

    # Eagerly, errors have the same classes and other texts.

    def assertRaisesRegex(self, kind: Any, pattern: Any, *given: Any, **named: Any) -> Any:  # noqa: N802
        if mode() == EAGER:
            return self.assertRaises(kind, *given, **named)
        return super().assertRaisesRegex(kind, pattern, *given, **named)

    def assertRaisesWithPredicateMatch(self, exception_type: Any, expected: Any) -> Any:  # noqa: N802
        if mode() == EAGER:
            return self.assertRaises(exception_type)
        return super().assertRaisesWithPredicateMatch(exception_type, expected)

    def assertSparseValuesEqual(self, a: Any, b: Any) -> None:  # noqa: N802
        for part in ("indices", "values", "dense_shape"):
            self.assertAllEqual(getattr(a, part), getattr(b, part))

    def assertProtoEquals(self, *given: Any, **named: Any) -> None:  # noqa: N802
        Missing("messages of operations (assertProtoEquals)")()

    assertProtoEqualsVersion = assertProtoEquals  # noqa: N815


def _plain(value: Any) -> Any:
    # Strings in batches are of rows that vary in length; tests of TensorFlow's look at arrays of objects.
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return type(value)(*map(_plain, value)) if hasattr(value, "_fields") else tuple(map(_plain, value))
    if getattr(value, "is_bytes", False):
        return value.to_object()
    if getattr(getattr(value, "values", None), "is_bytes", False) and hasattr(value, "to_list"):
        rows = value.to_list()
        return np.array(rows, object) if len({len(row) for row in rows}) == 1 else value
    return value


class Variant:
    """What a dataset's ``_variant_tensor`` is to tests: to evaluate it makes an iterator, which may fail."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def open(self) -> None:
        """Make an iterator, as evaluating the tensor of a dataset does."""
        if mode() == EAGER:
            iter(self._dataset).close()
            return
        iterator = tf.data.make_initializable_iterator(self._dataset)
        with tf.Session() as session:
            session.run(iterator.initializer)
