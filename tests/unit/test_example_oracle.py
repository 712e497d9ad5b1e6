"""Parsing of Examples against protobuf's own parser, on messages of any form that the wire format allows."""

from __future__ import annotations

import os
import random
import struct

import numpy as np
import pytest
from helpers import example_messages as wire
from helpers.example_messages import Refused, expected, plain

from queuecore import ops
from queuecore.errors import InvalidArgumentError, ProtoError

KINDS = {"i": np.int64, "f": np.float32, "b": bytes}
KEYS = ["i", "i2", "f", "f2", "b", "b2", "i_a_longer_key", "f_a_longer_key"]
# One sitting of each test; QUEUECORE_EXAMPLE_ROUNDS=100 makes it a long one.
ROUNDS = range(int(os.environ.get("QUEUECORE_EXAMPLE_ROUNDS", "1")))
SITTING = 1500


class Maker(random.Random):
    """Messages in any form that the wire format allows, and descriptions of what to take from them."""

    def value(self, kind):
        if kind == "i":
            return self.choice([self.randint(-3, 300), self.randint(-(2**63), 2**63 - 1)])
        if kind == "f":
            return struct.unpack("<f", self.choice([struct.pack("<f", self.randint(-9, 9) / 4), self.randbytes(4)]))[0]
        return self.randbytes(self.choice([0, 1, 3, 9, 200]))

    def unknown(self, least, depth=0):
        """Return a field that nobody knows, of any wire type."""
        number = self.choice([self.randint(least, 40), 2**29 - 1])
        kind = self.choice([0, 1, 2, 3, 5])
        if kind == 0:
            return wire.tagged(number, 0, wire.varint(self.value("i"), self.randint(0, 2)))
        if kind == 3:
            return wire.group(number, self.unknown(1, depth + 1) if depth < 4 and self.random() < 0.7 else b"")
        return wire.tagged(number, kind, self.randbytes({1: 8, 5: 4}.get(kind, self.randint(0, 9))))

    def mixed(self, parts, least):
        """Return fields in any order, with unknown ones among them now and then."""
        while self.random() < 0.15:
            parts = [*parts, self.unknown(least)]
        self.shuffle(parts)
        return b"".join(parts)

    def field(self, number, body):
        """Return a field of bytes, now and then with its length in more bytes than it needs."""
        return wire.tagged(number, 2, body, self.choice([0, 0, 0, 0, 1, 2]))

    def list(self, kind):
        """Return a field of a Feature: a list."""
        write = {"i": wire.int_list, "f": wire.float_list, "b": wire.bytes_list}[kind]
        parts = []
        for _ in range(self.choice([1, 1, 1, 1, 0, 2, 3])):
            if kind == "b" or self.random() < 0.3:
                parts += [write(self.value(kind)) for _ in range(self.choice([1, 2, 2, 4]))]
            else:
                parts.append(write([self.value(kind) for _ in range(self.choice([0, 1, 2, 2, 4, 8]))]))
        return self.field({"b": 1, "f": 2, "i": 3}[kind], self.mixed(parts, 2))

    def feature(self, kind):
        """Return the fields of a Feature, mostly of one kind."""
        count = self.choice([1] * 12 + [0, 2, 3])
        kinds = [kind if self.random() < 0.9 or count == 1 and self.random() < 0.8 else self.choice("ifb")] * count
        if count > 1 and self.random() < 0.5:
            kinds = [self.choice(["i", "f", "b", kind]) for _ in kinds]
        return self.mixed([self.list(one) for one in kinds], 4)

    def entry(self, body, key):
        """Return an entry of a map."""
        parts = [wire.tagged(1, 2, key.encode())]
        parts += [self.field(2, body(key[0])) for _ in range(self.choice([1] * 12 + [0, 2]))]
        if self.random() < 0.05:
            parts.append(wire.tagged(1, 2, key.encode()))
        # No unknown fields here: protobuf's fast parser leaves such an entry out, its Python one does not.
        self.shuffle(parts)
        return self.field(1, b"".join(parts))

    def features(self):
        """Return the fields of a Features message."""
        keys = self.sample(KEYS, self.randint(0, len(KEYS)))
        if keys and self.random() < 0.3:
            keys.append(self.choice(keys))
        return self.mixed([self.entry(self.feature, key) for key in keys], 2)

    def example(self):
        parts = [self.field(1, self.features()) for _ in range(self.choice([1] * 10 + [0, 2]))]
        return self.mixed(parts, 2)

    def steps(self, kind):
        """Return the fields of a FeatureList."""
        return self.mixed([self.field(1, self.feature(kind)) for _ in range(self.randint(0, 4))], 2)

    def sequence(self, key):
        lists = [self.entry(self.steps, one) for one in self.sample(["i", "f", "b"], 2) + [key] * (self.random() < 0.7)]
        parts = [self.field(1, self.features()), self.field(2, self.mixed(lists, 2))]
        return self.mixed(parts + [self.field(2, b"")] * (self.random() < 0.1), 3)

    def descriptions(self):
        """Return features by key."""
        made = {}
        for key in self.sample([*KEYS, "i_absent"], self.randint(1, 4)):
            dtype = KINDS[key[0]]
            which = self.choice(["fixed", "var", "sequence", "ragged", "sparse"])
            shape = self.choice([(), (), (2,), (2, 2)])
            if which == "fixed":
                count = int(np.prod(shape, dtype=int))
                values = [self.value(key[0]) for _ in range(count)]
                made[key] = ops.FixedLenFeature(shape, dtype, values if self.random() < 0.8 else None)
            elif which == "var":
                made[key] = ops.VarLenFeature(dtype)
            elif which == "sequence":
                default = self.value(key[0]) if self.random() < 0.5 else None
                made[key] = ops.FixedLenSequenceFeature(shape, dtype, True, default)
            elif which == "ragged":
                made[key] = ops.RaggedFeature(dtype, row_splits_dtype=self.choice([np.int32, np.int64]))
            else:
                index = self.choice(["i", ["i", "i2"], ["i2"]])
                size = 9 if isinstance(index, str) else [9] * len(index)
                made["sparse " + key] = ops.SparseFeature(index, key, dtype, size, self.random() < 0.5)
        return made


