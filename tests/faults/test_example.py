"""Examples that are cut, flipped or made to harm: refused, or read as what they are; nothing is read beyond the end."""

from __future__ import annotations

import random
import resource

import numpy as np
import pytest
from helpers.formats.example_wire import (
    Maker,
    alone,
    bytes_list,
    entry,
    float_list,
    fuzz,
    group,
    int_list,
    tagged,
    varint,
)

from queuecore.errors import InvalidArgumentError, ProtoError, ResourceExhaustedError
from queuecore.ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_sequence_example,
    parse_single_example,
)

GOOD = tagged(
    1,
    2,
    entry(b"i", tagged(3, 2, int_list([1, 300, -2])))
    + entry(b"j", tagged(3, 2, int_list(2, 0, 1)))
    + entry(b"f", tagged(2, 2, float_list([0.5, 1.5], 2.5)))
    + entry(b"b", tagged(1, 2, bytes_list(b"x", b"", b"yz"))),
)
ASKED = {
    "i": FixedLenFeature(3, np.int64, [7, 8, 9]),
    "f": FixedLenSequenceFeature((), np.float32, True),
    "b": VarLenFeature(bytes),
    "s": SparseFeature("j", "b", bytes, 3),
    "r": RaggedFeature(np.int64, "j"),
}
CONTEXT = {"i": VarLenFeature(np.int64), "f": RaggedFeature(np.float32), "b": VarLenFeature(bytes)}
STEPS = tagged(1, 2, tagged(1, 2, b"t") + tagged(2, 2, tagged(1, 2, tagged(3, 2, int_list([5, 6]))) * 2))
SEQUENCE = tagged(2, 2, STEPS) + GOOD


def parse(message):
    return parse_example(alone(message), ASKED)


def parse_lists(message):
    return parse_sequence_example(alone(message), CONTEXT, {"t": RaggedFeature(np.int64)})


def tried(call, message):
    try:
        return call(message)
    except InvalidArgumentError:
        return None


def test_the_message_is_good():
    got = parse(GOOD)
    assert got["i"].tolist() == [[1, 300, -2]]
    assert got["s"].values.to_list() == [b"", b"yz", b"x"]
    assert parse_lists(SEQUENCE)[1]["t"].to_list() == [[[5, 6], [5, 6]]]


@pytest.mark.parametrize(("call", "message"), [(parse, GOOD), (parse_lists, SEQUENCE)])
def test_cut_at_each_byte(call, message):
    for end in range(len(message)):
        got = tried(call, message[:end])
        # The whole is one field, or two: only without it, or between them, is it a message.
        whole = [0] if call is parse else [0, len(SEQUENCE) - len(GOOD)]
        assert (got is not None) == (end in whole), end


