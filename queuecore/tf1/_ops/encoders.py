"""Arrays written into strings: pictures and sounds as files, tensors as messages."""

from __future__ import annotations

import importlib.util
import io
import math
import struct
import zlib
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError, UnimplementedError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import as_dtype, as_value, name_of, string, uint8, uint16
from queuecore.tf1._protos.summaries import TensorProto

__all__ = ["encode_jpeg", "encode_png", "parse_tensor", "png_of", "serialize_tensor", "wav_of"]

_PNG = b"\x89PNG\r\n\x1a\n"
_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's number for so many channels
# Bytes of a tensor of which the message doesn't hold every value. A few bytes could claim any shape.
_MOST_REPEATED = 1 << 30


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(picture: Any, compression: int = -1) -> bytes:
    """Return a file of a picture.

    Parameters
    ----------
    picture : ndarray of uint8 or uint16, shape (height, width, channels)
        With one to four channels.
    compression : int, default -1
        From 0 to 9, as of `zlib.compress`; -1: the library's choice.
    """
    height, width, channels = picture.shape
    bits = picture.dtype.itemsize * 8
    rows = np.ascontiguousarray(picture, picture.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    lines = np.zeros((height, rows.shape[1] + 1), np.uint8)  # each begins with the number of its filter: none
    lines[:, 1:] = rows
    head = struct.pack(">IIBBBBB", width, height, bits, _COLOURS[channels], 0, 0, 0)
    body = zlib.compress(lines.tobytes(), compression)
    return _PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def wav_of(samples: Any, rate: int) -> bytes:
    """Return a file of a sound: numbers from -1 to 1, of shape (frames, channels), as 16 bits each."""
    numbers = np.clip(_half_away(samples.astype(np.float32) * np.float32(32768)), -32768, 32767).astype("<i2")
    channels = numbers.shape[1]
    data = numbers.tobytes()
    head = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    parts: bytes = b"WAVE" + b"fmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(parts)) + parts


def _half_away(numbers: Any) -> Any:
    return np.copysign(np.floor(np.abs(numbers) + np.float32(0.5)), numbers)


def _picture(type_: str, value: Any, channels: tuple[int, ...]) -> Any:
    if np.ndim(value) != 3:
        raise InvalidArgumentError(f"image must be 3-dimensional, not {list(np.shape(value))}")
    if value.shape[2] not in channels:
        told = f"{', '.join(map(str, channels[:-1]))}{',' * (len(channels) > 2)} or {channels[-1]}"
        raise InvalidArgumentError(f"image must have {told} channels, got {list(value.shape)}: {type_}")
    if 0 in value.shape:
        raise InvalidArgumentError(f"image must have pixels: {list(value.shape)}")
    return value


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Return a PNG file of a picture.

    Parameters
    ----------
    image : Tensor of uint8 or uint16, shape (height, width, channels)
        With one to four channels.
    compression : int, default -1
        From 0 to 9; -1: a usual one.
    name : str, optional

    Returns
    -------
    Tensor of a string
        The pixels are those that TensorFlow writes, and the bytes may be others.

    Raises
    ------
    TypeError, ValueError
        If the picture has another type or rank, or there is no such compression.
    InvalidArgumentError
        In a run, if it has another number of channels, or no pixels.
    """
    picture = convert_to_tensor(image)
    if picture.dtype not in (uint8, uint16):
        raise TypeError(f"encode_png: a picture is of uint8 or uint16, not of {name_of(picture.dtype)}")
    picture.shape.ranked(3)
    if not -1 <= compression <= 9:
        raise ValueError(f"compression should be in [-1,9], got {compression}")
    return apply_op("EncodePng", [picture], string, (),
                    lambda x: png_of(_picture("encode_png", x, (1, 2, 3, 4)), compression), name)  # fmt: skip


def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False, optimize_size: bool = False,
    chroma_downsampling: bool = True, density_unit: str = "in", x_density: int = 300, y_density: int = 300,
    xmp_metadata: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return a JPEG file of a picture, by Pillow (extra ``images``).

    Parameters
    ----------
    image : Tensor of uint8, shape (height, width, channels)
    format : {"", "grayscale", "rgb"}
        Default: as the number of channels says.
    quality : int, default 95
        From 0 to 100.
    progressive, optimize_size : bool, default False
    chroma_downsampling : bool, default True
    density_unit : {"in", "cm"}
    x_density, y_density : int, default 300
    xmp_metadata : str
        Must be empty.
    name : str, optional

    Returns
    -------
    Tensor of a string
        The bytes may be others than TensorFlow's.

    Raises
    ------
    UnimplementedError
        If Pillow isn't installed, or there are metadata.
    TypeError, ValueError
        If the picture has another type or rank, or an argument is wrong.
    InvalidArgumentError
        In a run, if the picture has another number of channels, or no pixels.
    """
    if importlib.util.find_spec("PIL") is None:
        raise UnimplementedError("encode_jpeg needs Pillow: pip install pillow")
    if xmp_metadata:
        raise UnimplementedError("encode_jpeg: no XMP metadata are written")
    if format not in ("", "default", "grayscale", "rgb"):
        raise ValueError(f"encode_jpeg: format must be '', 'grayscale' or 'rgb', not {format!r}")
    if not 0 <= quality <= 100:
        raise ValueError(f"quality must be in [0,100], got {quality}")
    if density_unit not in ("in", "cm"):
        raise ValueError(f"encode_jpeg: density_unit must be 'in' or 'cm', not {density_unit!r}")
    picture = convert_to_tensor(image, uint8)
    picture.shape.ranked(3)
    channels = {"grayscale": (1,), "rgb": (3,)}.get(format, (1, 3))
    dots = [x_density, y_density] if density_unit == "in" else [round(one * 2.54) for one in (x_density, y_density)]

    def kernel(value: Any) -> bytes:
        from PIL import Image

        pixels = _picture("encode_jpeg", value, channels)
        file = io.BytesIO()
        Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(
            file, "JPEG", quality=quality, progressive=progressive, optimize=optimize_size,
            subsampling=2 if chroma_downsampling else 0, dpi=dots,
        )  # fmt: skip
        return file.getvalue()

    return apply_op("EncodeJpeg", [picture], string, (), kernel, name)


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """Return a tensor as the bytes of a ``TensorProto``, which `parse_tensor` reads."""
    operand = convert_to_tensor(tensor)
    return apply_op("SerializeTensor", [operand], string, (), lambda x: TensorProto.of(x).SerializeToString(), name)


_FIELDS = {
    "float16": "half_val",
    "bfloat16": "half_val",
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
    "string": "string_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
}


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """Return the tensor whose ``TensorProto`` a string is.

    Parameters
    ----------
    serialized : Tensor of a string, scalar
    out_type : dtype
        That of the tensor.
    name : str, optional

    Returns
    -------
    Tensor
        Of a shape that isn't known before the graph runs.

    Raises
    ------
    InvalidArgumentError
        In a run, if it is no such message, or that of a tensor of another type.
    """
    proto, dtype = convert_to_tensor(serialized, string), as_dtype(out_type)
    proto.shape.assert_has_rank(0)

    def kernel(data: bytes) -> Any:
        try:
            message = TensorProto.FromString(data)
            found = as_dtype(int(message.dtype))
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(f"Could not parse `serialized` as TensorProto: {error}") from error
        if found != dtype:
            raise InvalidArgumentError(f"Type mismatch between parsed tensor ({found.name}) and dtype ({dtype.name})")
        return _array_of(message, [int(one.size) for one in message.tensor_shape.dim])

    return apply_op("ParseTensor", [proto], dtype, None, kernel, name)


def _array_of(message: Any, shape: list[int]) -> Any:
    dtype = as_dtype(int(message.dtype))
    if min(shape, default=0) < 0:
        raise InvalidArgumentError(f"Shape {shape} is not valid")
    count = math.prod(shape)
    if message.tensor_content and dtype != string:
        if len(message.tensor_content) != count * dtype.size:
            raise InvalidArgumentError(f"{len(message.tensor_content)} bytes are no {dtype.name} of shape {shape}")
        return np.frombuffer(message.tensor_content, dtype.dtype).reshape(shape)[()]
    items = list(getattr(message, _FIELDS.get(dtype.name, "int_val")))
    if dtype == string:
        flat: Any = np.empty(len(items), object)
        flat[:] = items
    elif dtype.name in ("float16", "bfloat16"):
        flat = np.array(items, np.uint16).view(dtype.dtype)
    elif dtype.is_complex:
        flat = np.array(items[::2], dtype.dtype) + 1j * np.array(items[1::2], dtype.dtype)
    else:
        flat = np.array(items, np.int64 if dtype.kind in "iub" and dtype.size < 8 else None).astype(dtype.dtype)
    if len(flat) > count or not 0 < len(flat) < count and len(flat) != count and count:
        raise InvalidArgumentError(f"{len(flat)} values are no {dtype.name} of shape {shape}")
    if len(flat) < count:  # the last one stands for all that follow
        if count * flat.itemsize > _MOST_REPEATED:
            raise InvalidArgumentError(
                f"{len(flat)} values claim the shape {shape}: the last is repeated for {_MOST_REPEATED} bytes at most"
            )
        flat = np.concatenate([flat, np.repeat(flat[-1:], count - len(flat))])
    made = flat.reshape(shape)
    return as_value(made) if dtype == string else made[()]
