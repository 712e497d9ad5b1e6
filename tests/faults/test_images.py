"""Damaged pictures: a DecodeError that says what is wrong, nothing on stderr, and no memory above `max_pixels`."""

import os
import random
import re
import resource
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest
from helpers.formats.pictures import CODECS, JPEG, PNG, chunk, colours, forget, jpeg_header, png, samples, saved, use

import queuecore as qc
from queuecore._core.steps import images
from queuecore.ops import decode_gif, decode_image, decode_jpeg, decode_png

SAMPLES = samples()
SMALL = [
    *("jpeg", "jpeg-grey", "jpeg-progressive", "jpeg-restarts", "jpeg-cmyk", "bmp", "bmp-grey", "bmp-alpha", "gif"),
    *("gif-frames", "gif-transparent", "png-2-8-False", "png-2-8-True", "png-3-4-alpha", "png-0-1-True"),
    "png-6-16-False",
]


# It has memory of its own beside what is allocated, and keeps what is freed.
not_under_a_sanitizer = pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer's memory")


@pytest.fixture(params=CODECS)
def codec(request, monkeypatch):
    use(monkeypatch, request.param)
    if images.library(JPEG) is None or images.library(PNG) is None:
        monkeypatch.undo()
        forget()
        pytest.skip(f"no libjpeg and libpng of the {request.param} here")
    yield request.param
    monkeypatch.undo()
    forget()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_cut_at_every_byte(codec, name, capfd):
    data = SAMPLES[name]
    # A GIF may end behind any of its frames, whose pixels are all there a little before.
    pixels = decode_image(data)
    lengths = []
    for length in range(len(data)):
        try:
            part = decode_image(data[:length])
        except qc.errors.DecodeError as error:
            assert any(word in str(error) for word in ("cut", "neither", "empty"))
        else:
            lengths.append(length)
            np.testing.assert_array_equal(part, pixels[: len(part)])
    assert bool(lengths) == name.startswith("gif")
    if name == "gif":
        assert min(lengths) > len(data) - 8
    assert capfd.readouterr() == ("", "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.watchdog(120)
def test_flipped_bytes(codec, name, capfd):
    data = SAMPLES[name]
    shape = decode_image(data).shape
    state = random.Random(name)
    outcomes = {"picture": 0, "error": 0}
    for _ in range(150 if name.startswith("gif") else 500):
        damaged = bytearray(data)
        for _ in range(state.choice([1, 1, 2, 8])):
            damaged[state.randrange(len(damaged))] = state.randrange(256)
        try:
            picture = decode_image(bytes(damaged), max_pixels=1 << 20)
        except (qc.errors.DecodeError, qc.errors.UnimplementedError):
            outcomes["error"] += 1
        else:
            outcomes["picture"] += 1
            assert picture.dtype == np.uint8
            assert picture.ndim == len(shape)
    # Checksums see nearly all of it in PNG.
    assert outcomes["error"] > 0
    assert outcomes["picture"] > 0 or name.startswith("png"), outcomes
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the input is empty"),
        (b"\xff\xd8", "neither"),
        (b"\x89PNG\r\n\x1a", "neither"),
        (b"some text, and a lot of it", "neither"),
        (bytes(1000), "neither"),
        (saved(colours(), "TIFF"), "neither"),
    ],
)
@pytest.mark.parametrize("op", ["decode_image", "decode_jpeg", "decode_png", "decode_bmp", "decode_gif"])
def test_no_picture(op, data, says):
    with pytest.raises(qc.errors.DecodeError, match=says):
        getattr(qc.ops, op)(data)


def test_what_the_library_says_is_told(codec):
    data = SAMPLES["jpeg"]
    at = data.index(b"\xff\xc0")
    # Of a kind that nobody implements, and without its tables.
    differential = data[:at] + b"\xff\xc5" + data[at + 2 :]
    with pytest.raises(qc.errors.DecodeError, match="SOF type 0x.."):
        decode_jpeg(differential)
    table = data.index(b"\xff\xdb")
    length = struct.unpack_from(">H", data, table + 2)[0]
    bare = data[:table] + data[table + 2 + length :]
    with pytest.raises(qc.errors.DecodeError, match="damaged: Quantization table 0x.. was not defined"):
        decode_jpeg(bare)


