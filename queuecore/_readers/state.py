"""The state of a reader in TensorFlow's format: a message of protobuf whose fields 1 to 4 are counters and a name."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["pack_state", "parse_state"]


def pack_state(done: int, produced: int, last: bytes) -> bytes:
    """Return the message: units of work done, records produced, and the last unit."""
    fields = [_varint(tag) + _varint(value) for tag, value in ((8, done), (16, done), (24, produced)) if value]
    if last:
        fields.append(b"\x22" + _varint(len(last)) + last)
    return b"".join(fields)


def _varint(value: int) -> bytes:
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def parse_state(state: bytes) -> tuple[int, int, int, bytes]:
    """Return units begun and done, records, and the last unit; IndexError, ValueError: it is no such message."""
    numbers = {1: 0, 2: 0, 3: 0}
    last = b""
    position = 0

    def varint() -> int:
        nonlocal position
        value = 0
        for shift in range(0, 70, 7):
            byte = state[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value ^ 1 << 63) - (1 << 63) if value < 1 << 64 else _no_state("a number is too large")
        return _no_state("a number has no end")

    while position < len(state):
        tag = varint()
        if tag in (0o10, 0o20, 0o30):
            numbers[tag >> 3] = varint()
        elif tag == 0o42:
            length = varint()
            if not 0 <= length <= len(state) - position:
                _no_state("a string ends too early")
            last, position = bytes(state[position : position + length]), position + length
        else:
            _no_state(f"there is a field {tag >> 3} of kind {tag & 7}")
    return numbers[1], numbers[2], numbers[3], last


def _no_state(words: str) -> NoReturn:
    raise ValueError(words)