def compare(serialized, features, batch):
    """Hold a result against protobuf's; return whether there was one."""
    try:
        wanted = expected([wire.Example.FromString(one) for one in serialized], features, batch)
    except Refused:
        with pytest.raises(InvalidArgumentError) as caught:
            if batch:
                ops.parse_example(serialized, features)
            else:
                ops.parse_single_example(serialized[0], features)
        assert not isinstance(caught.value, ProtoError)
        return False
    if batch:
        result = ops.parse_example(serialized, features)
    else:
        result = ops.parse_single_example(serialized[0], features)
    assert plain(result, features) == wanted
    return True


@pytest.mark.parametrize("sitting", ROUNDS)
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "single"])
def test_examples_are_what_protobuf_reads(batch, sitting):
    good = 0
    for seed in range(SITTING * sitting, SITTING * (sitting + 1)):
        make = Maker(seed)
        serialized = [make.example() for _ in range(make.choice([0, 1, 1, 2, 3]) if batch else 1)]
        try:
            good += compare(serialized, make.descriptions(), batch)
        except BaseException:
            print(f"seed {seed}")
            raise
    # Most are good, many are not: else little was said.
    assert SITTING * 0.2 < good < SITTING * 0.95


def compare_lists(serialized, key, allow_missing):
    dtype = KINDS[key]
    found = []
    for one in serialized:
        lists = wire.SequenceExample.FromString(one).feature_lists.feature_list
        found.append(list(lists[key].feature) if key in lists else None)
    asked = {key: ops.RaggedFeature(dtype)}
    kinds = {step.WhichOneof("kind") for steps in found for step in steps or []} - {None}
    if kinds - {wire.NAMES[dtype]}:
        with pytest.raises(InvalidArgumentError) as caught:
            ops.parse_sequence_example(serialized, None, asked)
        assert not isinstance(caught.value, ProtoError)
        return False
    nested = [[list(getattr(step, wire.NAMES[dtype]).value) for step in steps or []] for steps in found]
    _, ragged, lengths = ops.parse_sequence_example(serialized, None, asked)
    assert wire.bits(ragged[key].to_list(), dtype) == wire.bits(nested, dtype)
    assert lengths == {}
    _, sparse, _ = ops.parse_sequence_example(serialized, None, {key: ops.VarLenFeature(dtype)})
    places = [[r, s, i] for r, steps in enumerate(nested) for s, step in enumerate(steps) for i in range(len(step))]
    longest = max(map(len, nested)), max((len(step) for steps in nested for step in steps), default=0)
    assert sparse[key].indices.tolist() == places
    assert sparse[key].dense_shape.tolist() == [len(nested), *longest]
    padded = {key: ops.FixedLenSequenceFeature((2,), dtype, allow_missing)}
    missing = any(steps is None for steps in found) and not allow_missing
    if missing or any(len(step) != 2 for steps in nested for step in steps):
        with pytest.raises(InvalidArgumentError):
            ops.parse_sequence_example(serialized, None, padded)
        return False
    _, dense, lengths = ops.parse_sequence_example(serialized, None, padded)
    fill = [b"" if dtype is bytes else 0] * 2
    filled = [steps + [fill] * (longest[0] - len(steps)) for steps in nested]
    assert wire.bits(dense[key].to_list() if dtype is bytes else dense[key].tolist(), dtype) == wire.bits(filled, dtype)
    assert lengths[key].tolist() == list(map(len, nested))
    return True


@pytest.mark.parametrize("sitting", ROUNDS)
def test_feature_lists_are_what_protobuf_reads(sitting):
    good = 0
    for seed in range(SITTING * sitting, SITTING * (sitting + 1)):
        make = Maker(seed)
        key = make.choice("ifb")
        try:
            good += compare_lists([make.sequence(key) for _ in range(make.randint(1, 3))], key, make.random() < 0.5)
        except BaseException:
            print(f"seed {seed}")
            raise
    assert SITTING * 0.05 < good < SITTING * 0.95
