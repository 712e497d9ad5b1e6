"""Examples for tests: protobuf's own message classes, and what parsing must give."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from queuecore.ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from queuecore.ragged import Ragged, Sparse

FIELD = descriptor_pb2.FieldDescriptorProto
NAMES = {bytes: "bytes_list", np.float32: "float_list", np.int64: "int64_list"}


def _classes() -> dict[str, Any]:
    """Return the message classes, from descriptors that are made here."""
    file = descriptor_pb2.FileDescriptorProto(name="queuecore_test.proto", package="queuecore_test", syntax="proto3")

    def message(name: str, *fields: tuple[Any, ...]) -> Any:
        descriptor = file.message_type.add(name=name)
        for number, (field, kind, repeated) in enumerate(fields, 1):
            entry = descriptor.field.add(name=field, number=number)
            entry.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            if isinstance(kind, str):
                entry.type = FIELD.TYPE_MESSAGE
                entry.type_name = f".queuecore_test.{kind}"
            else:
                entry.type = kind
        return descriptor

    def with_map(name: str, field: str, entry: str, value: str) -> None:
        descriptor = message(name, (field, f"{name}.{entry}", True))
        nested = message(entry, ("key", FIELD.TYPE_STRING, False), ("value", value, False))
        nested.options.map_entry = True
        descriptor.nested_type.add().CopyFrom(nested)
        del file.message_type[-1]

    message("BytesList", ("value", FIELD.TYPE_BYTES, True))
    message("FloatList", ("value", FIELD.TYPE_FLOAT, True))
    message("Int64List", ("value", FIELD.TYPE_INT64, True))
    feature = message(
        "Feature",
        ("bytes_list", "BytesList", False),
        ("float_list", "FloatList", False),
        ("int64_list", "Int64List", False),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    with_map("Features", "feature", "FeatureEntry", "Feature")
    message("FeatureList", ("feature", "Feature", True))
    with_map("FeatureLists", "feature_list", "FeatureListEntry", "FeatureList")
    message("Example", ("features", "Features", False))
    message("SequenceExample", ("context", "Features", False), ("feature_lists", "FeatureLists", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [descriptor.name for descriptor in file.message_type]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"queuecore_test.{name}")) for name in names
    }


CLASSES = _classes()
Example = CLASSES["Example"]
SequenceExample = CLASSES["SequenceExample"]


def feature(*values: Any, kind: Any = None) -> Any:
    """Return a Feature message; the kind is that of the values, if it isn't named."""
    made = CLASSES["Feature"]()
    if kind is None:
        kind = {bytes: bytes, float: np.float32, int: np.int64}[type(values[0])]
    getattr(made, NAMES[kind]).value.extend(values)
    getattr(made, NAMES[kind]).SetInParent()
    return made


def example(**features: Any) -> bytes:
    """Return a serialized Example."""
    made = Example()
    for key, one in features.items():
        made.features.feature[key].CopyFrom(one)
    return made.SerializeToString(deterministic=True)


def sequence(context: dict[str, Any] | None = None, **lists: Iterable[Any]) -> bytes:
    """Return a serialized SequenceExample."""
    example = SequenceExample()
    for key, feature in (context or {}).items():
        example.context.feature[key].CopyFrom(feature)
    for key, steps in lists.items():
        example.feature_lists.feature_list[key].feature.extend(steps)
        example.feature_lists.feature_list[key].SetInParent()
    return example.SerializeToString(deterministic=True)


# ---- what parsing must give ------------------------------------------------------------------------------------------


class Refused(Exception):
    """The messages must be refused."""


def _values(message: Any, kind: Any) -> list[Any] | None:
    """Return the values of a Feature; None: it has no kind."""
    name = message.WhichOneof("kind")
    if name is None:
        return None
    if name != NAMES[kind]:
        raise Refused(name)
    return list(getattr(message, name).value)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def bits(values: Any, kind: Any) -> Any:
    """Return nested lists of values in a form in which NaN equals itself."""
    if isinstance(values, (list, tuple)):
        return [bits(one, kind) for one in values]
    return struct.pack("<f", values) if kind is np.float32 else values


