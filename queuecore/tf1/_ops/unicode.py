"""Strings as code points, characters and other encodings; and tensors put into a template's text."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import DType, int32, int64, string
from queuecore.tf1._ops.control import item_text
from queuecore.tf1._ops.ragged import RaggedTensor, rows_of

__all__ = [
    "string_format",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
]

_OUTPUTS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
_ERRORS = ("strict", "replace", "ignore")
Point = tuple[int, int]  # a code point, and the place of its first byte


# Byte-order marks, and what they say.
_MARKS = {
    "utf-16": {codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF16_LE: "utf-16-le"},
    "utf-32": {codecs.BOM_UTF32_BE: "utf-32-be", codecs.BOM_UTF32_LE: "utf-32-le"},
}


class _Rules:
    # The treatment of bytes that are no text, and of control characters.
    def __init__(self, type_: str, errors: str, replacement: int, controls: bool) -> None:
        if errors not in _ERRORS:
            told = ", ".join(f'"{one}"' for one in _ERRORS)
            raise ValueError(f"Attr 'errors' of '{type_}' Op passed string '{errors}' not in: {told}.")
        if not 0 <= replacement <= 0x10FFFF:
            raise InvalidArgumentError("replacement_char out of unicode codepoint range")
        self.errors = errors
        self.replacement = replacement
        self.controls = controls

    def points(self, data: bytes, encoding: str) -> list[Point]:
        """Return the code points of a string."""
        try:
            codec = codecs.lookup(encoding)
        except LookupError as error:
            raise InvalidArgumentError(f"Could not create converter for input encoding: {encoding}") from error
        points: list[Point] = []
        position = 0
        if codec.name in _MARKS:  # the mark says which bytes come first; without one these are the high ones
            mark = next((mark for mark in _MARKS[codec.name] if data.startswith(mark)), b"")
            codec = codecs.lookup(_MARKS[codec.name].get(mark, f"{codec.name}-be"))
            position = len(mark)
        first = position
        while position < len(data):
            try:
                text, end = codec.decode(data[position:], "strict")[0], len(data) - position
                error_end = end
            except UnicodeDecodeError as error:
                text, end, error_end = (
                    codec.decode(data[position : position + error.start], "strict")[0],
                    error.start,
                    error.end,
                )
                if self.errors == "strict":
                    raise InvalidArgumentError("Invalid formatting on input string") from error
            place = position
            for character in text:
                self._add(points, ord(character), 0 if place == first else place)
                place += len(character.encode(codec.name))
            if error_end > end and self.errors == "replace":
                points.append((self.replacement, position + end))
            position += error_end
        return points

    def _add(self, points: list[Point], point: int, place: int) -> None:
        if not self.controls or point > 0x1F:
            points.append((point, place))
        elif self.errors != "ignore":
            points.append((self.replacement, place))

    def encoded(self, points: Sequence[Any], encoding: str) -> bytes:
        """Return code points as a string."""
        characters = []
        for point in map(int, points):
            if 0 <= point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
                characters.append(chr(point))
            elif self.errors == "strict":
                raise InvalidArgumentError("Code point is out of range for Unicode, or is a surrogate.")
            elif self.errors == "replace":
                characters.append(chr(self.replacement))
        return "".join(characters).encode(_OUTPUTS[encoding])


def _check_output(type_: str, encoding: str) -> None:
    if encoding not in _OUTPUTS:
        told = ", ".join(f'"{one}"' for one in _OUTPUTS)
        raise ValueError(f"Attr 'output_encoding' of '{type_}' Op passed string '{encoding}' not in: {told}.")


def _divided(type_: str, value: Any, dtype: DType, parts: Callable[[bytes], list[Any]], name: str | None) -> Any:
    # The parts of each string: of one string a vector, of several rows of different lengths.
    if isinstance(value, RaggedTensor):
        return value.with_values(_divided(type_, value.values, dtype, parts, name))
    strings = convert_to_tensor(value, string)
    rank = strings.shape.ndims
    if rank is None:
        raise ValueError("Rank of `input` must be statically known.")

    def flat(items: list[Any]) -> Any:
        array = np.empty(len(items), object if dtype == string else dtype.dtype)
        array[:] = items
        return array

    if not rank:
        return apply_op(type_, [strings], dtype, (None,), lambda x: flat(parts(x)), name)

    def kernel(x: Any) -> Any:
        rows = [parts(one) for one in x.ravel()]
        return flat([one for row in rows for one in row]), np.cumsum([0, *map(len, rows)], dtype=np.int64)

    ragged: Any = rows_of(type_, [strings], dtype, kernel, strings.shape.num_elements(), name)
    for at in reversed(range(1, rank)):  # the string's own dimensions around the rows
        splits = apply_op("Range", [strings], int64, (None,), lambda x, at=at: _bounds(x.shape, at), None)
        ragged = RaggedTensor(ragged, splits)
    return ragged


def _bounds(sides: Sequence[int], at: int) -> Any:
    return np.arange(int(np.prod(sides[:at])) + 1, dtype=np.int64) * sides[at]


def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Return the code points of strings.

    Parameters
    ----------
    input : Tensor or RaggedTensor of strings
    input_encoding : str
        For example ``"UTF-8"``.
    errors : {"replace", "ignore", "strict"}
        What is done with bytes that are no text: a replacement, nothing, or an error.
    replacement_char : int, default 65533
        The code point of the replacement.
    replace_control_characters : bool, default False
        Whether control characters count as such bytes, except that they are no error.
    name : str, optional

    Returns
    -------
    Tensor of int32, vector, or RaggedTensor
        Of one string a vector.

    Raises
    ------
    ValueError
        If nothing is known of the input's rank.
    InvalidArgumentError
        In a run, if there is no such encoding, or bytes are no text and that is an error.
    """
    rules = _Rules("UnicodeDecode", errors, replacement_char, replace_control_characters)
    return _divided("UnicodeDecode", input, int32, lambda x: [one for one, _ in rules.points(x, input_encoding)], name)


