"""Parsing of Examples against TensorFlow itself, in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess

import numpy as np
import pytest
from helpers.formats import example_messages as wire
from helpers.formats.example_messages import example, feature, plain, sequence
from helpers.formats.example_wire import Maker
from helpers.tensorflow import examples as tensorflow_examples
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

from queuecore import ops
from queuecore.errors import InvalidArgumentError
from queuecore.ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(600),
]

SEEDS = int(os.environ.get("QUEUECORE_TENSORFLOW_HISTORIES", "6")) * 50
WORDS = {np.int64: "int64", np.float32: "float32", np.int32: "int32", bytes: "string"}


def told(key, description):
    """Return a description as the other process gets it."""
    arguments = {field.name: getattr(description, field.name) for field in dataclasses.fields(description)}
    for name in ("dtype", "row_splits_dtype"):
        if name in arguments:
            arguments[name] = WORDS[arguments[name]]
    if "partitions" in arguments:
        parts = [(type(one).__name__, *dataclasses.astuple(one)) for one in arguments["partitions"]]
        arguments["partitions"] = parts
    return key, type(description).__name__, arguments


def play(cases):
    """TensorFlow's answers."""
    sent = [
        (function, messages, [section and [told(*pair) for pair in section.items()] for section in sections])
        for function, messages, sections in cases
    ]
    done = subprocess.run(
        [PYTHON, "-P", tensorflow_examples.__file__],
        input=pickle.dumps(sent),
        capture_output=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:].decode()
    return pickle.loads(done.stdout)


STRICTER = "we look at each record"


def ours(function, messages, sections):
    try:
        parsed = getattr(ops, function)(messages, *sections)
    except InvalidArgumentError as error:
        # TensorFlow only looks whether there are as many indices as values in the whole batch.
        return STRICTER if "indices in" in str(error) else None
    if isinstance(parsed, dict):
        return [plain(parsed, sections[0])]
    parts = [plain(one, section or {}) for one, section in zip(parsed[:2], sections, strict=True)]
    return parts + [{key: ("dense", value.tolist()) for key, value in one.items()} for one in parsed[2:]]


def hold(cases, least):
    """Hold our answers against TensorFlow's; at least so many of them must be values."""
    values = 0
    for case, (what, *answer) in zip(cases, play(cases), strict=True):
        # One key as two kinds of feature is refused there.
        if what == "error" and "must not intersect" in answer[1]:
            continue
        got = ours(*case)
        if what == "error":
            assert got in (None, STRICTER), (case, answer)
        elif got != STRICTER:
            assert got == answer[0], case
            values += 1
    assert values >= least
    return values


def canonical(cls, message):
    """Return a message as protobuf writes it, without unknown fields: TensorFlow's own parser stumbles over others."""
    made = cls.FromString(message)
    made.DiscardUnknownFields()
    return made.SerializeToString(deterministic=True)


def without_none(message):
    """Return an Example without features of no kind."""
    made = wire.Example.FromString(message)
    for key in [key for key, one in made.features.feature.items() if one.WhichOneof("kind") is None]:
        del made.features.feature[key]
    return made.SerializeToString(deterministic=True)


def test_random_examples():
    cases = []
    for seed in range(SEEDS):
        make = Maker(seed)
        messages = [canonical(wire.Example, make.example()) for _ in range(make.choice([1, 1, 2, 3]))]
        if make.random() < 0.2:
            # Keys twice: the last one wins. Not so there, if it is of no kind.
            messages = [one + without_none(canonical(wire.Example, make.example())) for one in messages]
        features = make.descriptions()
        if make.random() < 0.3:
            cases.append(("parse_single_example", messages[0], [features]))
        else:
            cases.append(("parse_example", messages, [features]))
    assert hold(cases, SEEDS / 5) < SEEDS * 0.95


def test_random_sequence_examples():
    cases = []
    for seed in range(SEEDS):
        make = Maker(seed)
        key = make.choice("ifb")
        dtype = {"i": np.int64, "f": np.float32, "b": bytes}[key]
        messages = [canonical(wire.SequenceExample, make.sequence(key)) for _ in range(make.randint(1, 3))]
        context = {
            "i": make.choice([VarLenFeature, RaggedFeature])(np.int64),
            "f2": make.choice([VarLenFeature, RaggedFeature])(np.float32),
            "i_absent": FixedLenFeature((2,), np.int64, [3, 4]),
        }
        which = make.randrange(3)
        lists = {key: [VarLenFeature(dtype), RaggedFeature(dtype), FixedLenSequenceFeature((2,), dtype, True)][which]}
        if make.random() < 0.3:
            cases.append(("parse_single_sequence_example", messages[0], [context, lists]))
        else:
            cases.append(("parse_sequence_example", messages, [context, lists]))
    assert hold(cases, SEEDS / 10) < SEEDS * 0.95