@pytest.mark.parametrize(("call", "message"), [(parse, GOOD), (parse_lists, SEQUENCE)])
def test_each_bit_flipped(call, message):
    results = []
    for bit in range(8 * len(message)):
        damaged = bytearray(message)
        damaged[bit // 8] ^= 1 << bit % 8
        results.append(tried(call, bytes(damaged)) is not None)
    # A value differs, or the message is refused.
    assert 0.1 < sum(results) / len(results) < 0.9


def test_each_byte_replaced_by_each():
    for at in range(len(GOOD)):
        for byte in (0, 1, 7, 10, 11, 12, 15, 127, 128, 255):
            tried(parse, GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_at_random(seed):
    for number in range(500):
        fuzz(10**6 * (seed + 1) + number)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_any_bytes(seed):
    rng = random.Random(seed)
    for _ in range(1000):
        message = rng.randbytes(rng.randrange(40))
        tried(parse, message)
        tried(parse_lists, message)
        tried(parse, tagged(1, 2, tagged(1, 2, tagged(1, 2, b"i") + tagged(2, 2, message))))


def refused(message):
    for call in (parse, parse_lists, lambda one: parse_single_example(one, ASKED)):
        with pytest.raises(ProtoError):
            call(message)


@pytest.mark.parametrize("length", [9, 10, 11, 1000])
@pytest.mark.parametrize("byte", [b"\x80", b"\xff"])
def test_endless_numbers(byte, length):
    endless = byte * length
    refused(endless)  # a tag
    refused(b"\x0a" + endless)  # a length
    refused(b"\x48" + endless)  # the value of an unknown field
    refused(tagged(1, 2, b"\x0a" + endless))
    for packed in (b"\x0a" + varint(length) + endless, b"\x08" + endless):
        refused(tagged(1, 2, entry(b"i", tagged(3, 2, packed))))
    # One that ends, but too late.
    if length > 9:
        refused(b"\x48" + endless + b"\x01")
        packed = tagged(1, 2, endless + b"\x01")
        refused(tagged(1, 2, entry(b"i", tagged(3, 2, packed))))


@pytest.mark.parametrize("length", [1, 2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_lengths_beyond_the_end(length):
    claim = varint(length)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(b"\x0a" + claim)
    refused(b"\x4a" + claim)
    refused(tagged(1, 2, b"\x0a" + claim))
    refused(tagged(1, 2, tagged(1, 2, b"\x0a" + claim)))
    refused(tagged(1, 2, tagged(1, 2, tagged(1, 2, b"i") + b"\x12" + claim)))
    refused(tagged(1, 2, entry(b"i", b"\x1a" + claim)))
    refused(tagged(1, 2, entry(b"i", tagged(3, 2, b"\x0a" + claim))))
    refused(tagged(1, 2, entry(b"b", tagged(1, 2, b"\x0a" + claim))))
    # The claims are of 2 GiB and more. A sanitizer keeps for a while what was freed, so a small bound would be its own.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize("wrong", [tagged(1, 0, b"\x05"), tagged(1, 1, b"8 bytes."), tagged(1, 5, b"four"), group(1)])
def test_known_fields_of_the_wrong_wire_type(wrong):
    refused(wrong)
    refused(tagged(1, 2, wrong))
    refused(tagged(1, 2, tagged(1, 2, wrong)))
    two = varint(int.from_bytes(wrong[:1], "little") + 8) + wrong[1:-1] + (wrong[-1:] if wrong[-1] != 12 else b"\x14")
    refused(tagged(1, 2, tagged(1, 2, tagged(1, 2, b"i") + two)))
    refused(tagged(1, 2, entry(b"b", wrong)))
    refused(tagged(1, 2, entry(b"b", tagged(1, 2, wrong))))
    if wrong[0] & 7 != 5:
        refused(tagged(1, 2, entry(b"f", tagged(2, 2, wrong))))
    if wrong[0] & 7 != 0:
        refused(tagged(1, 2, entry(b"i", tagged(3, 2, wrong))))


@pytest.mark.parametrize(
    "tag", [b"\x00", b"\x02", b"\x07", b"\x4e", b"\x4f", b"\x4c", b"\x82\x80\x80\x80\x10", b"\x80\x00"]
)
def test_tags_that_are_none(tag):
    # Field 0, wire types 6 and 7, an end without a beginning, a number of more than 32 bits.
    refused(tag + b"\x00" * 20)
    refused(GOOD + tag)
    if tag != b"\x4c":
        refused(b"\x4b" + tag + b"\x00\x4c")  # in a group


def test_floats_that_are_cut():
    for length in (1, 2, 3, 5, 7):
        refused(tagged(1, 2, entry(b"f", tagged(2, 2, tagged(1, 2, bytes(length))))))
    refused(tagged(1, 2, entry(b"f", tagged(2, 2, b"\x0d\0\0"))))
    refused(b"\x49" + bytes(7))


def test_deep_nesting():
    def nested(depth):
        message = b""
        for _ in range(depth):
            message = group(9, message)
        return message

    assert parse_single_example(nested(100) + GOOD, ASKED)["i"].tolist() == [1, 300, -2]
    for depth in (101, 102, 10_000):
        refused(nested(depth))
        refused(nested(depth)[:depth])  # that never end
    refused(group(9)[:1])
    refused(b"\x4b\x54")  # another group's end
    # Messages in messages are only entered as far as they are known.
    message = b""
    for _ in range(10_000):
        message = tagged(1, 2, message)
    assert parse_single_example(message, ASKED)["i"].tolist() == [7, 8, 9]
    message = b""
    for _ in range(10_000):
        message = tagged(9, 2, message)
    assert parse_single_example(message + GOOD, ASKED)["i"].tolist() == [1, 300, -2]


def test_the_error_names_the_byte():
    with pytest.raises(ProtoError, match=f"at byte {len(GOOD)},"):
        parse_single_example(GOOD + b"\x80", ASKED)
    with pytest.raises(ProtoError, match=f"record 1 of the batch: .* at byte {len(GOOD)},"):
        parse_example([GOOD, GOOD + b"\x80"], ASKED)


def test_padding_that_no_memory_is_enough_for():
    # One record of many values pads every other one: told, not tried.
    wide = {"a": FixedLenFeature((2**46,), np.int64, None)}
    with pytest.raises((ResourceExhaustedError, MemoryError)):
        parse_example([b""] * 2**10, wide)
    with pytest.raises((ResourceExhaustedError, MemoryError)):
        parse_example([b""] * 2**16, {"a": FixedLenFeature((2**48,), np.int64, None)})


def test_good_messages_are_good_after_bad_ones():
    make = Maker(1)
    message = make.example()
    features = {"i": VarLenFeature(np.int64)}
    wanted = tried(lambda one: parse_example([one], features), message)
    for _ in range(20):
        tried(lambda one: parse_example([one], features), make.damaged(message))
    got = tried(lambda one: parse_example([one], features), message)
    assert (got is None) == (wanted is None)
    assert got is None or got["i"].equals(wanted["i"])
