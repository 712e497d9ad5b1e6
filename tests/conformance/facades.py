"""Modules of a peer that are none: each name in them is ours, found when it is used.

`install` puts a finder in front: ``from tensorflow.python.framework import dtypes`` then gives a facade. Names are
looked up in the namespaces of `queuecore.tf1`, or in `conformance.eager` while a test runs eagerly; a name that isn't
there becomes a `Missing`. What the peer's tests share (``..._test_base.py``) comes from the peer's own folder, unless
we have our own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance import cases, datasets, eager
from conformance.modes import EAGER, Missing, mode

import queuecore.data as data
import queuecore.tf1 as tf
from queuecore.tf1 import data_flow_ops
from queuecore.tf1._data import nests

# Folders of TensorFlow's: their attributes are modules. All else is a module.
_PACKAGE_NAMES = """
    compiler contrib contrib.framework contrib.framework.python contrib.framework.python.ops contrib.training
    contrib.training.python contrib.training.python.training
    core core.example core.framework core.protobuf core.util python python.autograph python.autograph.core
    python.checkpoint python.client python.compat python.data python.data.experimental
    python.data.experimental.kernel_tests python.data.experimental.ops python.data.kernel_tests python.data.ops
    python.data.util python.distribute python.eager python.framework python.kernel_tests python.lib python.lib.io
    python.module python.ops python.ops.ragged python.platform python.saved_model python.trackable python.training
    python.training.tracking python.util
