"""Parsing of Examples against protobuf's own parser, on messages of any form that the wire format allows."""

from __future__ import annotations

import os

import pytest
from helpers.formats import example_messages as wire
from helpers.formats.example_messages import Refused, expected, plain
from helpers.formats.example_wire import KINDS, Maker

from queuecore import ops
from queuecore.errors import InvalidArgumentError, ProtoError

# One sitting of each test; QUEUECORE_EXAMPLE_ROUNDS=100 makes it a long one.
ROUNDS = range(int(os.environ.get("QUEUECORE_EXAMPLE_ROUNDS", "1")))
SITTING = 1500


def compare(serialized, features, batch):
    """Hold a result against protobuf's; return whether there was one."""
    try:
        columns = expected([wire.Example.FromString(one) for one in serialized], features, batch)
    except Refused:
        with pytest.raises(InvalidArgumentError) as caught:
            if batch:
                ops.parse_example(serialized, features)
            else:
                ops.parse_single_example(serialized[0], features)
        assert not isinstance(caught.value, ProtoError)
        return False
    result = ops.parse_example(serialized, features) if batch else ops.parse_single_example(*serialized, features)
    assert plain(result, features) == columns
    return True


@pytest.mark.thorough
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
    sequences = []
    for one in serialized:
        lists = wire.SequenceExample.FromString(one).feature_lists.feature_list
        sequences.append(list(lists[key].feature) if key in lists else None)
    features = {key: ops.RaggedFeature(dtype)}
    kinds = {step.WhichOneof("kind") for steps in sequences for step in steps or []} - {None}
    if kinds - {wire.NAMES[dtype]}:
        with pytest.raises(InvalidArgumentError) as caught:
            ops.parse_sequence_example(serialized, None, features)
        assert not isinstance(caught.value, ProtoError)
        return False
    nested = [[list(getattr(step, wire.NAMES[dtype]).value) for step in steps or []] for steps in sequences]
    _, ragged, lengths = ops.parse_sequence_example(serialized, None, features)
    assert wire.bits(ragged[key].to_list(), dtype) == wire.bits(nested, dtype)
    assert lengths == {}
    _, sparse, _ = ops.parse_sequence_example(serialized, None, {key: ops.VarLenFeature(dtype)})
    places = [[r, s, i] for r, steps in enumerate(nested) for s, step in enumerate(steps) for i in range(len(step))]
    longest = max(map(len, nested)), max((len(step) for steps in nested for step in steps), default=0)
    assert sparse[key].indices.tolist() == places
    assert sparse[key].dense_shape.tolist() == [len(nested), *longest]
    padded = {key: ops.FixedLenSequenceFeature((2,), dtype, allow_missing)}
    missing = any(steps is None for steps in sequences) and not allow_missing
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


@pytest.mark.thorough
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