def unicode_decode_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """As `unicode_decode`, and the place of the first byte of each code point, int64."""
    rules = _Rules("UnicodeDecodeWithOffsets", errors, replacement_char, replace_control_characters)

    def take(at: int) -> Callable[[bytes], list[Any]]:
        return lambda text: [one[at] for one in rules.points(text, input_encoding)]

    codes = _divided("UnicodeDecodeWithOffsets", input, int32, take(0), name)
    places = _divided("UnicodeDecodeWithOffsets", input, int64, take(1), name)
    return codes, places


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """As `unicode_decode`, with characters, in the input's encoding, in the place of code points."""
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char, name)[0]


def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> tuple[Any, Any]:
    """As `unicode_split`, and the place of the first byte of each character, int64."""
    _check_output("UnicodeEncode", input_encoding)
    rules = _Rules("UnicodeDecodeWithOffsets", errors, replacement_char, False)
    characters = _divided("UnicodeSplit", input, string,
                          lambda x: [rules.encoded([point], input_encoding)
                                     for point, _ in rules.points(x, input_encoding)], name)  # fmt: skip
    places = _divided("UnicodeSplit", input, int64, lambda x: [at for _, at in rules.points(x, input_encoding)], name)
    return characters, places


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Return strings of code points.

    Parameters
    ----------
    input : Tensor or RaggedTensor of int32
        A row for each string: a vector makes one.
    output_encoding : {"UTF-8", "UTF-16-BE", "UTF-32-BE"}
    errors, replacement_char, name
        As of `unicode_decode`, for numbers that are no code points.

    Raises
    ------
    ValueError
        If there is no such encoding, or the input is a scalar.
    InvalidArgumentError
        In a run, if a number is no code point and that is an error.
    """
    _check_output("UnicodeEncode", output_encoding)
    rules = _Rules("UnicodeEncode", errors, replacement_char, False)

    def strings(rows: Any, sides: Sequence[int]) -> Any:
        made = np.empty(len(rows), object)
        made[:] = [rules.encoded(row, output_encoding) for row in rows]
        return made.reshape(sides)[()]

    if isinstance(input, RaggedTensor):
        if isinstance(input.values, RaggedTensor) or input.values.shape.ndims != 1:
            return input.with_values(unicode_encode(input.values, output_encoding, errors, replacement_char, name))
        count = input.row_splits.shape[0].value
        return apply_op(
            "UnicodeEncode", [convert_to_tensor(input.values), input.row_splits], string,
            (None if count is None else count - 1,),
            lambda x, splits: strings(np.split(x, splits[1:-1]), (len(splits) - 1,)), name,
        )  # fmt: skip
    points = convert_to_tensor(input, int32)
    if points.shape.ndims is None:
        raise ValueError("Rank of input_tensor must be statically known.")
    if not points.shape.ndims:
        raise ValueError("input_tensor's rank must be at least 1.")
    return apply_op("UnicodeEncode", [points], string, points.shape[:-1],
                    lambda x: strings(x.reshape(-1, x.shape[-1]), x.shape[:-1]), name)  # fmt: skip


def unicode_transcode(
    input: Any, input_encoding: str, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return strings in another encoding.

    Parameters
    ----------
    input : Tensor of strings
    input_encoding, errors, replacement_char, replace_control_characters, name
        As of `unicode_decode`.
    output_encoding : {"UTF-8", "UTF-16-BE", "UTF-32-BE"}

    Raises
    ------
    ValueError, InvalidArgumentError
        As of `unicode_decode` and `unicode_encode`.
    """
    _check_output("UnicodeTranscode", output_encoding)
    rules = _Rules("UnicodeTranscode", errors, replacement_char, replace_control_characters)
    strings = convert_to_tensor(input, string)

    def kernel(x: Any) -> Any:
        array = np.asarray(x, object)
        made = np.empty(array.size, object)
        made[:] = [rules.encoded([one for one, _ in rules.points(text, input_encoding)], output_encoding)
                   for text in array.ravel()]  # fmt: skip
        return made.reshape(array.shape)[()]

    return apply_op("UnicodeTranscode", [strings], string, strings.shape, kernel, name)


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Return a text in which tensors stand.

    Parameters
    ----------
    template : str
    inputs : list of Tensor, or Tensor
        One for each placeholder.
    placeholder : str, default "{}"
    summarize : int, default 3
        How many items stand at each end of a dimension, the others being left out; -1: all.
    name : str, optional

    Raises
    ------
    ValueError
        If there are more or fewer placeholders than tensors.
    """
    operands = [convert_to_tensor(one) for one in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
    pieces = template.split(placeholder)
    if len(pieces) != len(operands) + 1:
        raise ValueError(
            f"The template expects {len(pieces) - 1} tensors, but the inputs only has {len(operands)}. Please ensure "
            "the number of placeholders in template matches inputs length."
        )

    def kernel(*values: Any) -> bytes:
        texts = [
            _laid_out(np.asarray(value, object if isinstance(value, bytes) else None), summarize, 0) for value in values
        ]
        return "".join([pieces[0], *(a + b for a, b in zip(texts, pieces[1:], strict=True))]).encode()

    return apply_op("StringFormat", operands, string, (), kernel, name)


def _laid_out(array: Any, limit: int, depth: int) -> str:
    if not array.ndim:
        item = array[()]
        return f'"{item_text(item)}"' if isinstance(item, bytes) else item_text(item)
    rows = list(array)
    parts = [_laid_out(np.asarray(one, array.dtype), limit, depth + 1) for one in rows]
    if limit >= 0 and len(parts) > 2 * limit:
        parts = [*parts[:limit], "...", *parts[len(parts) - limit :]]
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (depth + 1)
    return f"[{between.join(parts)}]"
