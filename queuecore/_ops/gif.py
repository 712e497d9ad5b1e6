"""GIF: the frames of a file are found and put together here, as TensorFlow does; Pillow decodes their pixels."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

import numpy as np

from queuecore.errors import DecodeError

__all__ = ["Animation", "Frame", "animation_of"]

_TRAILER, _IMAGE, _EXTENSION, _GRAPHIC_CONTROL = 0x3B, 0x2C, 0x21, 0xF9
_GREYS = np.arange(256, dtype=np.uint8).repeat(3).tobytes()


@dataclass(frozen=True)
class Frame:
    """One frame as it is stored.

    Attributes
    ----------
    left, top, width, height : int
        Where it lies on the screen.
    interlaced : bool
        Whether its rows are stored in the order of interlacing.
    palette : ndarray of uint8, shape (colours, 3), or None
        Its own colours, or those of the file; None if there are neither.
    transparent : int or None
        The index that leaves a pixel as it was.
    coded : bytes
        The size of the codes, and the blocks of compressed pixels.
    ended : bool
        Whether the file has the end of these blocks.
    """

    left: int
    top: int
    width: int
    height: int
    interlaced: bool
    palette: np.ndarray | None
    transparent: int | None
    coded: bytes
    ended: bool

    def indices(self, label: str) -> np.ndarray:
        """Return the indices of its pixels, of shape (height, width); `label` begins messages."""
        from PIL import GifImagePlugin

        if not self.width * self.height:
            raise DecodeError(f"{label}: the GIF picture is damaged: a frame has no pixels")
        # A file of this frame alone, whose palette of greys makes every index its own colour.
        sides = struct.pack("<HH", self.width, self.height)
        front = b"GIF89a" + sides + b"\xf7\0\0" + _GREYS + b",\0\0\0\0" + sides + bytes([self.interlaced << 6])
        try:
            with GifImagePlugin.GifImageFile(io.BytesIO(front + self.coded + b"\0;" * self.ended)) as picture:
                return np.asarray(picture)
        except MemoryError:
            raise
        except Exception as error:  # whatever Pillow makes of damage
            if not self.ended:
                raise _cut(label) from None
            raise DecodeError(f"{label}: the GIF picture is damaged: {error}") from error


@dataclass(frozen=True)
class Animation:
    """The frames of a file, and the sides of the screen, which holds them all; `label` begins messages."""

    label: str
    width: int
    height: int
    frames: list[Frame]

    def pixels(self, count: int) -> np.ndarray:
        """Return the screen after each of the first `count` frames, of shape (count, height, width, 3).

        Every frame lies over what the earlier ones left, whatever their disposal says; pixels that none has drawn are
        black.
        """
        screens = np.zeros((count, self.height, self.width, 3), np.uint8)
        for number, frame in enumerate(self.frames[:count]):
            if number:
                screens[number] = screens[number - 1]
            indices = frame.indices(self.label)
            if frame.palette is None:
                raise DecodeError(f"{self.label}: the GIF picture is damaged: frame {number} has no palette")
            mask = np.ones(indices.shape, bool) if frame.transparent is None else indices != frame.transparent
            if (indices[mask] >= len(frame.palette)).any():
                raise DecodeError(
                    f"{self.label}: the GIF picture is damaged: frame {number} has a colour outside its palette"
                )
            place = screens[number, frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
            place[mask] = frame.palette[indices[mask]]
        return screens


def _cut(label: str) -> DecodeError:
    return DecodeError(f"{label}: the GIF picture is cut: it ends too early")


def _palette(label: str, data: bytes, flags: int, position: int) -> tuple[np.ndarray | None, int]:
    """Return the palette at a place, if the flags say that there is one, and the place behind it."""
    if not flags & 0x80:
        return None, position
    end = position + (3 << (flags & 7) + 1)
    if end > len(data):
        raise _cut(label)
    return np.frombuffer(data, np.uint8, end - position, position).reshape(-1, 3), end


def _behind_blocks(data: bytes, at: int) -> tuple[int, bool]:
    """Return the place of the empty block that ends the blocks at a place, and True; or the file's end, and False."""
    while at < len(data):
        if not data[at]:
            return at, True
        at += 1 + data[at]
    return len(data), False


def _frame(label: str, data: bytes, at: int, shared: np.ndarray | None, transparent: int | None) -> tuple[Frame, int]:
    """Return the frame whose description begins at a place, and the place behind it."""
    if at + 9 > len(data):
        raise _cut(label)
    left, top, width, height, flags = struct.unpack_from("<HHHHB", data, at)
    palette, start = _palette(label, data, flags, at + 9)
    end, ended = _behind_blocks(data, start + 1)
    coded = data[start:end]
    frame = Frame(
        left,
        top,
        width,
        height,
        bool(flags & 0x40),
        shared if palette is None else palette,
        transparent,
        coded,
        ended,
    )
    return frame, end + ended


def animation_of(label: str, data: bytes) -> Animation:
    """Return the frames of a GIF file; `label` begins messages.

    The file ends with its trailer, with its last byte, or, behind a frame, where neither a frame nor an extension
    begins; zero bytes between them are passed over. A frame that is cut has `ended` false.

    Raises
    ------
    DecodeError
        If there is no frame, or the description of one is cut.
    """
    if len(data) < 13:
        raise _cut(label)
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    shared, position = _palette(label, data, flags, 13)
    frames: list[Frame] = []
    transparent, controlled = None, False
    while position < len(data) and data[position] != _TRAILER:
        if data[position] == _IMAGE:
            frame, position = _frame(label, data, position + 1, shared, transparent)
            frames.append(frame)
            transparent, controlled = None, False
            width, height = max(width, frame.left + frame.width), max(height, frame.top + frame.height)
        elif data[position] == _EXTENSION:
            # Of several control blocks before a frame the first counts, as in TensorFlow.
            if (
                data[position + 1 : position + 3] == bytes([_GRAPHIC_CONTROL, 4])
                and position + 7 <= len(data)
                and not controlled
            ):
                transparent, controlled = data[position + 6] if data[position + 3] & 1 else None, True
            end, ended = _behind_blocks(data, position + 2)
            position = end + ended
        elif data[position] and not frames:
            raise DecodeError(f"{label}: the GIF picture is damaged: an unknown block at byte {position}")
        elif data[position]:
            break
        else:
            position += 1
    if not frames:
        raise _cut(label) if position >= len(data) else DecodeError(f"{label}: the GIF picture has no frame")
    return Animation(label, width, height, frames)