"""
_PACKAGES = frozenset("tensorflow." + name for name in _PACKAGE_NAMES.split())


def _test_module() -> dict[str, Any]:
    names = {name: getattr(tf.test, name) for name in tf.test.__all__}
    return names | {"TestCase": cases.TestCase}


def _namespaces() -> dict[str, list[Any]]:
    # What a module's names are looked up in, before all of tf; by the last part of its name.
    return {
        "string_ops": [
            types.SimpleNamespace(
                string_split_v2=tf.strings.split,
                string_length=tf.strings.length,
                string_lower=tf.strings.lower,
                string_upper=tf.strings.upper,
                string_format=tf.strings.format,
            ),
            tf.strings,
        ],
        "ragged_factory_ops": [tf.ragged],
        "ragged_math_ops": [tf.ragged],
        "ragged_conversion_ops": [
            types.SimpleNamespace(
                to_tensor=lambda rt, **named: rt.to_tensor(**named), from_tensor=tf.RaggedTensor.from_tensor
            )
        ],
        "ragged_concat_ops": [tf.ragged],
        "ragged_string_ops": [
            types.SimpleNamespace(string_split_v2=_ragged_pieces, strings_split_v1=tf.strings.split,
                string_bytes_split=tf.strings.bytes_split), tf.strings
        ],
        "ragged_tensor": [tf.ragged],
        "sparse_ops": [tf.sparse],
        "data_flow_ops": [data_flow_ops],
        "lookup_ops": [
            types.SimpleNamespace(
                index_table_from_tensor=_index_table, DenseHashTable=tf.lookup.experimental.DenseHashTable
            ),
            tf.lookup,
            tf.contrib.lookup,
        ],
        "random_ops": [tf.random],
        "image_ops": [tf.image],
        "math_ops": [tf.math],
        "bitwise_ops": [tf.bitwise],
        "gfile": [tf.gfile],
        "file_io": [tf.gfile],
        "tf_logging": [tf.logging],
        "compat": [tf.compat],
        "bucket_ops": [tf.contrib.training],
        "sampling_ops": [tf.contrib.training],
        "resample": [tf.contrib.training],
        "sequence_queueing_state_saver": [tf.contrib.training],
        "training": [tf.contrib.training],
        "nest": [tf.nest, tf.contrib.framework.nest],
        "errors": [tf.errors],
        "errors_impl": [tf.errors],
        "tf_record": [tf.python_io],
        "python_io": [tf.python_io],
        "parsing_ops": [tf.io],
        "dataset_ops": [tf.data],
        "summary": [tf.summary],
    }  # fmt: skip


def _index_table(vocabulary_list: Any, *args: Any, **named: Any) -> Any:
    # tf.contrib has it with another name of its first argument.
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    return tf.contrib.lookup.index_table_from_tensor(vocabulary_list, *args, **named)


def _ragged_pieces(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    # TensorFlow 2's form of tf.strings.split.
    made = tf.strings.split(input, sep, maxsplit, "RaggedTensor", name=name)
    return made[0] if input.shape.ndims == 0 else made


def _everywhere() -> list[Any]:
    return [
        *(tf, tf.train, tf.data, tf.data.experimental, tf.math, tf.io),
        *(tf.python_io, tf.errors, tf.strings, tf.sparse, tf.lookup),
    ]


def _file_io() -> dict[str, Any]:
    # The functions behind tf.io.gfile and tf.gfile, under the names that they have in TensorFlow's own module.
    gfile = tf.io.gfile
    names = {
        "FileIO": gfile.GFile,
        "create_dir": gfile.mkdir,
        "delete_file": gfile.remove,
        "delete_recursively": gfile.rmtree,
        "file_exists": gfile.exists,
        "get_matching_files": gfile.glob,
        "is_directory": gfile.isdir,
        "list_directory": gfile.listdir,
        "recursive_create_dir": gfile.makedirs,
        "walk": tf.gfile.Walk,
        "read_file_to_string": lambda name: gfile.GFile(name).read(),
        "write_string_to_file": _write_string_to_file,
    }
    absent = ("atomic_write_string_to_file", "file_crc32", "filecmp", "has_atomic_move")
    names |= {name: Missing(f"tensorflow.python.lib.io.file_io.{name}") for name in absent}
    return names | {name: getattr(gfile, name) for name in ("copy", "join", "rename", "stat")}


def _write_string_to_file(name: Any, content: Any) -> None:
    with tf.io.gfile.GFile(name, "w") as file:
        file.write(content)


def _is_sparse(value: Any) -> bool:
    return all(hasattr(value, part) for part in ("indices", "values", "dense_shape"))


def _renamed() -> dict[str, Any]:
    # Names of TensorFlow's modules that are others in its public namespaces.
    return {
        "DatasetV1": tf.data.Dataset,
        "DatasetV2": tf.data.Dataset,
        "TextLineDatasetV1": tf.data.TextLineDataset,
        "TextLineDatasetV2": tf.data.TextLineDataset,
        "TFRecordDatasetV1": tf.data.TFRecordDataset,
        "TFRecordDatasetV2": tf.data.TFRecordDataset,
        "FixedLengthRecordDatasetV1": tf.data.FixedLengthRecordDataset,
        "FixedLengthRecordDatasetV2": tf.data.FixedLengthRecordDataset,
        "UNKNOWN": tf.data.UNKNOWN_CARDINALITY,
        "INFINITE": tf.data.INFINITE_CARDINALITY,
        "get_legacy_output_shapes": tf.data.get_output_shapes,
        "get_legacy_output_types": tf.data.get_output_types,
        "get_legacy_output_classes": tf.data.get_output_classes,
        "get_structure": lambda dataset: dataset.element_spec,
        "HashTable": tf.lookup.StaticHashTable,
        "StaticHashTableV1": tf.lookup.StaticHashTable,
        "VariableV1": tf.Variable,
        "RefVariable": tf.Variable,
        "as_shape": tf.TensorShape,
        "as_dimension": tf.Dimension,
        "eager_py_func": tf.py_function,
        "is_sparse": _is_sparse,
        "is_ragged": lambda value: isinstance(value, (tf.RaggedTensor, tf.RaggedTensorValue)),
        "inside_function": lambda: False,
        "executing_eagerly": lambda: mode() == EAGER,
        "GET_NEXT_CALL_WARNING_THRESHOLD": 32,
        "GET_NEXT_CALL_WARNING_MESSAGE": "",
        "are_compatible": lambda one, other: (
            nests.same_structure(one, other)
            and all(a.is_compatible_with(b) for a, b in zip(nests.leaves(one), nests.leaves(other), strict=True))
        ),
        "type_spec_from_value": lambda value: nests.tensors_of(value, "type_spec_from_value")[0],
    }


def _own() -> dict[str, dict[str, Any]]:
    # Modules that we have our own of.
    base = {name: getattr(datasets, name) for name in dir(datasets) if name.endswith("_combinations")}
    base["DatasetTestBase"] = datasets.DatasetTestBase
    checkpoints = {
        "CheckpointTestBase": datasets.CheckpointTestBase,
        "default_test_combinations": datasets.checkpoint_combinations,
    }
    combinations = {name: getattr(cases, name) for name in ("combine", "times", "generate", "NamedObject")}
    parameterized = {name: getattr(cases, name) for name in ("parameters", "named_parameters", "product")}
    parameterized["TestCase"] = cases.ParameterizedTestCase
    return {
        "tensorflow.python.data.kernel_tests.test_base": base,
        "tensorflow.python.data.kernel_tests.checkpoint_test_base": checkpoints,
        "tensorflow.python.framework.combinations": combinations,
        "tensorflow.python.framework.test_util": cases.test_util(),
        "tensorflow.python.framework.test_combinations": combinations,
        "tensorflow.python.lib.io.file_io": _file_io(),
        "tensorflow.python.platform.test": _test_module(),
        "tensorflow.python.platform.googletest": _test_module(),
        "tensorflow.python.pywrap_sanitizers": dict.fromkeys(
            ("is_asan_enabled", "is_msan_enabled", "is_tsan_enabled", "is_ubsan_enabled"), lambda: False
        ),
        "absl.testing.parameterized": parameterized,
    }


_ABSENT = object()


def _find(namespace: Any, name: str) -> Any:
    listed = getattr(namespace, "__all__", None)
    if name.startswith("_") or (listed is not None and name not in listed and name not in vars(namespace)):
        return _ABSENT
    try:
        return getattr(namespace, name)
    except AttributeError:
        return _ABSENT


class Facade(types.ModuleType):
    """A module whose names are ours."""

    def __init__(self, name: str, names: dict[str, Any] | None, namespaces: list[Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._names = names
        self._namespaces = namespaces

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._names is not None and name in self._names:
            return self._names[name]
        full_name = f"{self.__name__}.{name}"
        if self.__name__ in _PACKAGES or full_name in _PACKAGES:
            return importlib.import_module(full_name)
        if self._names is None:
            files = self.__name__.endswith(("python_io", "tf_record"))  # which have no modes
            if mode() == EAGER and name in eager.NAMES and not files:
                return eager.NAMES[name]
            if name in _RENAMED:
                return _RENAMED[name]
            for namespace in self._namespaces:
                found = _find(namespace, name)
                if found is not _ABSENT:
                    return found
        return Missing(full_name)


_RENAMED = _renamed()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of TensorFlow's that tests import."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._own = _own()
        self._first = _namespaces()

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a name of the peer's; None for all others."""
        top = name.partition(".")[0]
        if name not in self._own and top != "tensorflow":
            return None
        shared = self._root.joinpath(*name.split(".")).with_suffix(".py")
        if name not in self._own and "test" in shared.stem and shared.is_file():
            return importlib.util.spec_from_file_location(name, shared)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return a facade."""
        if spec.name == "tensorflow":
            names = {"test": types.SimpleNamespace(**_test_module())}
            return _Tensorflow(spec.name, names, [tf])
        first = self._first.get(spec.name.rpartition(".")[2], [])
        return Facade(spec.name, self._own.get(spec.name), [*first, *_everywhere()])

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: names are found when they are used."""


class _Tensorflow(Facade):
    # `import tensorflow as tf`: its public names.
    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and name not in self._names and f"tensorflow.{name}" not in _PACKAGES:
            found = _find(tf, name)
            return Missing(f"tensorflow.{name}") if found is _ABSENT else found
        return super().__getattr__(name)


class _Absl(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    # The packages around absl.testing.parameterized, where absl isn't installed.
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name in ("absl", "absl.testing"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install(root: Path) -> Callable[[], None]:
    """Make imports of a peer's modules ours; returns a function that ends this."""
    finders = [Finder(root), _Absl()]
    sys.meta_path.insert(0, finders[0])
    sys.meta_path.append(finders[1])
    variants = [tf.data.Dataset, data.Dataset]
    for cls in variants:
        cls._variant_tensor = property(cases.Variant)

    def end() -> None:
        for finder in finders:
            sys.meta_path.remove(finder)
        for cls in variants:
            del cls._variant_tensor
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tensorflow", "absl")]:
            del sys.modules[name]

    return end
