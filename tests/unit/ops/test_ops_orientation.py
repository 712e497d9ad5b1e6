"""`apply_exif_orientation`: pictures are turned as Pillow turns them; EXIF data that says nothing changes nothing."""

import struct

import numpy as np
import pytest
from helpers.formats.pictures import CODECS, JPEG, PNG, WEBP, chunk, colours, forget, png, saved, use
from PIL import Image, ImageOps, features

import queuecore as qc
from queuecore._core.steps.images import library
from queuecore._elements.component import BYTES
from queuecore.ops import Component, compose, decode_image, decode_jpeg, decode_png, decode_webp

TAG = 0x0112
ORIENTATIONS = range(1, 9)
KINDS = {
    "jpeg": (JPEG, decode_jpeg, {}),
    "jpeg-progressive": (JPEG, decode_jpeg, {"progressive": True}),
    "jpeg-422": (JPEG, decode_jpeg, {"subsampling": 1}),
    "png": (PNG, decode_png, {}),
    "webp": (WEBP, decode_webp, {"quality": 80}),
}


@pytest.fixture(params=[*CODECS, "none"])
def codec(request, monkeypatch):
    """Let pictures be decoded by the system's library, by that of Pillow's wheel, or by Pillow."""
    use(monkeypatch, request.param)
    yield request.param
    monkeypatch.undo()
    forget()


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x010E] = "a text before it"
    exif[TAG] = orientation
    return exif


def encoded(kind, orientation, pixels):
    codec, decode, options = KINDS[kind]
    if codec == WEBP and not features.check("webp"):
        pytest.skip("Pillow has no WebP here")
    return saved(pixels, kind.partition("-")[0].upper(), exif=exif_of(orientation), **options), decode


def turned(pixels, orientation):
    """By Pillow."""
    grey = pixels.shape[-1] == 1
    with Image.fromarray(pixels[..., 0] if grey else pixels) as picture:
        picture.getexif()[TAG] = orientation
        made = np.asarray(ImageOps.exif_transpose(picture))
    return made[..., np.newaxis] if grey else made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_pictures_are_turned(codec, kind, orientation):
    for shape in [(1, 1), (13, 17), (70, 131)]:
        data, decode = encoded(kind, orientation, colours(*shape))
        plain = decode(data)
        assert plain.shape == (*shape, 3)
        expected = turned(plain, orientation)
        np.testing.assert_array_equal(decode(data, apply_exif_orientation=True), expected, strict=True)
        np.testing.assert_array_equal(decode_image(data, apply_exif_orientation=True), expected, strict=True)
        floats = decode_image(data, dtype=np.float32, apply_exif_orientation=True)
        green = turned(decode_image(data, dtype=np.float32)[..., 1:2], orientation)
        np.testing.assert_array_equal(floats[..., 1:2], green, strict=True)
        batch = decode([data] * 3, apply_exif_orientation=True)
        np.testing.assert_array_equal(batch, np.stack([expected] * 3), strict=True)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_channels_and_ratios(orientation):
    if library(JPEG) is None:
        pytest.skip("no libjpeg here")
    data, _ = encoded("jpeg", orientation, colours(61, 45))
    for options in ({"channels": 1}, {"ratio": 2}, {"ratio": 8, "channels": 1}, {"dct_method": "INTEGER_FAST"}):
        expected = turned(decode_jpeg(data, **options), orientation)
        np.testing.assert_array_equal(decode_jpeg(data, apply_exif_orientation=True, **options), expected, strict=True)
    samples = np.random.default_rng(0).integers(0, 1 << 16, (5, 7, 1))
    data = png(samples, 16, 0, chunks=chunk(b"eXIf", exif_of(orientation).tobytes()[6:]))
    deep = decode_png(data, dtype=np.uint16, apply_exif_orientation=True)
    expected = turned(samples.astype(np.int32), orientation)
    np.testing.assert_array_equal(deep, expected.astype(np.uint16), strict=True)