def parted(make, parts):
    """Return a message whose partitions fit its values."""
    count = make.randint(0, 3)
    partitions = {}
    for part in reversed(parts):
        if isinstance(part, RaggedFeature.UniformRowLength):
            count *= part.length
            continue
        rows = [make.randint(0, 3) for _ in range(count)]
        ends = np.cumsum([0, *rows]).tolist()
        ids = np.repeat(np.arange(count), rows).tolist()
        last = max(ids, default=-1) + 1
        if isinstance(part, RaggedFeature.ValueRowIds):
            # Empty rows at the end can't be told by ids: there are none further out then.
            rows, count = rows[:last], last
        told = {"RowSplits": ends, "RowLengths": rows, "RowStarts": ends[:-1], "RowLimits": ends[1:]}
        partitions[part.key] = told.get(type(part).__name__, ids)
        count = sum(rows)
    return partitions, count


def test_partitions():
    kinds = [RaggedFeature.RowSplits, RaggedFeature.RowLengths, RaggedFeature.RowStarts, RaggedFeature.RowLimits]
    cases = []
    for seed in range(SEEDS // 2):
        make = Maker(seed)
        # Innermost first here. Ids only outermost: see `parted`.
        parts = [make.choice(kinds)(f"p{i}") for i in range(make.randint(0, 2))]
        parts += [RaggedFeature.ValueRowIds("ids")] * make.randint(0, 1)
        if make.random() < 0.3:
            parts.insert(make.randint(0, max(0, len(parts) - 1)), RaggedFeature.UniformRowLength(make.randint(1, 3)))
        parts = parts[::-1]
        messages = []
        for _ in range(make.randint(1, 3)):
            found, count = parted(make, parts[::-1])
            found["v"] = [make.value("i") for _ in range(count)]
            messages.append(example(**{key: feature(*values, kind=np.int64) for key, values in found.items()}))
        asked = {"r": RaggedFeature(np.int64, "v", parts, make.choice([np.int32, np.int64]))}
        if make.random() < 0.3:
            cases.append(("parse_single_example", messages[0], [asked]))
        else:
            cases.append(("parse_example", messages, [asked]))
    hold(cases, SEEDS / 4)


def test_corners():
    a = example(a=feature(1, 2), f=feature(0.5), s=feature(b"x", b""))
    s = sequence({"c": feature(3)}, a=[feature(1), feature(2)], e=[])
    i, t, f = np.int64, bytes, np.float32
    descriptions = [
        FixedLenFeature(2, i),
        FixedLenFeature((), i),
        FixedLenFeature((2,), i, [5, 6]),
        FixedLenFeature((), i, [7]),
        FixedLenFeature((2,), i, 7),
        FixedLenFeature((0,), i),
        FixedLenFeature((None,), i),
        FixedLenFeature((1, None), i),
        FixedLenFeature((), i, 7.5),
        FixedLenSequenceFeature((), i),
        FixedLenSequenceFeature((2,), i, True, 9),
        FixedLenSequenceFeature((2,), i, True, [1, 2]),
        FixedLenSequenceFeature((3,), i, True),
        SparseFeature("a", "f", f, 3),
        SparseFeature(["a", "a"], "a", i, [3, 4]),
        SparseFeature(["a", "a"], "a", i, 3),
        SparseFeature(["a"], "a", i, [3]),
        RaggedFeature(i),
        VarLenFeature(f),
    ]
    empty = example(a=feature(kind=i))
    none = example(a=wire.CLASSES["Feature"]())
    cases = []
    for description in descriptions:
        key = "other" if isinstance(description, SparseFeature) else "a"
        for message in (a, b"", empty, none):
            cases.append(("parse_single_example", message, [{key: description}]))
            cases.append(("parse_example", message, [{key: description}]))
            cases.append(("parse_example", [message], [{key: description}]))
            cases.append(("parse_example", [message, a], [{key: description}]))
    cases += [
        ("parse_example", [], [{key: description for key, description in zip("xyz", descriptions[:3], strict=True)}])
    ]
    cases += [("parse_example", [], [{"s": FixedLenFeature((2,), t), "r": RaggedFeature(t)}])]
    cases += [("parse_single_example", [a], [{"a": VarLenFeature(i)}]), ("parse_example", [a], [{}])]
    for description in (*descriptions[:2], *descriptions[9:13], *descriptions[-2:]):
        for function, many in (("parse_sequence_example", True), ("parse_single_sequence_example", False)):
            for message in (s, b""):
                for key in ("a", "e", "absent"):
                    cases.append((function, [message] if many else message, [None, {key: description}]))
                if not isinstance(description, FixedLenFeature):
                    cases.append((function, [message, s] if many else message, [{"c": description}, None]))
    hold(cases, len(cases) / 4)