def test_pictures_leave_nothing_behind(codec):
    # A JPEG without tables must not be decoded with those of the one before, on whichever thread.
    data = SAMPLES["jpeg-grey"]
    table = data.index(b"\xff\xdb")
    bare = data[:table] + data[table + 2 + struct.unpack_from(">H", data, table + 2)[0] :]
    with pytest.raises(qc.errors.DecodeError, match="picture 1 of the batch.*not defined"):
        decode_jpeg([data, bare])


# ---- sizes ----


def gif_header(height, width):
    data = bytearray(SAMPLES["gif"])
    data[6:10] = struct.pack("<HH", width, height)
    return bytes(data)


def bmp_header(height, width):
    data = bytearray(SAMPLES["bmp"])
    data[18:26] = struct.pack("<ii", width, height)
    return bytes(data)


def png_header(height, width):
    data = SAMPLES["png-2-8-False"]
    return data[:8] + chunk(b"IHDR", struct.pack(">II", width, height) + data[24:29]) + data[33:]


HUGE = {
    "JPEG": jpeg_header(65500, 65500),
    "PNG": png_header(65500, 65500),
    "PNG-wide": png_header(900_000, 900_000),
    "GIF": gif_header(65535, 65535),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_headers(codec, name):
    with pytest.raises(qc.errors.DecodeError, match=r"pixels, more than max_pixels=178956970"):
        decode_image(HUGE[name])
    with pytest.raises(qc.errors.DecodeError, match="more than max_pixels"):
        decode_image([HUGE[name]] * 2)


@pytest.mark.parametrize("header", [jpeg_header, png_header, bmp_header])
@pytest.mark.parametrize(
    "sides", [(0, 5), (5, 0), (0, 0), (65501, 1), (2**31 - 1, 2**31 - 1), (2**31, 2**31), (1, 2**32 - 1)]
)
def test_sides_out_of_bounds(codec, header, sides):
    limit = 1 << 16 if header is jpeg_header else 1 << 32
    height, width = (side % limit for side in sides)
    if header is bmp_header:
        height, width = (side - (1 << 32) if side >= 1 << 31 else side for side in sides)
    data = header(height, width)
    with pytest.raises(qc.errors.DecodeError):
        decode_image(data)


@not_under_a_sanitizer
def test_nothing_is_allocated_above_the_limit(tmp_path):
    # In a process that may have little more than it has: whoever tries ends in another error.
    for name, data in HUGE.items():
        (tmp_path / name).write_bytes(data)
    code = textwrap.dedent("""
        import pathlib, resource, sys
        import queuecore as qc
        from PIL import GifImagePlugin
        from helpers.formats.pictures import samples
        for data in samples().values():
            qc.ops.decode_image(data)
        room = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
            try:
                qc.ops.decode_image(path.read_bytes())
            except qc.errors.DecodeError as error:
                print(path.name, "max_pixels" in str(error))
        try:
            qc.ops.decode_image((pathlib.Path(sys.argv[1]) / "JPEG").read_bytes(), max_pixels=1 << 33)
        except (qc.errors.ResourceExhaustedError, MemoryError):
            print("no memory")
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
        timeout=50,
        check=False,
    )
    assert done.stdout.split("\n")[:-1] == [*(f"{name} True" for name in sorted(HUGE)), "no memory"], done.stderr


def test_the_limit_is_exact(codec):
    for name in ("jpeg", "png-2-8-True", "bmp"):
        height, width, _ = decode_image(SAMPLES[name]).shape
        assert decode_image(SAMPLES[name], max_pixels=height * width).shape[:2] == (height, width)
        with pytest.raises(qc.errors.DecodeError, match=f"{width} x {height} pixels.*max_pixels={height * width - 1}"):
            decode_image(SAMPLES[name], max_pixels=height * width - 1)
    # That of the file, not of what becomes of it.
    with pytest.raises(qc.errors.DecodeError, match="max_pixels"):
        decode_jpeg(SAMPLES["jpeg"], ratio=8, max_pixels=13 * 17 - 1)
    frames = decode_gif(SAMPLES["gif-frames"])
    assert decode_gif(SAMPLES["gif-frames"], max_pixels=frames.size // 3).shape == frames.shape
    with pytest.raises(qc.errors.DecodeError, match="17 x 13 x 3 pixels"):
        decode_gif(SAMPLES["gif-frames"], max_pixels=frames.size // 3 - 1)
    assert decode_image(SAMPLES["gif-frames"], max_pixels=13 * 17, expand_animations=False).shape == (13, 17, 3)


def test_scans_without_end(codec):
    # Each costs as much as a whole picture, and takes ten bytes.
    data = saved(colours(64, 64), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    scan = data[last:-2]
    assert decode_jpeg(data[:-2] + scan * 10 + data[-2:]).shape == (64, 64, 3)
    with pytest.raises(qc.errors.DecodeError, match="too many scans"):
        decode_jpeg(data[:-2] + scan * 600 + data[-2:])


# ---- what is made of it ----


def test_recover_a_cut_picture(codec):
    data = saved(colours(64, 48), "JPEG", subsampling=0)
    pixels = decode_jpeg(data)
    for share in (0.6, 0.8, 0.95):
        cut = data[: int(len(data) * share)]
        with pytest.raises(qc.errors.DecodeError, match="cut"):
            decode_jpeg(cut)
        got = decode_jpeg(cut, try_recover_truncated=True, acceptable_fraction=0.5)
        assert got.shape == pixels.shape
        same = (got == pixels).all((1, 2))
        assert same[:8].all()
        assert not same.all()
    with pytest.raises(qc.errors.DecodeError):  # without a whole header there is nothing to begin with
        decode_jpeg(data[:100], try_recover_truncated=True)


def test_bytes_that_are_too_many(codec, capfd):
    for name in ("jpeg", "png-2-8-False", "bmp", "gif"):
        np.testing.assert_array_equal(decode_image(SAMPLES[name] + b"behind it\xff\xd9"), decode_image(SAMPLES[name]))
    data = SAMPLES["jpeg"]
    at = data.index(b"\xff\xda")
    np.testing.assert_array_equal(decode_jpeg(data[:at] + b"between" + data[at:]), decode_jpeg(data))
    assert capfd.readouterr() == ("", "")


def test_wrong_checksums(codec):
    data = SAMPLES["png-2-8-False"]
    at = data.index(b"IDAT") + 10
    with pytest.raises(qc.errors.DecodeError, match="PNG picture is damaged"):
        decode_png(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    # A chunk that nobody needs may be damaged.
    text = bytearray(chunk(b"tEXt", b"Title\0of it"))
    text[-1] ^= 1
    pixels = np.arange(24).reshape(2, 4, 3)
    np.testing.assert_array_equal(decode_png(png(pixels, 8, 2, chunks=bytes(text))), pixels)


@not_under_a_sanitizer
def test_what_is_compressed_has_bounds(codec):
    # Zeros, a thousand times as many as bytes, as a text that nobody reads.
    bomb = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(64 << 20), 9))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decode_png(png(np.zeros((2, 2, 3), int), 8, 2, chunks=bomb))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 << 10


def test_messages_name_the_operation(codec):
    for op, data in ((decode_jpeg, SAMPLES["jpeg"][:99]), (decode_png, b"x"), (decode_gif, SAMPLES["gif"][:30])):
        with pytest.raises(qc.errors.DecodeError) as caught:
            op(data)
        assert re.match(f"{op.__name__}: ", str(caught.value)), str(caught.value)


def test_pillows_own_limit_is_not_touched():
    from PIL import Image

    before = Image.MAX_IMAGE_PIXELS
    with pytest.raises(qc.errors.DecodeError):
        decode_gif(HUGE["GIF"])
    assert before == Image.MAX_IMAGE_PIXELS