CHAINS = {
    "centre": [qc.ops.center_crop(size=(30, 33))],
    "random": [qc.ops.random_crop(size=(20, 17, 3), seed=3)],
    "resized": [qc.ops.random_resized_crop(size=(9, 12), seed=4, dct_scale=False)],
    "whole": [
        qc.ops.resize(size=(40, 20), antialias=True, dct_scale=False),
        qc.ops.normalize(mean=[1, 2, 3], std=[2, 2, 2]),
    ],
    "flipped": [qc.ops.flip_left_right(), qc.ops.flip_up_down()],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_later_operations_see_the_turned_picture(chain, orientation):
    data, _ = encoded("jpeg", orientation, colours(52, 71))
    fused = compose(decode_jpeg(apply_exif_orientation=True), *CHAINS[chain])
    apart = compose(*CHAINS[chain])
    pixels = decode_jpeg(data, apply_exif_orientation=True)
    (got,) = fused.bind([Component(BYTES, (), len(data))])(data, element=7)
    (expected,) = apart.bind([Component(pixels.dtype, pixels.shape)])(pixels, element=7)
    np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_smaller_while_decoding(orientation):
    """As many pixels: they lie where those of the stored picture lie."""
    sides = (24, 40) if orientation < 5 else (40, 24)
    stage = qc.ops.resize(size=sides, antialias=True)
    for shape in [(192, 320), (193, 321)]:
        pixels = colours(*shape)
        data, _ = encoded("jpeg", orientation, pixels)
        plain, _ = encoded("jpeg", 1, pixels)
        (got,) = compose(decode_jpeg(apply_exif_orientation=True), stage).bind([Component(BYTES, ())])(data)
        stored = compose(decode_jpeg(), qc.ops.resize(size=(24, 40), antialias=True))
        (expected,) = stored.bind([Component(BYTES, ())])(plain)
        turned_by_pillow = np.dstack([turned(expected[..., c : c + 1], orientation) for c in range(3)])
        # A side that eight doesn't divide is decoded whole where it is turned.
        assert np.abs(got - turned_by_pillow).mean() < (0.01 if shape == (192, 320) or orientation == 1 else 2)


# EXIF data of every kind


def entries(*of, big=False, count=None):
    """Return EXIF data with entries of (tag, type, 4 bytes)."""
    order = ">" if big else "<"
    made = (b"MM\0*" if big else b"II*\0") + struct.pack(order + "I", 8)
    made += struct.pack(order + "H", len(of) if count is None else count)
    return made + b"".join(struct.pack(order + "HHI", tag, type_, 1) + value for tag, type_, value in of)


def segment(exif):
    return b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif


def with_exif(exif, before=b""):
    data = saved(colours(4, 6), "JPEG")
    return data[:2] + before + segment(exif) + data[2:]


SIX = (TAG, 3, b"\6\0\0\0")
BIG_SIX = (TAG, 3, b"\0\6\0\0")
XMP = b"\xff\xe1" + struct.pack(">H", 12) + b"http://xmp"

TURNS = {
    "little": with_exif(entries(SIX)),
    "big": with_exif(entries(BIG_SIX, big=True)),
    "not the first entry": with_exif(entries((1, 2, b"abc\0"), (2, 4, b"\1\0\0\0"), SIX)),
    "behind other segments": with_exif(entries(SIX), XMP),
    "behind bytes that fill": with_exif(entries(SIX), b"\xff\xff" + XMP),
    "with a count of 3": with_exif(entries((1, 2, b"abc\0"), SIX, count=3)),
    "before other EXIF data": with_exif(entries((TAG, 3, b"\2\0\0\0")), segment(entries(SIX))),
}

NOTHING = {
    "none": saved(colours(4, 6), "JPEG"),
    "0": with_exif(entries((TAG, 3, b"\0\0\0\0"))),
    "9": with_exif(entries((TAG, 3, b"\x09\0\0\0"))),
    "of 32 bits": with_exif(entries((TAG, 9, b"\6\0\0\0"))),
    "big's other end": with_exif(entries(SIX, big=True)),
    "no entries": with_exif(entries()),
    "an offset behind the end": with_exif(b"II*\0\xff\xff\xff\xff" + bytes(20)),
    "a count without entries": with_exif(entries((1, 2, b"abc\0"), count=0xFFFF)),
    "no header": with_exif(bytes(30)),
    "nothing": with_exif(b""),
}


@pytest.mark.parametrize("case", TURNS)
def test_what_turns(case):
    assert decode_jpeg(TURNS[case], apply_exif_orientation=True).shape == (6, 4, 3)
    assert decode_jpeg(TURNS[case]).shape == (4, 6, 3)


@pytest.mark.parametrize("case", NOTHING)
def test_what_says_nothing(case):
    np.testing.assert_array_equal(
        decode_jpeg(NOTHING[case], apply_exif_orientation=True), decode_jpeg(NOTHING[case]), strict=True
    )


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP"])
def test_files_that_are_cut_or_changed(name):
    """With the option the same error, or the same pixels in one of eight ways."""
    if name == "WEBP" and not features.check("webp"):
        pytest.skip("Pillow has no WebP here")
    data = saved(colours(4, 6), name, exif=exif_of(6))
    rng = np.random.default_rng(0)
    front = data.index(b"a text before it") + 40 if name != "WEBP" else len(data)
    for at in [*range(len(data)), *rng.integers(0, front, 300)]:
        changed = bytearray(data)
        changed[at] ^= 1 << int(rng.integers(8))
        for contents in (data[:at], bytes(changed)):
            try:
                plain = decode_image(contents)
            except qc.errors.QueueCoreError as error:
                with pytest.raises(type(error)):
                    decode_image(contents, apply_exif_orientation=True)
                continue
            got = decode_image(contents, apply_exif_orientation=True)
            assert any(np.array_equal(got, turned(plain, way)) for way in ORIENTATIONS)


def test_it_is_told():
    assert repr(decode_jpeg(apply_exif_orientation=True)) == "decode_jpeg(apply_exif_orientation=True)"
    assert repr(decode_jpeg()) == "decode_jpeg()"
    window = qc.ops.decode_and_crop_jpeg(crop_window=(0, 0, 2, 1), apply_exif_orientation=True)
    assert repr(window) == "decode_and_crop_jpeg([0, 0, 2, 1], apply_exif_orientation=True)"
    data = saved(colours(4, 6), "JPEG", exif=exif_of(6))
    part = qc.ops.decode_and_crop_jpeg(data, (4, 1, 2, 3), apply_exif_orientation=True)
    whole = decode_jpeg(data, apply_exif_orientation=True)
    np.testing.assert_array_equal(part, whole[4:6, 1:4], strict=True)
