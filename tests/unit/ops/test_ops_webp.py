"""WebP pictures, beside Pillow's own decoding of them; cut, damaged and animated ones."""

import io

import numpy as np
import pytest
from helpers.formats.pictures import CODECS, WEBP, colours, forget, use
from PIL import Image, features

import queuecore as qc
from queuecore._core.steps import images
from queuecore._core.steps.images import library
from queuecore.errors import DecodeError, InvalidArgumentError, UnimplementedError
from queuecore.ops import compose, decode_image, decode_webp

pytestmark = pytest.mark.skipif(not features.check("webp"), reason="Pillow has no WebP here")


def encoded(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "WEBP", **options)
    return file.getvalue()


def see_through(height=11, width=9):
    pixels = np.dstack([colours(height, width), np.arange(height * width).reshape(height, width) % 256])
    return pixels.astype(np.uint8)


@pytest.fixture(params=[*CODECS, "none"])
def codec(request, monkeypatch):
    """Let pictures be decoded by the system's library, by that of Pillow's wheel, or by Pillow."""
    use(monkeypatch, request.param)
    if request.param != "none" and library(WEBP) is None:
        pytest.skip(f"libwebp is not in the {request.param}")
    yield request.param
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}, {"quality": 5, "method": 6}])
@pytest.mark.parametrize("shape", [(1, 1), (13, 17), (64, 3), (200, 301)])
def test_pixels_are_pillows(codec, options, shape):
    data = encoded(colours(*shape), **options)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    for channels in (0, 3):
        np.testing.assert_array_equal(decode_webp(data, channels), expected, strict=True)
        np.testing.assert_array_equal(decode_image(data, channels), expected, strict=True)
    opaque = np.dstack([expected, np.full(shape, 255, np.uint8)])
    np.testing.assert_array_equal(decode_webp(data, 4), opaque, strict=True)
    if options == {"lossless": True}:
        np.testing.assert_array_equal(expected, colours(*shape))


@pytest.mark.parametrize("options", [{"lossless": True, "exact": True}, {"quality": 90}])
def test_what_is_see_through(codec, options):
    data = encoded(see_through(), **options)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(decode_webp(data), expected, strict=True)
    np.testing.assert_array_equal(decode_webp(data, 3), expected[..., :3], strict=True)
    np.testing.assert_array_equal(decode_image(data, 4), expected, strict=True)


def test_wider_numbers(codec):
    data = encoded(colours(), lossless=True)
    np.testing.assert_array_equal(decode_image(data, dtype=np.uint16), colours() * np.uint16(256))
    np.testing.assert_allclose(decode_image(data, dtype=np.float32), colours() / np.float32(255), 1e-6)


def test_batches_and_chains(codec):
    pictures = [colours(30, 40, seed) for seed in range(4)]
    batch = [encoded(picture, lossless=True) for picture in pictures]
    np.testing.assert_array_equal(decode_webp(batch), pictures)
    if codec == "none":
        return
    # Of a whole picture a part is taken, as of a JPEG.
    chain = compose(decode_image(channels=3), qc.ops.center_crop(size=(12, 14)), qc.ops.flip_left_right())
    ds = qc.data.Dataset.from_tensor_slices(batch).map(chain)
    for result, picture in zip(ds, pictures, strict=True):
        np.testing.assert_array_equal(result, qc.ops.flip_left_right(qc.ops.center_crop(picture, (12, 14))))
    with pytest.raises(InvalidArgumentError, match="equal in shape"):
        decode_webp([batch[0], encoded(colours(30, 41))])


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}])
def test_cut_pictures(codec, options):
    data = encoded(colours(40, 50), **options)
    for end in [*range(12), *range(12, len(data), 7), len(data) - 1]:
        with pytest.raises(DecodeError, match="cut|neither|empty|damaged") as caught:
            decode_webp(data[:end])
        assert end < 12 or "cut" in str(caught.value) or codec == "none", end
    np.testing.assert_array_equal(decode_webp(data + b"more"), decode_webp(data))


def test_damage_is_an_error_or_another_picture(codec):
    random = np.random.default_rng(0)
    for options in ({"lossless": True}, {"quality": 80}, {"quality": 80, "exact": True}):
        pixels = see_through(40, 50) if "exact" in options else colours(40, 50)
        data = encoded(pixels, **options)
        for _ in range(150):
            bad = bytearray(data)
            for at in random.integers(0, len(bad), 3):
                bad[at] ^= 1 << random.integers(8)
            try:
                result = decode_image(bytes(bad), max_pixels=10_000)
            except (DecodeError, InvalidArgumentError):
                continue
            assert result.ndim >= 3 and result.dtype == np.uint8


def test_animations_and_limits(codec):
    file = io.BytesIO()
    frames = [Image.fromarray(colours(8, 9, seed)) for seed in range(3)]
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:])
    for op in (decode_webp, decode_image):
        with pytest.raises(DecodeError, match="the WebP picture is animated"):
            op(file.getvalue())
    data = encoded(colours(10, 20))
    with pytest.raises(DecodeError, match="of 20 x 10 pixels, more than max_pixels=199"):
        decode_webp(data, max_pixels=199)
    assert decode_webp(data, max_pixels=200).shape == (10, 20, 3)
    with pytest.raises(InvalidArgumentError, match="with 1 channels"):
        decode_image(data, 1)
    with pytest.raises(InvalidArgumentError, match="channels must be 0, 3 or 4, not 1"):
        decode_webp(data, 1)
    with pytest.raises(DecodeError, match="the input is WebP, which decode_image takes"):
        qc.ops.decode_png(data)
    with pytest.raises(DecodeError, match="neither JPEG"):
        decode_webp(b"RIFF\4\0\0\0WAVE")


def test_without_a_library_a_stage_runs_in_python(monkeypatch):
    every = images._candidates
    monkeypatch.setattr(images, "_candidates", lambda kind: [] if kind == WEBP else every(kind))
    forget()
    try:
        assert "WebP is decoded by Pillow" in repr(decode_webp())
        np.testing.assert_array_equal(decode_image(encoded(colours(), lossless=True)), colours())
        if library(1) is not None and library(2) is not None:
            step = decode_image(channels=3).bind([qc.ops.Component(np.dtype("S"), ())])
            with pytest.raises(UnimplementedError, match="no library for WebP"):
                step(encoded(colours()))
    finally:
        monkeypatch.undo()
        forget()