def _shaped(values: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    each = len(values) // shape[0] if shape[0] else 0
    return [_shaped(values[i * each : (i + 1) * each], shape[1:]) for i in range(shape[0])]


def expected(messages: list[Any], features: dict[str, Any], batch: bool) -> dict[str, Any]:
    """Return what `plain` makes of the right answer for Example messages; or raise Refused."""
    answers = {}
    for key, feature in features.items():
        kind = feature.dtype

        def values(name: str, kind: Any = kind) -> list[list[Any] | None]:
            maps = [message.features.feature for message in messages]
            return [_values(record[name], kind) if name in record else None for record in maps]

        if isinstance(feature, FixedLenFeature):
            shape = tuple(_listed(feature.shape))
            rows = []
            for row in values(key):
                if row is None:
                    if feature.default_value is None:
                        raise Refused(key)
                    row = np.ravel(np.array(feature.default_value, object)).tolist()
                if len(row) != np.prod(shape, dtype=int):
                    raise Refused(key)
                rows.append(_shaped(bits(row, kind), shape))
            answers[key] = ("dense", rows if batch else rows[0])
        elif isinstance(feature, FixedLenSequenceFeature):
            shape = tuple(_listed(feature.shape))
            each = int(np.prod(shape, dtype=int))
            lists = [row or [] for row in values(key)]
            if any(len(row) % each for row in lists):
                raise Refused(key)
            longest = max(map(len, lists), default=0)
            fill = feature.default_value if feature.default_value is not None else (b"" if kind is bytes else 0)
            rows = [
                _shaped(bits(row + [fill] * (longest - len(row)), kind), (longest // each, *shape)) for row in lists
            ]
            answers[key] = ("dense", rows if batch else rows[0])
        elif isinstance(feature, VarLenFeature):
            lists = [row or [] for row in values(key)]
            places = [[i, j] if batch else [j] for i, row in enumerate(lists) for j in range(len(row))]
            shape = ([len(lists)] if batch else []) + [max(map(len, lists), default=0)]
            answers[key] = ("sparse", places, bits(sum(lists, []), kind), shape)
        elif isinstance(feature, RaggedFeature):
            lists = bits([row or [] for row in values(feature.value_key or key)], kind)
            answers[key] = ("ragged", lists) if batch else ("dense", lists[0])
        elif isinstance(feature, SparseFeature):
            columns = [values(name, np.int64) for name in _listed(feature.index_key)]
            triples = []
            for i, row in enumerate(values(feature.value_key)):
                places = [column[i] or [] for column in columns]
                if any(len(place) != len(row or []) for place in places):
                    raise Refused(key)
                part = [([i] * batch + list(at), value) for *at, value in zip(*places, row or [], strict=True)]
                triples += part if feature.already_sorted else sorted(part, key=lambda pair: pair[0])
            shape = ([len(messages)] if batch else []) + _listed(feature.size)
            answers[key] = ("sparse", [at for at, _ in triples], bits([value for _, value in triples], kind), shape)
    return answers


def plain(result: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
    """Return a result in plain lists, and check its dtypes."""

    def listed(value: Any, kind: Any) -> Any:
        if isinstance(value, bytes):
            return value
        if isinstance(value, Ragged):
            assert kind is not bytes or value.dtype == np.dtype("S")
            return bits(value.to_list(), kind)
        assert value.dtype == kind
        return bits(value.tolist(), kind)

    answers = {}
    for key, value in result.items():
        feature = features[key]
        if isinstance(value, Sparse):
            parts = value.indices.tolist(), listed(value.values, feature.dtype), value.dense_shape.tolist()
            answers[key] = ("sparse", *parts)
        elif isinstance(value, Ragged) and isinstance(feature, RaggedFeature) and feature.dtype is not bytes:
            assert value.row_splits.dtype == feature.row_splits_dtype
            answers[key] = ("ragged", listed(value, feature.dtype))
        else:
            nested = isinstance(value, Ragged) and isinstance(value.values, Ragged)
            ragged = nested and isinstance(feature, RaggedFeature)
            answers[key] = ("ragged" if ragged else "dense", listed(value, feature.dtype))
    return answers
