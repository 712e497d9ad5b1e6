"""Examples in any form that the wire format allows, good and damaged. Without protobuf: sanitizers run this too."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np

from queuecore import ops
from queuecore._elements.component import BYTES
from queuecore.errors import InvalidArgumentError, ResourceExhaustedError
from queuecore.ragged import Ragged

# A key's first letter is its kind.
KINDS = {"i": np.int64, "f": np.float32, "b": bytes}
KEYS = ["i", "i2", "f", "f2", "b", "b2", "i_a_longer_key", "f_a_longer_key"]


def varint(value: int, pad: int = 0) -> bytes:
    """Return a number; `pad` adds bytes that say nothing."""
    value &= 2**64 - 1
    encoded = bytearray()
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    for _ in range(min(pad, 10 - len(encoded))):
        encoded[-1] |= 128
        encoded.append(0)
    return bytes(encoded)


def tagged(number: int, wire: int, body: bytes, pad: int = 0) -> bytes:
    """Return a field; of wire type 2 with its length."""
    return varint(number << 3 | wire) + (varint(len(body), pad) if wire == 2 else b"") + body


def group(number: int, body: bytes = b"") -> bytes:
    """Return a group."""
    return varint(number << 3 | 3) + body + varint(number << 3 | 4)


def int_list(*chunks: Any) -> bytes:
    """Return an Int64List: a chunk is a number, or a list of packed ones."""
    return b"".join(
        tagged(1, 2, b"".join(map(varint, one))) if isinstance(one, list) else tagged(1, 0, varint(one))
        for one in chunks
    )


def float_list(*chunks: Any) -> bytes:
    """Return a FloatList, in the same way."""
    return b"".join(
        tagged(1, 2, struct.pack(f"<{len(one)}f", *one))
        if isinstance(one, list)
        else tagged(1, 5, struct.pack("<f", one))
        for one in chunks
    )


def bytes_list(*values: bytes) -> bytes:
    """Return a BytesList."""
    return b"".join(tagged(1, 2, one) for one in values)


def entry(key: bytes, *features: bytes) -> bytes:
    """Return an entry of a map with such values, which add up."""
    return tagged(1, 2, tagged(1, 2, key) + b"".join(tagged(2, 2, one) for one in features))


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
            return tagged(number, 0, varint(self.value("i"), self.randint(0, 2)))
        if kind == 3:
            return group(number, self.unknown(1, depth + 1) if depth < 4 and self.random() < 0.7 else b"")
        return tagged(number, kind, self.randbytes({1: 8, 5: 4}.get(kind, self.randint(0, 9))))

    def mixed(self, parts, least):
        """Return fields in any order, with unknown ones among them now and then."""
        while self.random() < 0.15:
            parts = [*parts, self.unknown(least)]
        self.shuffle(parts)
        return b"".join(parts)

    def field(self, number, body):
        """Return a field of bytes, now and then with its length in more bytes than it needs."""
        return tagged(number, 2, body, self.choice([0, 0, 0, 0, 1, 2]))

    def values(self, kind):
        """Return a field of a Feature: a list."""
        write = {"i": int_list, "f": float_list, "b": bytes_list}[kind]
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
        return self.mixed([self.values(one) for one in kinds], 4)

    def entry(self, body, key):
        """Return an entry of a map."""
        parts = [tagged(1, 2, key.encode())]
        parts += [self.field(2, body(key[0])) for _ in range(self.choice([1] * 12 + [0, 2]))]
        if self.random() < 0.05:
            parts.append(tagged(1, 2, key.encode()))
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
        features = {}
        for key in self.sample([*KEYS, "i_absent"], self.randint(1, 4)):
            dtype = KINDS[key[0]]
            kind = self.choice(["fixed", "var", "sequence", "ragged", "sparse"])
            shape = self.choice([(), (), (2,), (2, 2)])
            if kind == "fixed":
                count = int(np.prod(shape, dtype=int))
                values = [self.value(key[0]) for _ in range(count)]
                features[key] = ops.FixedLenFeature(shape, dtype, values if self.random() < 0.8 else None)
            elif kind == "var":
                features[key] = ops.VarLenFeature(dtype)
            elif kind == "sequence":
                default = self.value(key[0]) if self.random() < 0.5 else None
                features[key] = ops.FixedLenSequenceFeature(shape, dtype, True, default)
            elif kind == "ragged":
                features[key] = ops.RaggedFeature(dtype, row_splits_dtype=self.choice([np.int32, np.int64]))
            else:
                index = self.choice(["i", ["i", "i2"], ["i2"]])
                size = 9 if isinstance(index, str) else [9] * len(index)
                features["sparse " + key] = ops.SparseFeature(index, key, dtype, size, self.random() < 0.5)
        return features

    def damaged(self, message):
        """Return a message with something wrong in it, mostly."""
        data = bytearray(message)
        for _ in range(self.choice([1, 1, 2, 5])):
            position = self.randrange(len(data) + 1)
            damage = self.randrange(8)
            if damage == 0:
                del data[position:]
            elif damage == 1:
                del data[position : position + self.randint(1, 4)]
            elif damage == 2:
                data[position:position] = self.randbytes(self.randint(1, 4))
            elif damage == 3:
                data[position:position] = self.choice([b"\x80", b"\xff"]) * self.choice([1, 9, 10, 11])
            elif damage == 4:
                data[position:position] = data[self.randrange(len(data) + 1) :][: self.randint(1, 40)]
            elif position < len(data):
                data[position] = (
                    data[position] ^ 1 << self.randrange(8) if damage < 7 else self.choice([0, 127, 128, 255])
                )
        return bytes(data)


def alone(message: bytes) -> Ragged:
    """Return a batch of one message, at the end of its block of memory, so that a sanitizer sees what is behind."""
    block = np.empty(len(message), "S1")
    block.view(np.uint8)[:] = np.frombuffer(message, np.uint8)
    return Ragged(block, [0, len(message)])


def fuzz(seed: int) -> dict[str, int]:
    """Parse a damaged message in several ways; return how often it was refused. Any other exception gets out."""
    make = Maker(seed)
    sequence = make.random() < 0.3
    message = make.damaged(make.sequence(make.choice("ifb")) if sequence else make.example())
    if sequence:
        lists = {key: make.choice([ops.VarLenFeature, ops.RaggedFeature])(KINDS[key]) for key in "ifb"}
        lists["f"] = ops.FixedLenSequenceFeature((), np.float32, True)
        context = {"i2": ops.VarLenFeature(np.int64)}
    features = make.descriptions()
    counts = {"parsed": 0, "refused": 0}
    for batch in (True, False):
        try:
            if sequence:
                ops.parse_sequence_example(alone(message) if batch else message, context, lists)
            else:
                ops.parse_example(alone(message) if batch else message, features)
                stage = ops.parse_example(features=features)
                step = stage.bind([ops.Component(BYTES, (2,) if batch else ())])
                step(np.array([message] * 2, object) if batch else message)
            counts["parsed"] += 1
        except (InvalidArgumentError, ResourceExhaustedError):
            counts["refused"] += 1
    return counts
