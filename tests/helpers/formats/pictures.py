"""Encoded pictures: PNG of every kind by ourselves, so that its pixels are known; the rest by Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from queuecore._core.steps import images

JPEG, PNG, GIF, BMP, WEBP = 1, 2, 3, 4, 5
CODECS = ["system", "wheel"]


def use(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    """Let pictures be decoded by the system's libraries, by those of Pillow's wheel, or by Pillow ("none")."""
    every = images._candidates

    def candidates(kind: int) -> list[str]:
        if choice == "none":
            return []
        return [name for name in every(kind) if ("/" in name) == (choice == "wheel")]

    images._found.clear()
    monkeypatch.setattr(images, "_candidates", candidates)


def forget() -> None:
    """Undo it, after the monkeypatch."""
    images._found.clear()


def colours(height: int = 13, width: int = 17, seed: int = 0) -> np.ndarray:
    """Return something smooth with a little noise, as photographs are."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x * y) % 256]
    noise = np.random.default_rng(seed).integers(0, 9, (height, width, 3))
    return np.clip(np.stack(planes, -1) + noise - 4, 0, 255).astype(np.uint8)


def saved(array: Any, kind: str, mode: str | None = None, **options: Any) -> bytes:
    """Encode an array or a picture with Pillow."""
    picture = array if isinstance(array, Image.Image) else Image.fromarray(np.ascontiguousarray(array))
    if mode is not None:
        picture = picture.convert(mode)
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, data: bytes = b"") -> bytes:
    """Return one chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _rows(samples: np.ndarray, depth: int) -> bytes:
    height, width, count = samples.shape
    if not height or not width:
        return b""
    flat = samples.reshape(height, width * count)
    if depth == 16:
        packed = flat.astype(">u2").view(np.uint8)
    else:
        bits = np.unpackbits(flat.astype(np.uint8)[..., None], axis=-1)[..., 8 - depth :].reshape(height, -1)
        packed = np.packbits(bits, axis=-1)
    rows = []
    before = bytes(len(packed[0]))
    for y, row in enumerate(packed):
        line = row.tobytes()
        # Up and none in turn: that rows depend on each other is part of what is decoded.
        rows.append(b"\2" + bytes((a - b) % 256 for a, b in zip(line, before, strict=True)) if y % 2 else b"\0" + line)
        before = line
    return b"".join(rows)


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(samples: np.ndarray, depth: int, colour: int, *, interlaced: bool = False, chunks: bytes = b"") -> bytes:
    """Encode samples of shape (height, width, channels) as they are; `chunks` come before the pixels."""
    height, width, _ = samples.shape
    passes = [samples[y::h, x::w] for y, x, h, w in ADAM7] if interlaced else [samples]
    packed = zlib.compress(b"".join(_rows(one, depth) for one in passes))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    half = len(packed) // 2
    data = chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunks + data + chunk(b"IEND")


def png_kinds() -> dict[str, tuple[bytes, np.ndarray, int]]:
    """Return every kind of PNG: the file; its pixels, palettes applied; and their depth."""
    state = np.random.default_rng(3)
    kinds: dict[str, tuple[bytes, np.ndarray, int]] = {}
    for colour, count in ((0, 1), (2, 3), (4, 2), (6, 4)):
        for depth in (1, 2, 4, 8, 16) if colour == 0 else (8, 16):
            samples = state.integers(0, 1 << depth, (11, 13, count))
            for interlaced in (False, True):
                data = png(samples, depth, colour, interlaced=interlaced)
                kinds[f"{colour}-{depth}-{interlaced}"] = data, samples, depth
    for depth in (1, 2, 4, 8):
        palette = state.integers(0, 256, (1 << depth, 3))
        alpha = state.integers(0, 256, 1 << depth)
        samples = state.integers(0, 1 << depth, (11, 13, 1))
        plain = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        data = png(samples, depth, 3, chunks=plain, interlaced=depth == 2)
        kinds[f"3-{depth}"] = data, palette[samples[..., 0]], 8
        data = png(samples, depth, 3, chunks=plain + chunk(b"tRNS", alpha.astype(np.uint8).tobytes()))
        seen = np.concatenate([palette, alpha[:, None]], 1)
        kinds[f"3-{depth}-alpha"] = data, seen[samples[..., 0]], 8
    samples = state.integers(0, 4, (11, 13, 1))
    kinds["0-8-key"] = png(samples, 8, 0, chunks=chunk(b"tRNS", b"\0\2")), samples, 8
    samples = state.integers(0, 256, (11, 13, 3))
    kinds["2-8-gamma"] = png(samples, 8, 2, chunks=chunk(b"gAMA", struct.pack(">I", 100000))), samples, 8
    return kinds


def samples() -> dict[str, bytes]:
    """Return small pictures of every format."""
    picture = colours()
    grey = picture[..., 0]
    alpha = np.concatenate([picture, picture[..., :1]], -1)
    turned = [Image.fromarray(np.ascontiguousarray(one)) for one in (picture[::-1], picture[:, ::-1])]
    part = picture.copy()
    part[3:6, 5:9] = 255
    files = {
        "jpeg": saved(picture, "JPEG"),
        "jpeg-grey": saved(grey, "JPEG"),
        "jpeg-progressive": saved(picture, "JPEG", progressive=True),
        "jpeg-444": saved(picture, "JPEG", subsampling=0),
        "jpeg-422": saved(picture, "JPEG", subsampling=1),
        "jpeg-restarts": saved(picture, "JPEG", restart_marker_rows=1),
        "jpeg-cmyk": saved(picture, "JPEG", "CMYK"),
        "jpeg-rotated": saved(picture, "JPEG", exif=_rotated()),
        "bmp": saved(picture, "BMP"),
        "bmp-grey": saved(grey, "BMP"),
        "bmp-alpha": saved(alpha, "BMP"),
        "gif": saved(picture, "GIF"),
        "gif-frames": saved(picture, "GIF", save_all=True, append_images=turned),
        "gif-part": saved(picture, "GIF", save_all=True, append_images=[Image.fromarray(part)]),
        "gif-transparent": saved(np.where(np.arange(4) == 3, 255 * (alpha[..., :1] > 99), alpha).astype("u1"), "GIF"),
    }
    # Without what Adobe's programs write, it isn't the complement of the inks.
    adobe = files["jpeg-cmyk"].index(b"\xff\xee")
    files["jpeg-inks"] = files["jpeg-cmyk"][:adobe] + files["jpeg-cmyk"][adobe + 16 :]
    return files | {f"png-{name}": data for name, (data, *_) in png_kinds().items()}


def _rotated() -> Any:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def top_down(data: bytes) -> bytes:
    """Turn the rows of a BMP file of 54 bytes of header round."""
    width, height = struct.unpack_from("<ii", data, 18)
    row = (width * struct.unpack_from("<H", data, 28)[0] // 8 + 3) // 4 * 4
    offset = struct.unpack_from("<i", data, 10)[0]
    rows = [data[offset + y * row : offset + y * row + row] for y in range(height)]
    return data[:22] + struct.pack("<i", -height) + data[26:offset] + b"".join(rows[::-1])


def jpeg_header(height: int, width: int) -> bytes:
    """Return a JPEG picture of such a size that ends with its header."""
    data = bytearray(saved(colours(8, 8), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def gif(
    sides: tuple[int, int],
    palette: np.ndarray,
    frames: list[tuple[int, int, np.ndarray, int | None, int]],
) -> bytes:
    """Encode a GIF up to its trailer, which is left off, of 8 colours or fewer.

    `sides` are height and width of the screen; a frame is left, top, indices, the transparent index, and disposal.
    """
    colours = np.zeros((8, 3), np.uint8)
    colours[: len(palette)] = palette
    data = b"GIF89a" + struct.pack("<HHBBB", sides[1], sides[0], 0x82, 0, 0) + colours.tobytes()
    for left, top, indices, transparent, disposal in frames:
        if transparent is not None or disposal:
            flags = disposal << 2 | (transparent is not None)
            data += b"!\xf9\4" + bytes([flags, 0, 0, transparent or 0, 0])
        # Codes of 8 bits, one a byte: the table is cleared (128) before codes grow; 129 is the end.
        pixels = indices.astype(np.uint8).tobytes()
        codes = b"".join(b"\x80" + pixels[at : at + 100] for at in range(0, len(pixels), 100)) + b"\x81"
        blocks = [codes[at : at + 255] for at in range(0, len(codes), 255)]
        data += b"," + struct.pack("<HHHHB", left, top, indices.shape[1], indices.shape[0], 0) + b"\7"
        data += b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"
    return data
