"""Decoding of pictures: by the system's libraries, by those of Pillow's wheel, and by Pillow itself."""

import io
import sys
import threading

import numpy as np
import pytest
from helpers.formats.example_messages import example, feature
from helpers.formats.pictures import (
    BMP,
    CODECS,
    GIF,
    JPEG,
    PNG,
    WEBP,
    colours,
    forget,
    gif,
    png_kinds,
    samples,
    saved,
    top_down,
    use,
)
from PIL import Image

import queuecore as qc
from queuecore._core.steps import images
from queuecore._elements.component import BYTES
from queuecore._ops.decode_images import PythonStage
from queuecore.ops import Component, decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png

SAMPLES = samples()
PNGS = png_kinds()
SIDES = [(1, 1), (7, 5), (8, 8), (16, 17), (33, 64), (100, 131)]


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


@pytest.fixture
def no_codec(monkeypatch):
    use(monkeypatch, "none")
    yield
    monkeypatch.undo()
    forget()


def pillow(data, mode=None):
    picture = Image.open(io.BytesIO(data))
    array = np.asarray(picture if mode is None else picture.convert(mode))
    return array[..., None] if array.ndim == 2 else array


# ---- JPEG ----


@pytest.mark.parametrize("options", [{"subsampling": kind} for kind in (0, 1, 2)] + [{"progressive": True}], ids=str)
@pytest.mark.parametrize("quality", [30, 90])
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_jpeg_is_pillows(codec, sides, quality, options):
    data = saved(colours(*sides), "JPEG", quality=quality, **options)
    got = decode_jpeg(data)
    assert got.dtype == np.uint8
    expected = pillow(data)
    assert got.shape == expected.shape
    # Of one library, but perhaps in two versions: not a level more.
    assert np.abs(got.astype(int) - expected).max() <= (0 if codec == "wheel" else 1)


def test_jpeg_channels(codec):
    data, grey = SAMPLES["jpeg"], SAMPLES["jpeg-grey"]
    assert decode_jpeg(data).shape == decode_jpeg(data, channels=3).shape == (13, 17, 3)
    assert decode_jpeg(grey).shape == (13, 17, 1)
    picture = Image.open(io.BytesIO(data))
    picture.draft("L", None)
    np.testing.assert_array_equal(decode_jpeg(data, channels=1)[..., 0], np.asarray(picture))
    np.testing.assert_array_equal(decode_jpeg(grey, channels=3), decode_jpeg(grey).repeat(3, 2))


