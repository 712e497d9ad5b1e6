"""CSV files and the numbers in them, the slow way: what tests hold the native parser against."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np

FLOAT32, FLOAT64, INT32, INT64, TEXT = range(5)
DTYPES = {FLOAT32: np.float32, FLOAT64: np.float64, INT32: np.int32, INT64: np.int64}

BLANK = rb"[ \t\n\v\f\r]*"
_EXPONENT = rb"([eE][+-]?[0-9]+)?"
_DECIMAL = rb"([0-9]+\.?[0-9]*|\.[0-9]+)" + _EXPONENT
_HEX = rb"0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?[0-9]+)?"
_WORD = rb"(?i:inf|infinity|nan)"
FLOAT = re.compile(BLANK + rb"[+-]?(?:(?P<decimal>" + _DECIMAL + rb")|(?P<hex>" + _HEX + rb")|" + _WORD + rb")" + BLANK)
INTEGER = re.compile(BLANK + rb"[+-]?[0-9]+" + BLANK)


def nearest32(exact: Fraction) -> np.float32:
    """Return the float32 nearest to a number; halfway between two, the even one."""
    limit = Fraction(2) ** 128 - Fraction(2) ** 103  # halfway between the largest float32 and what would follow it
    if abs(exact) >= limit:
        return np.float32("-inf" if exact < 0 else "inf")
    with np.errstate(over="ignore", under="ignore"):
        near = np.float32(float(exact))
        if not np.isfinite(near):
            near = np.copysign(np.finfo(np.float32).max, near)
        around = [near, np.nextafter(near, np.float32("-inf")), np.nextafter(near, np.float32("inf"))]
    around = [one for one in around if np.isfinite(one)]
    return min(around, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.uint32)) & 1))


def exact_value(text: bytes) -> Fraction | None:
    """Return what a text stands for; `None`: no finite number, or one too large or small to write down."""
    match = FLOAT.fullmatch(text)
    assert match is not None
    sign = -1 if text.strip().startswith(b"-") else 1
    if match["decimal"]:
        body, _, exponent = match["decimal"].lower().partition(b"e")
        power = int(exponent or b"0")
        return sign * Fraction(body.decode()) * Fraction(10) ** power if abs(power) < 5000 else None
    if match["hex"]:
        body, _, exponent = match["hex"][2:].lower().partition(b"p")
        whole, _, part = body.partition(b".")
        power = int(exponent or b"0")
        value = Fraction(int(whole + part, 16), 16 ** len(part))
        return sign * value * Fraction(2) ** power if abs(power) < 20000 else None
    return None


def number(kind: int, text: bytes) -> np.generic | None:
    """Return the number that a field of a column's kind stands for, or `None` if it is none."""
    if kind in (INT32, INT64):
        info = np.iinfo(DTYPES[kind])
        if INTEGER.fullmatch(text) is None or not info.min <= int(text) <= info.max:
            return None
        return DTYPES[kind](int(text))
    match = FLOAT.fullmatch(text)
    if match is None:
        return None
    if match["hex"]:
        try:
            double = float.fromhex(text.decode())
        except OverflowError:
            double = float("-inf" if text.strip().startswith(b"-") else "inf")
    else:
        double = float(text)
    if kind == FLOAT64:
        return np.float64(double)
    exact = exact_value(text)
    if exact is None or exact == 0:
        with np.errstate(over="ignore", under="ignore"):
            return np.float32(double)
    value = nearest32(exact)
    return np.copysign(value, np.float32(-1 if exact < 0 else 1))


class Row(NamedTuple):
    """Where a row begins, and its fields."""

    offset: int
    line: int
    fields: list[bytes]


def rows(data: bytes, delim: bytes = b",", quotes: bool = True) -> tuple[list[Row], tuple[str, int, int] | None]:
    """Return the rows of a file, up to one that is wrong; and what is wrong with that, in which line and field."""
    table: list[Row] = []
    i = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    line = 1
    ends = {delim, b"\n", b"\r", b""}
    while i < len(data):
        row = Row(i, line, [])
        while True:
            begun, text = line, b""
            if quotes and data[i : i + 1] == b'"':
                i += 1
                while data[i : i + 1] != b'"' or data[i + 1 : i + 2] == b'"':
                    if i >= len(data):
                        return table, ("never closed", begun, len(row.fields))
                    c = data[i : i + 1]
                    line += c == b"\n" or (c == b"\r" and data[i + 1 : i + 2] != b"\n")
                    text += c
                    i += 2 if c == b'"' else 1
                i += 1
                if data[i : i + 1] not in ends:
                    return table, ("not doubled", begun, len(row.fields))
            else:
                while data[i : i + 1] not in ends and not (quotes and data[i : i + 1] == b'"'):
                    text += data[i : i + 1]
                    i += 1
                if data[i : i + 1] not in ends:
                    return table, ("not quoted", begun, len(row.fields))
            row.fields.append(text)
            if i >= len(data) or data[i : i + 1] != delim:
                break
            i += 1
        i += 2 if data[i : i + 2] == b"\r\n" else 1
        line += 1
        table.append(row)
    return table, None
