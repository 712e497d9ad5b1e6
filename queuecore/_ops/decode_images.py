"""Decoding of pictures: by native libraries; GIF, and formats without a library here, by Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from queuecore._checks.checks import MAX_DIMS, whole, wholes
from queuecore._core.steps.images import PictureStep, library, missing
from queuecore._core.steps.stages import Step
from queuecore._elements.component import BYTES, Component
from queuecore._ops.chain import Composed, run_eagerly
from queuecore._ops.gif import animation_of
from queuecore._ops.pictures import Crop, Decoding, Pictures
from queuecore._ops.stage import Stage, decoding_op
from queuecore._ops.strings import lone_strings, strings_of
from queuecore.errors import DecodeError, DtypeError, InvalidArgumentError, QueueCoreError, UnimplementedError

__all__ = [
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
]

# The numbers are those of images.pxd.
_JPEG, _PNG, _GIF, _BMP, _WEBP = 1, 2, 3, 4, 5
_NUMBERS: dict[np.dtype[Any], int] = {np.dtype(np.uint8): 0, np.dtype(np.uint16): 1, np.dtype(np.float32): 2}
_AS_JPEG = (_JPEG, _PNG, _GIF)  # taken by decode_jpeg
_METHODS = {"": 0, "INTEGER_ACCURATE": 0, "INTEGER_FAST": 1}
# The options in their order: ratio 1, smoothed colours, the usual method, no recovery, EXIF ignored.
_PLAIN = (1, 1, 0, 0, False)
# So many pixels take half a GiB in three channels; Pillow refuses pictures above the same number.
_MAX_PIXELS = 178_956_970
_SHOWN = {_JPEG: "JPEG", _PNG: "PNG", _GIF: "GIF", _BMP: "BMP", _WEBP: "WebP"}


class PythonStage(Stage):
    """A step in Python, because no native library can do it on this machine.

    Attributes
    ----------
    reason : str
        Why it isn't native.
    """

    __slots__ = ("reason",)

    def __init__(self, text: str, python: Callable[[bytes], np.ndarray], made: Component, reason: str) -> None:
        def bind(components: tuple[Component, ...]) -> Step:
            raise UnimplementedError(reason)

        super().__init__(text, bind, python=python, outputs=(made,))
        self.reason = reason

    def __repr__(self) -> str:
        """Return the operation, and why it runs in Python."""
        return f"{self._text} (Python: {self.reason})"


class _Decoder:
    """One operation with its options.

    `frames` says which frames of an animation it returns: "all"; "first"; "one", where more than one is an error; or
    "always": all, where a still picture counts as one frame.
    """

    def __init__(
        self,
        label: str,
        kinds: tuple[int, ...],
        channels: Any,
        dtype: Any,
        max_pixels: Any,
        frames: str,
        details: tuple[int, int, int, int, bool] = _PLAIN,
    ) -> None:
        self.label = label
        self.kinds = kinds
        self.channels = 0 if channels is None else whole(label, "channels", channels)
        if self.channels not in (0, 1, 3, 4):
            raise InvalidArgumentError(f"{label}: channels must be 0, 1, 3 or 4, not {channels}")
        try:
            self.dtype = np.dtype(dtype)
        except (TypeError, ValueError) as error:
            raise DtypeError(f"{label}: dtype is no dtype: {error}") from error
        if self.dtype not in _NUMBERS:
            raise DtypeError(f"{label}: can't make {self.dtype}")
        self.max_pixels = whole(label, "max_pixels", max_pixels)
        if not 0 < self.max_pixels < 1 << 40:
            raise InvalidArgumentError(f"{label}: max_pixels must be a positive number, not {max_pixels}")
        self.frames = frames
        self.details = details

    def answer(self, contents: Any, formats: tuple[int, ...]) -> Any:
        """Return the decoded input, or, without an input, a stage: native if all `formats` are."""
        if contents is not None:
            return self.eager(contents)
        options = [f"channels={self.channels}"] * (self.channels != 0 and self.frames != "always")
        options += [f"ratio={self.details[0]}"] * (self.details[0] != 1) + [str(self.dtype)] * (self.dtype != np.uint8)
        options += ["apply_exif_orientation=True"] * self.details[-1]
        text = f"{self.label}({', '.join(options)})"
        for kind in formats:
            if not _has_native(kind):
                why = f"{_SHOWN[kind]} is decoded by Pillow"
                sides = (None,) * (4 if self.frames == "always" else 3)
                why = why if kind == _GIF else f"{why}: {missing(kind)}"
                return PythonStage(text, self.one, Component(self.dtype, None if self.frames == "all" else sides), why)

        def bind(components: tuple[Component, ...]) -> Step:
            given = lone_strings(self.label, components)
            if given.shape is not None:
                self._check_dims(given.shape)
            shape = None if given.shape is None else (*given.shape, None, None, self.channels or None)
            return self._native((Component(self.dtype, shape, name=given.name),), given)

        if self.dtype != np.uint8:
            return Stage(text, bind)
        kinds = sum(1 << kind for kind in self.kinds)
        return Pictures(Decoding(self.label, kinds, self.channels, self.details, self.max_pixels), text=text, bind=bind)

    def one(self, data: bytes) -> np.ndarray:
        """Decode one picture."""
        kind = _kind(data)
        # Native code raises the error for a format that the operation doesn't accept.
        if kind not in self.kinds or _has_native(kind):
            given = Component(BYTES, (), len(data))
            sides = self._native((), given).measure(data)
            made: np.ndarray = self._native((Component(self.dtype, sides),), given)(data)[0]
        else:
            made = _by_pillow(self, kind, data)
        return made[np.newaxis] if self.frames == "always" and kind != _GIF else made

    def eager(self, contents: Any) -> np.ndarray:
        """Decode pictures at once."""
        strings = strings_of(self.label, contents)
        if isinstance(strings, bytes):
            return self.one(strings)
        if isinstance(strings, np.ndarray):
            flat, shape = strings.reshape(-1).tolist(), strings.shape
        else:
            flat, shape = strings.to_list(), (len(strings),)
        self._check_dims(shape)
        if not flat:
            return np.empty((*shape, 0, 0, self.channels), self.dtype)
        if self.frames != "always" and all(_has_native(kind) or kind not in self.kinds for kind in map(_kind, flat)):
            # The header gives the shape first, so that all pictures are decoded straight into the result.
            given = Component(BYTES, shape)
            sides = self._native((), given).measure(flat[0], 0)
            batch: np.ndarray = self._native((Component(self.dtype, (*shape, *sides)),), given)(strings)[0]
            return batch
        pictures = [self.one(data) for data in flat]
        for index, picture in enumerate(pictures):
            if picture.shape != pictures[0].shape:
                raise InvalidArgumentError(
                    f"{self.label}: picture {index} of the batch has the shape {picture.shape}, the first "
                    f"{pictures[0].shape}: pictures of a batch must be equal in shape"
                )
        return np.stack(pictures).reshape(*shape, *pictures[0].shape)

    def _native(self, outputs: tuple[Component, ...], given: Component) -> PictureStep:
        kinds = sum(1 << kind for kind in self.kinds)
        number = _NUMBERS[self.dtype]
        return PictureStep((given,), outputs, self.label, kinds, self.channels, number, self.details, self.max_pixels)

    def _check_dims(self, shape: tuple[int | None, ...]) -> None:
        if len(shape) > MAX_DIMS - 4:
            raise InvalidArgumentError(f"{self.label}: {len(shape)} dimensions; at most {MAX_DIMS - 4} are possible")


def _kind(data: bytes) -> int:
    for kind, start in ((_JPEG, b"\xff\xd8\xff"), (_PNG, b"\x89PNG\r\n\x1a\n"), (_GIF, b"GIF8"), (_BMP, b"BM")):
        if data.startswith(start):
            return kind
    return _WEBP if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else 0


def _has_native(kind: int) -> bool:
    return kind == _BMP or (kind in (_JPEG, _PNG, _WEBP) and library(kind) is not None)


# ---- by Pillow ------------------------------------------------------------------------------------------------------


def _by_pillow(decoder: _Decoder, kind: int, data: bytes) -> np.ndarray:
    try:
        from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin
    except ImportError:
        raise UnimplementedError(
            f"{decoder.label}: neither a library for {_SHOWN[kind]} nor Pillow is found. pip install pillow"
        ) from None
    if decoder.channels not in {_JPEG: (0, 1, 3), _PNG: (0, 1, 3, 4), _GIF: (0, 3), _WEBP: (0, 3, 4)}[kind]:
        raise InvalidArgumentError(
            f"{decoder.label}: such a {_SHOWN[kind]} picture can't be decoded with {decoder.channels} channels"
        )
    try:
        if kind == _GIF:
            pixels = _gif(decoder, data)
        else:
            # The plugins are called, not Image.open, whose limit on pixels belongs to the whole process, and warns.
            plugin, reader = {
                _JPEG: (JpegImagePlugin.JpegImageFile, _jpeg),
                _PNG: (PngImagePlugin.PngImageFile, _png),
                _WEBP: (WebPImagePlugin.WebPImageFile, _webp),
            }[kind]
            with plugin(io.BytesIO(data)) as picture:
                _check_pixels(decoder, *picture.size)
                pixels = reader(decoder, picture, data)
                if decoder.details[-1]:
                    pixels = _turned(pixels, picture)
    except (QueueCoreError, MemoryError):
        raise
    except Exception as error:  # whatever damage made of it
        raise DecodeError(f"{decoder.label}: the {_SHOWN[kind]} picture is damaged: {error}") from error
    # As native code widens.
    if decoder.dtype == np.uint16 and pixels.dtype == np.uint8:
        return pixels * np.uint16(257 if kind == _PNG else 256)
    if decoder.dtype == np.float32:
        if pixels.dtype == np.uint8 and kind != _PNG:
            return pixels * np.float32(1 / 255)
        scale = 257 if pixels.dtype == np.uint8 else 1
        return pixels.astype(np.float32) * np.float32(scale) * np.float32(1 / 65535)
    return pixels


def _jpeg(decoder: _Decoder, picture: Any, data: bytes) -> np.ndarray:
    if decoder.details[:-1] != _PLAIN[:-1]:
        raise UnimplementedError(f"{decoder.label}: ratio and its like need libjpeg itself. {missing(_JPEG)}")
    channels = decoder.channels or (1 if picture.mode == "L" else 3)
    if picture.mode == "CMYK":
        if channels == 1:
            raise InvalidArgumentError(f"{decoder.label}: such a JPEG picture can't be decoded with 1 channels")
        # Pillow always gives the complement of the stored inks, and Adobe's programs store the complement.
        inks = np.asarray(picture).astype(np.uint16)
        inks = 255 - inks if "adobe" in picture.info else inks
        return (inks[..., :3] * inks[..., 3:] // 255).astype(np.uint8)
    if channels == 1:
        picture.draft("L", None)
    return np.asarray(picture.convert("L" if channels == 1 else "RGB")).reshape(*picture.size[::-1], channels)


def _png(decoder: _Decoder, picture: Any, data: bytes) -> np.ndarray:
    depth, colours = data[24], data[25]
    see_through = "transparency" in picture.info
    picture.load()
    if _PNG_END not in data:
        raise DecodeError(f"{decoder.label}: the PNG picture is cut: it ends too early")
    stored_channels = {0: 1, 2: 3, 3: 4 if see_through else 3, 4: 2, 6: 4}[colours]
    channels = decoder.channels or stored_channels
    if depth == 16 and colours == 0 and not see_through:
        grey = np.asarray(picture).astype(np.uint16)[..., np.newaxis]
        if channels in (1, 3):
            grey = grey.repeat(channels, 2)
            return grey if decoder.dtype != np.uint8 else (grey >> 8).astype(np.uint8)
    if depth == 16 and decoder.dtype != np.uint8:
        raise UnimplementedError(f"{decoder.label}: more than 8 bits of such a PNG need libpng itself. {missing(_PNG)}")
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    if channels in (1, 3) and stored_channels in (2, 4):
        picture = picture.convert("RGBA")  # so that what is see-through keeps its colour
    return np.asarray(picture.convert(mode)).reshape(*picture.size[::-1], channels)


def _webp(decoder: _Decoder, picture: Any, data: bytes) -> np.ndarray:
    if getattr(picture, "is_animated", False):
        raise DecodeError(f"{decoder.label}: the WebP picture is animated")
    if int.from_bytes(data[4:8], "little") + 8 > len(data):
        raise DecodeError(f"{decoder.label}: the WebP picture is cut: it ends too early")
    channels = decoder.channels or (4 if picture.mode == "RGBA" else 3)
    return np.asarray(picture.convert("RGBA" if channels == 4 else "RGB"))


_ORIENTATION = 0x0112
# From EXIF's orientation on: whether rows become columns, and which axes are mirrored behind that.
_TURNS = {
    2: (False, (1,)),
    3: (False, (0, 1)),
    4: (False, (0,)),
    5: (True, ()),
    6: (True, (1,)),
    7: (True, (0, 1)),
    8: (True, (0,)),
}


def _turned(pixels: np.ndarray, picture: Any) -> np.ndarray:
    try:
        orientation = picture.getexif().get(_ORIENTATION)
    except Exception:  # as native code: an unreadable tag says nothing
        orientation = 1
    swapped, mirrored = _TURNS.get(orientation, (False, ()))
    return np.flip(pixels.swapaxes(0, 1) if swapped else pixels, mirrored)


_PNG_END = b"IEND\xaeB`\x82"


def _check_pixels(decoder: _Decoder, width: int, height: int, count: int = 1) -> None:
    if width * height * count > decoder.max_pixels:
        shown = f"{width} x {height}" + (f" x {count}" if count > 1 else "")
        raise DecodeError(
            f"{decoder.label}: the picture is of {shown} pixels, more than max_pixels={decoder.max_pixels}"
        )


def _gif(decoder: _Decoder, data: bytes) -> np.ndarray:
    animation = animation_of(decoder.label, data)
    count = len(animation.frames)
    if count > 1 and decoder.frames == "one":
        raise DecodeError(f"{decoder.label}: the input is an animated GIF, which decode_gif and decode_image take")
    if decoder.frames == "first":
        count = 1
    _check_pixels(decoder, animation.width, animation.height, count)
    made = animation.pixels(count)
    return made if decoder.frames in ("all", "always") else made[0]


# ---- the operations -------------------------------------------------------------------------------------------------


@decoding_op
def decode_jpeg(
    contents: Any = None,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
    *,
    max_pixels: int = _MAX_PIXELS,
    apply_exif_orientation: bool = False,
) -> Any:
    """Decode JPEG pictures.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    channels : {0, 1, 3}, default 0
        1: grey; 3: red, green, blue; 0: 1 for a grey picture, else 3.
    ratio : {1, 2, 4, 8}, default 1
        Divides height and width, rounding up, while decoding.
    fancy_upscaling : bool, default True
        Whether colours that are stored in lower resolution are smoothed.
    try_recover_truncated : bool, default False
        Whether the missing rows of a cut picture are made up, instead of an error.
    acceptable_fraction : float, default 1
        Between 0 and 1; without effect, because rows that are made up count as read, in TensorFlow too.
    dct_method : {"", "INTEGER_ACCURATE", "INTEGER_FAST"}, default ""
        How the inverse transform is computed. ``""`` is the accurate one.
    name : str, optional
        Not used.
    max_pixels : int, default 178956970
        The limit for one picture: half a GiB in three channels. Above it, nothing is allocated.
    apply_exif_orientation : bool, default False
        Whether pictures are turned and mirrored as their EXIF data says.

    Returns
    -------
    ndarray of uint8
        Of shape ``(*contents.shape, height, width, channels)``.

    Raises
    ------
    DecodeError
        If it is no picture, or one that is cut, damaged, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, such a picture doesn't have those channels, or pictures of a batch are not
        equal in shape.
    DtypeError
        If the input is no bytes.
    UnimplementedError
        If neither a library nor Pillow is found: ``pip install pillow``.

    Notes
    -----
    Runs without the GIL, in libjpeg-turbo, found at run time: the system's, or that of Pillow's wheel. Without it,
    Pillow decodes in Python, and the stage is not native. Follows TensorFlow's ``io.decode_jpeg``: profiles are
    ignored, damage that the library can work around is no error, and a PNG picture, or a GIF of one frame, is accepted
    too. TensorFlow has no `apply_exif_orientation`; its own default for `dct_method` is the fast one, and it accepts
    some pictures that lack only their end mark.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (4, 2), (255, 0, 0)).save(file, "JPEG")
    >>> qc.ops.decode_jpeg(file.getvalue()).shape
    (2, 4, 3)
    >>> qc.ops.decode_jpeg([file.getvalue()] * 5, channels=1, ratio=2).shape
    (5, 1, 2, 1)
    """
    del name
    label = "decode_jpeg"
    how = _jpeg_options(
        label, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method, apply_exif_orientation
    )
    return _Decoder(label, _AS_JPEG, channels, np.uint8, max_pixels, "one", how).answer(contents, (_JPEG,))


def _jpeg_options(
    label: str,
    ratio: Any,
    fancy_upscaling: Any,
    try_recover_truncated: Any,
    acceptable_fraction: Any,
    dct_method: Any,
    apply_exif_orientation: Any,
) -> tuple[int, int, int, int, bool]:
    if whole(label, "ratio", ratio) not in (1, 2, 4, 8):
        raise InvalidArgumentError(f"{label}: ratio must be 1, 2, 4 or 8, not {ratio}")
    if dct_method not in _METHODS:
        raise InvalidArgumentError(f"{label}: dct_method must be one of {list(_METHODS)}, not {dct_method!r}")
    if not 0 <= acceptable_fraction <= 1:
        raise InvalidArgumentError(f"{label}: acceptable_fraction must be between 0 and 1, not {acceptable_fraction}")
    method, oriented = _METHODS[dct_method], bool(apply_exif_orientation)
    return int(ratio), int(fancy_upscaling), method, int(try_recover_truncated), oriented


def _usual(apply_exif_orientation: Any) -> tuple[int, int, int, int, bool]:
    return *_PLAIN[:-1], bool(apply_exif_orientation)


@decoding_op
def decode_and_crop_jpeg(
    contents: Any = None,
    crop_window: Any = None,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
    *,
    max_pixels: int = _MAX_PIXELS,
    apply_exif_orientation: bool = False,
) -> Any:
    """Decode a part of JPEG pictures.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    crop_window : (int, int, int, int)
        The first row, the first column, height and width, in pixels of the picture as `ratio` leaves it.
    channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
        As for `decode_jpeg`.
    name, max_pixels, apply_exif_orientation
        As for `decode_jpeg`.

    Returns
    -------
    ndarray of uint8
        Of shape ``(*contents.shape, height, width, channels)``: the pixels that `decode_jpeg` gives there.

    Raises
    ------
    DecodeError, DtypeError, UnimplementedError
        As `decode_jpeg`.
    InvalidArgumentError
        Also if the window is not within a picture.

    Notes
    -----
    Only the rows and columns of the window become pixels. The rows before it are read, the rows behind it aren't,
    unless the picture is progressive. TensorFlow's ``io.decode_and_crop_jpeg`` differs at the left and the right
    border, since it smooths colours without the neighbouring pixels. Runs without the GIL.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.linear_gradient("L").save(file, "JPEG")
    >>> qc.ops.decode_and_crop_jpeg(file.getvalue(), (100, 0, 3, 1))[:, 0, 0]
    array([100, 101, 102], dtype=uint8)
    """
    del name
    label = "decode_and_crop_jpeg"
    if crop_window is None:
        raise InvalidArgumentError(f"{label}: crop_window is missing")
    window = wholes(label, "crop_window", crop_window, 0)
    if len(window) != 4 or 0 in window[2:]:
        raise InvalidArgumentError(
            f"{label}: crop_window must be row, column, height and width of a part with pixels, not {list(window)}"
        )
    how = _jpeg_options(
        label, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method, apply_exif_orientation
    )
    decoder = _Decoder(label, _AS_JPEG, channels, np.uint8, max_pixels, "one", how)
    crop = Pictures(Crop(label, f"{label}({list(window)})", ("window", *window), (window[2], window[3])))
    decoding = decoder.answer(None, (_JPEG,))
    if not isinstance(decoding, Pictures):
        stage: Stage = Composed([decoding, crop])
    else:
        options = repr(decoding).partition("(")[2]
        text = f"{label}({list(window)}{', ' if options != ')' else ''}{options}"
        stage = Pictures(*decoding.links, *crop.links, text=text)
    if contents is None:
        return stage
    strings = strings_of(label, contents)
    flat = [strings] if isinstance(strings, bytes) else list(np.asarray(strings, object).ravel())
    if not flat or not all(_has_native(kind) or kind not in decoder.kinds for kind in map(_kind, flat)):
        return run_eagerly(label, crop, decoder.eager(contents))
    if isinstance(strings, bytes):
        return stage.bind([Component(BYTES, (), len(strings))])(strings)[0]
    shape = strings.shape if isinstance(strings, np.ndarray) else (len(strings),)
    return stage.bind([Component(BYTES, shape)])(strings)[0]


@decoding_op
def decode_png(
    contents: Any = None,
    channels: int = 0,
    dtype: Any = np.uint8,
    name: str | None = None,
    *,
    max_pixels: int = _MAX_PIXELS,
    apply_exif_orientation: bool = False,
) -> Any:
    """Decode PNG pictures.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    channels : {0, 1, 3, 4}, default 0
        1: grey; 3: red, green, blue; 4: these and alpha; 0: those of the picture, which may also be grey and alpha.
    dtype : dtype, default uint8
        uint8, or uint16: of pictures of 8 bits, 257 times their value.
    name : str, optional
        Not used.
    max_pixels : int, default 178956970
        The limit for one picture: half a GiB in three channels. Above it, nothing is allocated.
    apply_exif_orientation : bool, default False
        Whether pictures are turned and mirrored as their EXIF data says.

    Returns
    -------
    ndarray
        Of shape ``(*contents.shape, height, width, channels)``.

    Raises
    ------
    DecodeError
        If it is no picture, or one that is cut, damaged, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, such a picture doesn't have those channels, or pictures of a batch are not
        equal in shape.
    DtypeError
        If the input is no bytes, or such numbers can't be made.
    UnimplementedError
        If neither a library nor Pillow is found: ``pip install pillow``.

    Notes
    -----
    Runs without the GIL, in libpng, found at run time: the system's, or that of Pillow's wheel. Without it, Pillow
    decodes in Python, and the stage is not native. Follows TensorFlow's ``io.decode_png``: colours are returned as they
    are stored, whatever gamma or profile says, and a JPEG picture, or a GIF of one frame, is accepted too. Alpha that
    is added is opaque; TensorFlow gives less to pictures of 1, 2 or 4 bits.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("L", (1, 2), 7).save(file, "PNG")
    >>> qc.ops.decode_png(file.getvalue(), channels=4)
    array([[[  7,   7,   7, 255]],
    <BLANKLINE>
           [[  7,   7,   7, 255]]], dtype=uint8)
    >>> qc.ops.decode_png(channels=3)
    decode_png(channels=3)
    """
    del name
    how = _usual(apply_exif_orientation)
    decoder = _Decoder("decode_png", (_PNG, _JPEG, _GIF), channels, dtype, max_pixels, "one", how)
    if decoder.dtype == np.float32:
        raise DtypeError("decode_png: dtype must be uint8 or uint16, not float32")
    return decoder.answer(contents, (_PNG,))


@decoding_op
def decode_bmp(
    contents: Any = None, channels: int = 0, name: str | None = None, *, max_pixels: int = _MAX_PIXELS
) -> Any:
    """Decode BMP pictures that are not compressed.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    channels : {0, 3, 4}, default 0
        3: red, green, blue; 4: these and alpha, opaque if there is none; 0: those of the picture: 1, 3 or 4.
    name : str, optional
        Not used.
    max_pixels : int, default 178956970
        The limit for one picture: half a GiB in three channels. Above it, nothing is allocated.

    Returns
    -------
    ndarray of uint8
        Of shape ``(*contents.shape, height, width, channels)``; the first row is the top one.

    Raises
    ------
    DecodeError
        If it is no picture, or one that is cut, damaged, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, such a picture doesn't have those channels, or pictures of a batch are not
        equal in shape.
    DtypeError
        If the input is no bytes.

    Notes
    -----
    Runs without the GIL. Follows TensorFlow's ``io.decode_bmp``: 8, 24 or 32 bits a pixel; pixels of 8 bits are greys,
    whatever the palette says. Compressed pictures, which TensorFlow reads as uncompressed ones, are errors. So are
    pixels that would begin inside the headers, or inside the palette unless they end with the file. Bytes behind the
    pixels, which TensorFlow refuses, are ignored.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (2, 1), (1, 2, 3)).save(file, "BMP")
    >>> qc.ops.decode_bmp(file.getvalue())
    array([[[1, 2, 3],
            [1, 2, 3]]], dtype=uint8)
    """
    del name
    return _Decoder("decode_bmp", (_BMP,), channels, np.uint8, max_pixels, "one").answer(contents, (_BMP,))


@decoding_op
def decode_gif(contents: Any = None, name: str | None = None, *, max_pixels: int = _MAX_PIXELS) -> Any:
    """Decode all frames of GIF pictures.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    name : str, optional
        Not used.
    max_pixels : int, default 178956970
        The limit for one picture, with all its frames: half a GiB in three channels. Above it, nothing is allocated.

    Returns
    -------
    ndarray of uint8
        Of shape ``(*contents.shape, frames, height, width, 3)``.

    Raises
    ------
    DecodeError
        If it is no picture, or one that is cut, damaged, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, such a picture doesn't have those channels, or pictures of a batch are not
        equal in shape.
    DtypeError
        If the input is no bytes.
    UnimplementedError
        If neither a library nor Pillow is found: ``pip install pillow``.

    Notes
    -----
    Pillow decodes in Python: the stage is not native. Follows TensorFlow's ``io.decode_gif``: every frame is whole, and
    includes what earlier frames left, whatever their disposal says; pixels that were never drawn are black; a JPEG or
    PNG picture is accepted too, as one frame. It differs in the sides, which are those of the logical screen, or more
    if a frame reaches beyond it, where TensorFlow takes those of the largest frame and cuts off what lies outside. All
    whole frames come, however the file ends behind them; a frame that is cut is an error.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> frames = [Image.new("RGB", (4, 2), colour) for colour in ("red", "blue")]
    >>> frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    >>> qc.ops.decode_gif(file.getvalue())[:, 0, 0]
    array([[255,   0,   0],
           [  0,   0, 255]], dtype=uint8)
    """
    del name
    return _Decoder("decode_gif", (_GIF, _JPEG, _PNG), 3, np.uint8, max_pixels, "always").answer(contents, (_GIF,))


@decoding_op
def decode_webp(
    contents: Any = None,
    channels: int = 0,
    name: str | None = None,
    *,
    max_pixels: int = _MAX_PIXELS,
    apply_exif_orientation: bool = False,
) -> Any:
    """Decode WebP pictures, with and without loss.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    channels : {0, 3, 4}, default 0
        3: red, green, blue; 4: these and alpha, opaque if there is none; 0: those of the picture: 3 or 4.
    name : str, optional
        Not used.
    max_pixels : int, default 178956970
        The limit for one picture: half a GiB in three channels. Above it, nothing is allocated.
    apply_exif_orientation : bool, default False
        Whether pictures are turned and mirrored as their EXIF data says.

    Returns
    -------
    ndarray of uint8
        Of shape ``(*contents.shape, height, width, channels)``.

    Raises
    ------
    DecodeError
        If it is no such picture, or one that is cut, damaged, animated, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, or pictures of a batch are not equal in shape.
    DtypeError
        If the input is no bytes.
    UnimplementedError
        If neither libwebp nor Pillow is found: ``pip install pillow``.

    Notes
    -----
    Runs without the GIL; without libwebp, by Pillow, in Python.

    Examples
    --------
    >>> import io, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (2, 1), (255, 0, 9)).save(file, "WEBP", lossless=True)
    >>> qc.ops.decode_webp(file.getvalue()).tolist()
    [[[255, 0, 9], [255, 0, 9]]]
    """
    del name
    how = _usual(apply_exif_orientation)
    decoder = _Decoder("decode_webp", (_WEBP,), channels, np.uint8, max_pixels, "one", how)
    if decoder.channels == 1:
        raise InvalidArgumentError("decode_webp: channels must be 0, 3 or 4, not 1")
    return decoder.answer(contents, (_WEBP,))


@decoding_op
def decode_image(
    contents: Any = None,
    channels: int | None = None,
    dtype: Any = np.uint8,
    name: str | None = None,
    expand_animations: bool = True,
    *,
    max_pixels: int = _MAX_PIXELS,
    apply_exif_orientation: bool = False,
) -> Any:
    """Decode JPEG, PNG, GIF, BMP and WebP pictures, whichever they are.

    Parameters
    ----------
    contents : bytes, or array or list of bytes, optional
        Of any shape; pictures of a batch must come out equal in shape. Without it, the result is a `Stage`.
    channels : {0, 1, 3, 4}, optional
        As of `decode_jpeg` (0, 1, 3), `decode_png` (all), `decode_bmp` and `decode_webp` (0, 3, 4); of GIF 0 or 3.
        Default 0.
    dtype : dtype, default uint8
        uint8; uint16: of bytes, 257 times (PNG) or 256 times (others) their value; or float32, from 0 to 1.
    name : str, optional
        Not used.
    expand_animations : bool, default True
        Whether all frames of a GIF are returned, with an axis for them even for one frame; if not, the first frame.
    max_pixels : int, default 178956970
        The limit for one picture, with all its frames: half a GiB in three channels. Above it, nothing is allocated.
    apply_exif_orientation : bool, default False
        Whether pictures are turned and mirrored as their EXIF data says.

    Returns
    -------
    ndarray
        Of shape ``(*contents.shape, height, width, channels)``, of GIF with an axis of frames before the height.

    Raises
    ------
    DecodeError
        If it is no picture, or one that is cut, damaged, or of more than `max_pixels`.
    InvalidArgumentError
        If an argument is not as described, such a picture doesn't have those channels, or pictures of a batch are not
        equal in shape.
    DtypeError
        If the input is no bytes, or such numbers can't be made.
    UnimplementedError
        If neither a library nor Pillow is found: ``pip install pillow``.

    Notes
    -----
    Runs without the GIL, except for GIF; see the operations of each format. A native stage refuses a GIF. Follows
    TensorFlow's ``io.decode_image``, and takes WebP too.

    Examples
    --------
    >>> import io, numpy as np, queuecore as qc
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("L", (1, 1), 255).save(file, "PNG")
    >>> qc.ops.decode_image(file.getvalue(), dtype=np.float32)
    array([[[1.]]], dtype=float32)
    >>> qc.ops.decode_image(b"RIFF")
    Traceback (most recent call last):
    queuecore.errors.DecodeError: decode_image: the input is neither JPEG, PNG, GIF, BMP nor WebP
    """
    del name
    frames = "all" if expand_animations else "first"
    kinds, how = (_JPEG, _PNG, _GIF, _BMP, _WEBP), _usual(apply_exif_orientation)
    decoder = _Decoder("decode_image", kinds, channels, dtype, max_pixels, frames, how)
    return decoder.answer(contents, (_JPEG, _PNG))