def test_jpeg_of_four_inks(codec):
    inks = 255 - pillow(SAMPLES["jpeg-cmyk"]).astype(int)
    got = decode_jpeg(SAMPLES["jpeg-cmyk"])
    assert np.abs(got - inks[..., :3] * inks[..., 3:] // 255).max() <= 1
    with pytest.raises(qc.errors.InvalidArgumentError, match="1 channels"):
        decode_jpeg(SAMPLES["jpeg-cmyk"], channels=1)


def test_inks_that_are_no_complement(codec):
    # Pillow takes every file for one of Adobe's.
    stored = 255 - pillow(SAMPLES["jpeg-inks"]).astype(int)
    expected = (255 - stored[..., :3]) * (255 - stored[..., 3:]) // 255
    assert np.abs(decode_jpeg(SAMPLES["jpeg-inks"]) - expected).max() <= 1


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_jpeg_ratio(codec, sides, ratio):
    data = saved(colours(*sides), "JPEG")
    got = decode_jpeg(data, ratio=ratio)
    assert got.shape == (-(-sides[0] // ratio), -(-sides[1] // ratio), 3)
    if min(sides) >= 33:
        coarse = decode_jpeg(data)[: sides[0] // ratio * ratio, : sides[1] // ratio * ratio].astype(float)
        means = coarse.reshape(sides[0] // ratio, ratio, sides[1] // ratio, ratio, 3).mean((1, 3))
        assert np.abs(means - got[: means.shape[0], : means.shape[1]]).mean() < 6


def test_jpeg_ways(codec):
    data = saved(colours(64, 64), "JPEG", quality=50)
    usual = decode_jpeg(data).astype(int)
    np.testing.assert_array_equal(decode_jpeg(data, dct_method="INTEGER_ACCURATE"), usual)
    assert 0 < np.abs(decode_jpeg(data, dct_method="INTEGER_FAST") - usual).max() < 9
    assert np.abs(decode_jpeg(data, fancy_upscaling=False) - usual).max() > 0


def test_jpeg_is_not_turned(codec):
    np.testing.assert_array_equal(decode_jpeg(SAMPLES["jpeg-rotated"]), decode_jpeg(SAMPLES["jpeg"]))


# ---- PNG ----


def expected_png(name, channels, dtype):
    """What it must become, from the samples that were encoded."""
    _, pixels, depth = PNGS[name]
    if depth < 8:
        pixels, depth = pixels * (255 // ((1 << depth) - 1)), 8
    top = (1 << depth) - 1
    own = pixels.shape[2]
    alpha = pixels[..., -1:] if own in (2, 4) else np.full_like(pixels[..., :1], top)
    if name == "0-8-key":
        alpha = np.where(pixels == 2, 0, 255)
    body = pixels[..., : own - (own in (2, 4))]
    channels_out = channels or own
    if channels_out < 3 and body.shape[2] == 3:
        body = body @ [0.299, 0.587, 0.114]
        body = body[..., None]
    if channels_out > 2 and body.shape[2] == 1:
        body = body.repeat(3, 2)
    made = np.concatenate([body, alpha], -1) if channels_out in (2, 4) else body
    if dtype == np.uint8 and depth == 16:
        return np.floor(made / 256)
    return made * (257 if dtype == np.uint16 and depth == 8 else 1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize("name", PNGS)
def test_png_is_what_was_encoded(codec, name, channels, dtype):
    result = decode_png(PNGS[name][0], channels, dtype)
    expected = expected_png(name, channels, dtype)
    assert result.dtype == dtype
    assert result.shape == expected.shape
    # Only greys of colours are rounded, each library in its way.
    greyed = channels == 1 and name[0] in "236"
    assert np.abs(result - expected).max() <= (greyed * (257 if dtype == np.uint16 else 1.01))


# ---- BMP ----


@pytest.mark.parametrize("width", range(1, 8))
def test_bmp_is_pillows(width):
    picture = colours(5, width)
    for mode in ("L", "RGB"):
        data = saved(picture, "BMP", mode)
        np.testing.assert_array_equal(decode_bmp(data), pillow(data))
    np.testing.assert_array_equal(decode_bmp(top_down(data)), pillow(data))


def test_bmp_channels():
    grey, colour, alpha = (SAMPLES[name] for name in ("bmp-grey", "bmp", "bmp-alpha"))
    np.testing.assert_array_equal(decode_bmp(grey, channels=3), decode_bmp(grey).repeat(3, 2))
    np.testing.assert_array_equal(decode_bmp(colour, channels=4)[..., :3], decode_bmp(colour))
    assert decode_bmp(colour, channels=4)[..., 3].min() == 255
    picture = colours()
    np.testing.assert_array_equal(decode_bmp(alpha), np.concatenate([picture, picture[..., :1]], -1))
    np.testing.assert_array_equal(decode_bmp(alpha, channels=3), picture)
    with pytest.raises(qc.errors.InvalidArgumentError, match="1 channels"):
        decode_bmp(colour, channels=1)


def test_bmp_takes_indices_for_greys():
    picture = Image.fromarray(colours()).quantize(16)
    np.testing.assert_array_equal(decode_bmp(saved(picture, "BMP"))[..., 0], np.asarray(picture))


def test_bmp_that_is_not_plain():
    with pytest.raises(qc.errors.DecodeError, match="1 bits"):
        decode_bmp(saved(colours()[..., 0] > 99, "BMP"))
    data = bytearray(SAMPLES["bmp-grey"])
    data[30] = 1
    with pytest.raises(qc.errors.DecodeError, match="compression 1"):
        decode_bmp(bytes(data))
    masks = bytearray(SAMPLES["bmp-alpha"])
    expected = decode_bmp(bytes(masks))
    offset = int.from_bytes(masks[10:14], "little")
    masks[30], masks[10:14] = 3, (66).to_bytes(4, "little")
    usual = bytes(masks[:54]) + bytes.fromhex("0000ff0000ff0000ff000000") + bytes(masks[offset:])
    np.testing.assert_array_equal(decode_bmp(usual), expected)
    with pytest.raises(qc.errors.DecodeError, match="compression 3"):
        decode_bmp(usual.replace(bytes.fromhex("0000ff0000ff0000ff000000"), bytes.fromhex("ff00000000ff00000000ff00")))


def with_offset(data, offset):
    return data[:10] + offset.to_bytes(4, "little") + data[14:]


def test_bmp_offset_inside_the_palette():
    # As TensorFlow: pixels end with the file, or it is an error. Pillow writes 256 colours for greys, and 16 here.
    greys = (np.arange(16, dtype=np.uint8) * 16).reshape(4, 4)
    few = Image.fromarray(colours()).quantize(16)
    for picture in (Image.fromarray(greys), few):
        data = saved(picture, "BMP")
        own = int.from_bytes(data[10:14], "little")
        np.testing.assert_array_equal(decode_bmp(data)[..., 0], np.asarray(picture))
        for offset in (54, 58, own - 1):
            with pytest.raises(qc.errors.DecodeError, match=f"begin at byte {offset}"):
                decode_bmp(with_offset(data, offset))
        # A palette that claims more colours than it has.
        short = with_offset(data[:58] + data[own:], 58)
        np.testing.assert_array_equal(decode_bmp(short)[..., 0], np.asarray(picture))
        np.testing.assert_array_equal(decode_bmp(data + b"behind")[..., 0], np.asarray(picture))


def test_bmp_offset_inside_the_headers():
    # A header of version 5 has 124 bytes behind the 14 of the file's own; masks follow one of 40 bytes.
    picture = colours(5, 4)
    plain = saved(picture, "BMP")
    longer = plain[:14] + (124).to_bytes(4, "little") + plain[18:54] + bytes(84) + plain[54:]
    np.testing.assert_array_equal(decode_bmp(with_offset(longer, 138)), picture)
    for offset in (0, 14, 54, 137):
        for data in (longer, longer[: len(plain)]):
            with pytest.raises(qc.errors.DecodeError, match=f"begin at byte {offset}"):
                decode_bmp(with_offset(data, offset))
    with pytest.raises(qc.errors.DecodeError, match="begin at byte -1"):
        decode_bmp(with_offset(plain, (1 << 32) - 1))
    masks = bytearray(SAMPLES["bmp-alpha"][:54] + bytes.fromhex("0000ff0000ff0000ff000000") + bytes(13 * 17 * 4))
    masks[14:18], masks[30] = (40).to_bytes(4, "little"), 3
    assert decode_bmp(with_offset(bytes(masks), 66)).shape == (13, 17, 4)
    with pytest.raises(qc.errors.DecodeError, match="begin at byte 54"):
        decode_bmp(with_offset(bytes(masks), 54))


# ---- GIF ----


STATE = np.random.default_rng(5)
PALETTE = STATE.integers(1, 256, (8, 3), np.uint8)
SMALL, LARGE = STATE.integers(0, 8, (3, 4)), STATE.integers(0, 8, (5, 6))


def test_gif_as_its_frames_lie():
    # By the format, and TensorFlow's rules: what no frame draws is black, disposals are ignored.
    frames = [(2, 1, SMALL, None, 2), (0, 0, LARGE, 3, 2), (1, 1, SMALL, None, 3), (6, 5, SMALL, 0, 0)]
    expected = np.zeros((4, 8, 10, 3), np.uint8)
    expected[0, 1:4, 2:6] = PALETTE[SMALL]
    expected[1] = expected[0]
    expected[1, :5, :6][LARGE != 3] = PALETTE[LARGE][LARGE != 3]
    expected[2] = expected[1]
    expected[2, 1:4, 1:5] = PALETTE[SMALL]
    expected[3] = expected[2]
    expected[3, 5:8, 6:10][SMALL != 0] = PALETTE[SMALL][SMALL != 0]
    data = gif((8, 10), PALETTE, frames) + b";"
    np.testing.assert_array_equal(decode_gif(data), expected)
    np.testing.assert_array_equal(decode_image(data, expand_animations=False), expected[0])


def test_gif_frame_beyond_the_screen():
    got = decode_gif(gif((2, 2), PALETTE, [(1, 1, SMALL, None, 0), (0, 0, LARGE, None, 0)]) + b";")
    assert got.shape == (2, 5, 6, 3)
    np.testing.assert_array_equal(got[0, 1:4, 1:5], PALETTE[SMALL])
    assert not got[0, 0].any()
    np.testing.assert_array_equal(got[1], PALETTE[LARGE])


@pytest.mark.parametrize(
    "end", [b"", b"\0;", bytes(40), b";behind", b"\xffxyz, and !", b"\0\0abc", b"!\xf9\4\0", b"!\xfe\3abc\0;"], ids=repr
)
def test_gif_ends_in_any_way(end):
    data = gif((5, 6), PALETTE, [(0, 0, LARGE, None, 0), (1, 1, SMALL, None, 0)])
    np.testing.assert_array_equal(decode_gif(data + end), decode_gif(data + b";"))
    first = gif((5, 6), PALETTE, [(0, 0, LARGE, None, 0)])
    np.testing.assert_array_equal(decode_gif(first + bytes(3) + data[len(first) :] + end), decode_gif(data))
    np.testing.assert_array_equal(decode_jpeg(first + end)[..., 0], PALETTE[LARGE][..., 0])


def test_gif_without_what_it_needs():
    data = gif((5, 6), PALETTE, [(0, 0, LARGE, None, 0)]) + b";"
    with pytest.raises(qc.errors.DecodeError, match="no palette"):
        decode_gif(data[:10] + b"\0" + data[11:13] + data[37:])
    with pytest.raises(qc.errors.DecodeError, match="outside its palette"):
        decode_gif(data[:10] + b"\x80" + data[11:19] + data[37:])
    with pytest.raises(qc.errors.DecodeError, match="unknown block at byte 37"):
        decode_gif(data[:37] + b"x" + data[37:])
    for rest in (b"", b";", b"!\xfe\3abc\0;"):
        with pytest.raises(qc.errors.DecodeError, match="cut|no frame"):
            decode_gif(data[:37] + rest)


def test_gif_frames():
    flat = [Image.fromarray(np.full((6, 7, 3), level, np.uint8)) for level in (0, 90, 200)]
    data = saved(flat[0], "GIF", save_all=True, append_images=flat[1:])
    got = decode_gif(data)
    assert got.shape == (3, 6, 7, 3)
    assert got[:, 0, 0, 0].tolist() == got[:, 5, 6, 2].tolist() == [0, 90, 200]
    np.testing.assert_array_equal(decode_image(data), got)
    np.testing.assert_array_equal(decode_image(data, expand_animations=False), got[0])
    np.testing.assert_array_equal(decode_image(data, dtype=np.uint16), got * np.uint16(256))
    assert decode_image(data, dtype=np.float32).max() == np.float32(200) * np.float32(1 / 255)


def test_gif_part_lies_over_the_rest():
    got = decode_gif(SAMPLES["gif-part"])
    changed = (got[0] != got[1]).any(-1)
    assert changed.any()
    assert (got[1, 3:6, 5:9] == 255).all()
    changed[3:6, 5:9] = False
    assert not changed.any()


def test_gif_nothing_is_black():
    drawn = colours()[..., 0] > 99
    got = decode_gif(SAMPLES["gif-transparent"])
    assert (got[0][~drawn] == 0).all()
    assert got[0][drawn].any()


def test_gif_by_other_names():
    one = decode_gif(SAMPLES["gif"])
    for op in (decode_jpeg, decode_png):
        np.testing.assert_array_equal(op(SAMPLES["gif"]), one[0])
        with pytest.raises(qc.errors.DecodeError, match="animated"):
            op(SAMPLES["gif-frames"])
    assert decode_gif(SAMPLES["jpeg-grey"]).shape == (1, 13, 17, 3)
    assert decode_gif([SAMPLES["jpeg"], SAMPLES["png-0-1-False"]][:1] * 2).shape == (2, 1, 13, 17, 3)
    with pytest.raises(qc.errors.InvalidArgumentError, match="GIF picture can't be decoded with 4 channels"):
        decode_image(SAMPLES["gif"], channels=4)


# ---- whichever ----


@pytest.mark.parametrize("name", ["jpeg", "jpeg-grey", "bmp", "png-2-8-False", "png-6-16-False", "png-0-2-False"])
def test_other_numbers(codec, name):
    data = SAMPLES[name]
    plain = decode_image(data)
    if name.startswith("png"):
        wide = decode_png(data, dtype=np.uint16)
        np.testing.assert_array_equal(decode_image(data, dtype=np.uint16), wide)
        expected = wide.astype("f4") * np.float32(1 / 65535)
    else:
        np.testing.assert_array_equal(decode_image(data, dtype=np.uint16), plain * np.uint16(256))
        expected = plain.astype("f4") * np.float32(1 / 255)
    np.testing.assert_array_equal(decode_image(data, dtype=np.float32), expected)


def test_formats_are_told_by_their_content(codec):
    np.testing.assert_array_equal(decode_jpeg(SAMPLES["png-2-8-False"]), decode_png(SAMPLES["png-2-8-False"]))
    np.testing.assert_array_equal(decode_png(SAMPLES["jpeg"]), decode_jpeg(SAMPLES["jpeg"]))
    for op, name, format_name in [
        (decode_jpeg, "bmp", "BMP"),
        (decode_bmp, "jpeg", "JPEG"),
        (decode_bmp, "gif", "GIF"),
        (decode_gif, "bmp", "BMP"),
    ]:
        with pytest.raises(qc.errors.DecodeError, match=f"is {format_name}, which decode_image takes"):
            op(SAMPLES[name])


def test_channels_that_a_format_has_not(codec):
    with pytest.raises(qc.errors.InvalidArgumentError, match="JPEG picture can't be decoded with 4 channels") as caught:
        decode_png(SAMPLES["jpeg"], channels=4)
    assert not isinstance(caught.value, qc.errors.DecodeError)
    with pytest.raises(qc.errors.InvalidArgumentError, match="BMP picture can't be decoded with 1 channels"):
        decode_image(SAMPLES["bmp-grey"], channels=1)


@pytest.mark.parametrize(
    ("op", "options"),
    [
        (decode_jpeg, {"channels": 2}),
        (decode_jpeg, {"channels": -1}),
        (decode_jpeg, {"ratio": 3}),
        (decode_jpeg, {"ratio": 0}),
        (decode_jpeg, {"dct_method": "FLOAT"}),
        (decode_jpeg, {"acceptable_fraction": 1.5}),
        (decode_jpeg, {"max_pixels": 0}),
        (decode_image, {"max_pixels": 1 << 40}),
        (decode_image, {"channels": 1.0}),
        (decode_png, {"dtype": np.float32}),
        (decode_png, {"dtype": np.int16}),
        (decode_image, {"dtype": np.float64}),
        (decode_image, {"dtype": "no dtype"}),
    ],
)
def test_arguments(op, options):
    for contents in (None, SAMPLES["jpeg"]):
        with pytest.raises(qc.errors.InvalidArgumentError):
            op(contents, **options)


@pytest.mark.parametrize("value", [7, [7], np.arange(3), 1.5])
def test_no_bytes(value):
    with pytest.raises(qc.errors.DtypeError):
        decode_image(value)


# ---- batches ----


def test_batches(codec):
    kinds = ["JPEG", "PNG", "JPEG", "PNG", "BMP", "JPEG"]
    files = [saved(colours(9, 8, seed), kind) for seed, kind in enumerate(kinds)]
    alone = [decode_image(data) for data in files]
    np.testing.assert_array_equal(decode_image(files), np.stack(alone))
    array = np.empty((2, 3), object)
    array.reshape(-1)[:] = files
    np.testing.assert_array_equal(decode_image(array), np.stack(alone).reshape(2, 3, 9, 8, 3))
    np.testing.assert_array_equal(decode_image(qc.Ragged.from_list(files)), np.stack(alone))
    wide = decode_image(files, dtype=np.float32)
    np.testing.assert_array_equal(wide, np.stack([decode_image(data, dtype=np.float32) for data in files]))
    assert decode_image([], channels=3).shape == (0, 0, 0, 3)


def test_batches_must_be_equal_in_shape(codec):
    files = [saved(colours(9, 8), "JPEG")] * 2 + [saved(colours(8, 9), "JPEG")]
    with pytest.raises(qc.errors.InvalidArgumentError, match="picture 2 of the batch is of 9 x 8.*equal in shape"):
        decode_jpeg(files)
    with pytest.raises(qc.errors.InvalidArgumentError, match="equal in shape"):
        decode_jpeg([files[0], saved(colours(9, 8)[..., 0], "JPEG")])
    assert decode_jpeg([files[0], saved(colours(9, 8)[..., 0], "JPEG")], channels=1).shape == (2, 9, 8, 1)
    with pytest.raises(qc.errors.InvalidArgumentError, match="equal in shape"):
        decode_gif([SAMPLES["gif"], SAMPLES["gif-frames"]])
    with pytest.raises(qc.errors.DecodeError, match="picture 1 of the batch: the JPEG picture is cut"):
        decode_jpeg([files[0], files[0][:-9]])
    with pytest.raises(qc.errors.DecodeError, match="picture 0 of the batch: the input is neither"):
        decode_jpeg([b"text", files[0]])


def test_gifs_among_a_batch():
    still = saved(colours(9, 8), "GIF")
    got = decode_image([still, saved(colours(9, 8), "PNG")], expand_animations=False)
    assert got.shape == (2, 9, 8, 3)
    np.testing.assert_array_equal(got[1], colours(9, 8))


# ---- stages ----


def test_stages_say_what_they_make(codec):
    given = [Component(BYTES, ())]
    assert decode_jpeg().bind(given).outputs == (Component(np.dtype(np.uint8), (None, None, None)),)
    assert decode_png(channels=3, dtype="u2").bind(given).outputs == (Component(np.dtype("u2"), (None, None, 3)),)
    assert decode_image().bind([Component(BYTES, (None,))]).outputs[0].shape == (None,) * 4
    assert decode_bmp().bind([Component(BYTES, None)]).outputs[0].shape is None
    assert decode_jpeg().bind([Component(BYTES, (), name="image")]).outputs[0].name == "image"
    assert repr(decode_png(channels=3, dtype="u2")) == "decode_png(channels=3, uint16)"
    assert repr(decode_jpeg(ratio=2)) == "decode_jpeg(ratio=2)"
    with pytest.raises(qc.errors.InvalidArgumentError, match="one component of bytes"):
        decode_jpeg().bind([Component(np.dtype("u1"), (3,))])
    with pytest.raises(qc.errors.InvalidArgumentError, match="30 dimensions"):
        decode_jpeg().bind([Component(BYTES, (1,) * 30)])


def test_a_stage_takes_what_comes(codec):
    step = decode_image().bind([Component(BYTES, ())])
    for name in ("jpeg", "bmp", "png-4-8-True", "jpeg-cmyk"):
        np.testing.assert_array_equal(step(SAMPLES[name])[0], decode_image(SAMPLES[name]))
    with pytest.raises(qc.errors.UnimplementedError, match="GIF is decoded in Python only"):
        step(SAMPLES["gif"])
    # The place that it was given is too small, or too large.
    outputs, how = (Component(np.dtype("u1"), (2, 2, 3)),), (1, 1, 0, 0, False)
    step = images.PictureStep((Component(BYTES, ()),), outputs, "x", 1 << JPEG, 0, 0, how, 1 << 20)
    np.testing.assert_array_equal(step(SAMPLES["jpeg"])[0], decode_jpeg(SAMPLES["jpeg"]))


def test_stage_program(codec, tmp_path):
    pictures = {}
    for index in range(24):
        array = colours(20 + index % 5, 30, index)
        path = tmp_path / f"{index:02}.jpg"
        path.write_bytes(saved(array, "JPEG"))
        pictures[index] = decode_jpeg(path.read_bytes())
    shrink = qc.ops.resize(size=(8, 8), method="nearest")
    queue = qc.FIFOQueue(5, [np.uint8], [(8, 8, 3)])
    names = qc.FIFOQueue(100, [str], [()])
    for path in sorted(tmp_path.iterdir()):
        names.enqueue(str(path))
    names.close()
    ops = [qc.StageProgram(qc.WholeFileReader(), names, decode_jpeg(channels=3), shrink) for _ in range(3)]
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, ops).create_threads(coord, start=True)
    got = {row.tobytes() for row in queue}
    coord.join(threads)
    assert got == {qc.ops.resize(one, (8, 8), "nearest").tobytes() for one in pictures.values()}


def test_pictures_in_examples(codec, tmp_path):
    pictures = [colours(12, 10, seed) for seed in range(9)]
    with qc.writers.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for index, picture in enumerate(pictures):
            image = feature(saved(picture, "PNG" if index % 2 else "BMP"))
            writer.write(example(image=image, label=feature(index)))
    features = {"image": qc.ops.FixedLenFeature((), bytes), "label": qc.ops.FixedLenFeature((), np.int64)}
    program = qc.StageProgram(
        qc.TFRecordReader(),
        [tmp_path / "a.tfrecord"],
        qc.ops.parse_single_example(features=features),
        qc.ops.on("image", decode_image(channels=3)),
    )
    queue = qc.FIFOQueue(20, [np.uint8, np.int64], [(12, 10, 3), ()], names=["image", "label"])
    coord = qc.Coordinator()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    got = sorted(queue, key=lambda one: one["label"])
    coord.join(threads)
    for index, one in enumerate(got):
        np.testing.assert_array_equal(one["image"], pictures[index])
    assert len(got) == 9


def test_an_error_of_a_program_names_the_file(codec, tmp_path):
    path = tmp_path / "cut.jpg"
    path.write_bytes(SAMPLES["jpeg"][:300])
    queue = qc.FIFOQueue(5, [np.uint8])
    coord = qc.Coordinator()
    program = qc.StageProgram(qc.WholeFileReader(), [path], decode_jpeg())
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    with pytest.raises(qc.errors.DecodeError, match="cut") as caught:
        coord.join(threads)
    assert caught.value.path == str(path)


def test_gif_is_a_python_stage():
    stage = decode_gif()
    assert isinstance(stage, PythonStage)
    assert repr(stage) == "decode_gif() (Python: GIF is decoded by Pillow)"
    np.testing.assert_array_equal(stage.python(SAMPLES["gif"]), decode_gif(SAMPLES["gif"]))


def test_a_program_decodes_gif_in_python(tmp_path):
    path = tmp_path / "a.gif"
    path.write_bytes(SAMPLES["gif"])
    (tmp_path / "b.gif").write_bytes(SAMPLES["gif"][:40])
    queue = qc.FIFOQueue(5, [np.uint8])
    coord = qc.Coordinator()
    program = qc.StageProgram(qc.WholeFileReader(), [path, tmp_path / "b.gif"], decode_gif())
    assert "Pillow" in program.explain()
    threads = qc.QueueRunner(queue, [program]).create_threads(coord, start=True)
    np.testing.assert_array_equal(queue.dequeue(), decode_gif(SAMPLES["gif"]))
    with pytest.raises(qc.errors.DecodeError) as caught:
        coord.join(threads)
    assert caught.value.path == str(tmp_path / "b.gif")


# ---- without libraries ----


def test_pillow_where_there_is_no_library(monkeypatch):
    outcomes = {}
    for which in ("system", "wheel", "none"):
        with monkeypatch.context() as patch:
            use(patch, which)
            if which != "none" and None in (images.library(JPEG), images.library(PNG)):
                continue
            for name, data in SAMPLES.items():
                for options in ({}, {"channels": 3}, {"channels": 1}, {"dtype": np.uint16}, {"dtype": np.float32}):
                    try:
                        made = decode_image(data, **options)
                    except (qc.errors.InvalidArgumentError, qc.errors.UnimplementedError) as error:
                        made = error
                    outcomes.setdefault((name, str(options)), []).append(made)
        forget()
    compared = 0
    for label, (*natives, fallback) in outcomes.items():
        for native in natives:
            if isinstance(fallback, qc.errors.UnimplementedError):
                continue
            if isinstance(native, Exception) or isinstance(fallback, Exception):
                assert isinstance(native, Exception) and isinstance(fallback, Exception), (label, native, fallback)
                continue
            compared += 1
            assert (native.dtype, native.shape) == (fallback.dtype, fallback.shape), label
            one = {"uint8": 1, "uint16": 257, "float32": 1 / 255}[str(native.dtype)]
            np.testing.assert_allclose(fallback.astype("f8"), native.astype("f8"), 0, 1.01 * one, err_msg=str(label))
    assert compared > 100 or not any(natives for *natives, _ in outcomes.values())


def test_stages_without_a_library(no_codec):
    stage = decode_jpeg()
    assert isinstance(stage, PythonStage)
    assert "JPEG is decoded by Pillow: no library for JPEG is found" in repr(stage)
    np.testing.assert_array_equal(stage.python(SAMPLES["jpeg"]), pillow(SAMPLES["jpeg"]))
    (made,) = stage.bind([Component(BYTES, ())]).outputs
    assert (made.dtype, made.shape) == (np.dtype("u1"), (None, None, None))
    assert isinstance(decode_image(), PythonStage)
    assert not isinstance(decode_bmp(), PythonStage)
    with pytest.raises(qc.errors.UnimplementedError, match="libjpeg"):
        decode_jpeg(SAMPLES["jpeg"], ratio=2)
    with pytest.raises(qc.errors.DecodeError, match="max_pixels=99"):
        decode_jpeg(SAMPLES["jpeg"], max_pixels=99)
    with pytest.raises(qc.errors.DecodeError, match="damaged"):
        decode_jpeg(SAMPLES["jpeg"][:300])
    with pytest.raises(qc.errors.DecodeError):
        decode_png(SAMPLES["png-2-8-False"][:-9])
    # One of the two is there: the other comes as an error of the stage.
    images._found[JPEG] = "libjpeg"
    with pytest.raises(qc.errors.UnimplementedError, match="no library for PNG"):
        decode_jpeg().bind([Component(BYTES, ())])(SAMPLES["png-2-8-False"])


def test_neither_library_nor_pillow(no_codec, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    for op, name in ((decode_jpeg, "jpeg"), (decode_png, "png-2-8-False"), (decode_gif, "gif")):
        with pytest.raises(qc.errors.UnimplementedError, match="pip install pillow"):
            op(SAMPLES[name])
    assert decode_bmp(SAMPLES["bmp"]).shape == (13, 17, 3)


def test_a_library_that_is_none(monkeypatch):
    images._found.clear()
    # They open, but have nothing of it, or aren't there.
    monkeypatch.setattr(images, "_candidates", lambda kind: ["libm.so.6", "/nowhere/libjpeg.so"])
    try:
        assert images.library(JPEG) is None
        assert images.library(PNG) is None
    finally:
        monkeypatch.undo()
        forget()


# ---- threads ----


def test_threads(codec):
    names = [name for name in SAMPLES if not name.startswith("gif")]
    alone = {name: decode_image(SAMPLES[name]) for name in names}
    cut = SAMPLES["jpeg"][:400], SAMPLES["png-2-8-False"][:200]
    wrong = []
    start = threading.Barrier(6)

    def work(first):
        start.wait()
        for turn in range(30):
            for step in range(len(names)):
                name = names[(first * 7 + turn + step) % len(names)]
                if not np.array_equal(decode_image(SAMPLES[name]), alone[name]):
                    wrong.append(name)
            for data in cut:
                try:
                    decode_image(data)
                    wrong.append("cut")
                except qc.errors.DecodeError:
                    pass

    workers = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_kinds_are_those_of_the_core():
    assert {JPEG, PNG, GIF, BMP, WEBP} == set(images._NAMES)
