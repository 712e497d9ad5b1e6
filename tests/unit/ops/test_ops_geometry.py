"""Sizes, crops and mirror images: chains against single steps, Pillow's pixels, torchvision's rules; parts of JPEGs."""

import itertools
import math
import re

import numpy as np
import pytest
from helpers.formats.pictures import CODECS, colours, forget, saved, use
from hypothesis import given, settings, strategies as st
from PIL import Image

import queuecore as qc
from queuecore.errors import DecodeError, DtypeError, InvalidArgumentError
from queuecore.ops import Component, compose, decode_and_crop_jpeg, decode_jpeg

BYTES = np.dtype("S")


@pytest.fixture(params=CODECS)
def codec(request, monkeypatch):
    use(monkeypatch, request.param)
    yield request.param
    monkeypatch.undo()
    forget()


def jpegs():
    picture = colours(83, 101)
    yield "grey", saved(picture[..., 0], "JPEG", quality=90)
    yield "inks", saved(picture, "JPEG", "CMYK", quality=90)
    for subsampling, options in itertools.product((0, 1, 2), ({}, {"progressive": True}, {"restart_marker_blocks": 2})):
        data = saved(picture, "JPEG", quality=90, subsampling=subsampling, **options)
        yield f"{subsampling} {options}", data
        for count in (1, 3) if "progressive" in options else ():
            yield f"{subsampling} {count} scans", first_scans(data, count)


def first_scans(data, count):
    """A progressive picture of which later scans are missing: then a pixel depends on blocks further away."""
    starts = [found.start() for found in re.finditer(rb"\xff\xda", data)]
    end = starts[count - 1]
    end = next(found.start() for found in re.finditer(rb"\xff[\xc0-\xcf\xda-\xfe]", data) if found.start() > end + 2)
    return data[:end] + b"\xff\xd9"


JPEGS = dict(jpegs())


def run(stage, value, **options):
    given_component = (
        Component(BYTES, (), len(value)) if isinstance(value, bytes) else Component(value.dtype, value.shape)
    )
    step = stage.bind([given_component])
    return step(value, **options)[0]


# Parts of JPEGs


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("ratio", [1, 2, 8])
def test_a_part_of_a_jpeg_has_the_pixels_of_the_whole(codec, name, ratio):
    data = JPEGS[name]
    for fancy in (True, False):
        picture = decode_jpeg(data, ratio=ratio, fancy_upscaling=fancy)
        height, width = picture.shape[:2]
        rng = np.random.default_rng(ratio)
        windows = [(0, 0, height, width), (height - 1, width - 1, 1, 1), (0, 0, 1, 1)]
        for _ in range(20):
            rows, columns = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
            top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
            windows.append((top, left, rows, columns))
        for top, left, rows, columns in windows:
            window = (top, left, rows, columns)
            part = decode_and_crop_jpeg(data, window, ratio=ratio, fancy_upscaling=fancy)
            expected = picture[top : top + rows, left : left + columns]
            np.testing.assert_array_equal(part, expected, f"{window} fancy={fancy}", strict=True)


def test_parts_of_a_batch_and_of_other_formats(codec):
    picture = colours(20, 30)
    files = [saved(picture, "JPEG"), saved(picture[::-1], "JPEG")]
    np.testing.assert_array_equal(
        decode_and_crop_jpeg(files, (3, 4, 5, 6)), np.stack([decode_jpeg(one)[3:8, 4:10] for one in files])
    )
    png = saved(picture, "PNG")
    np.testing.assert_array_equal(decode_and_crop_jpeg(png, (3, 4, 5, 6)), picture[3:8, 4:10])
    assert decode_and_crop_jpeg(files[0], (0, 0, 2, 2), channels=1).shape == (2, 2, 1)


def test_parts_without_a_library(monkeypatch):
    use(monkeypatch, "none")
    data = saved(colours(20, 30), "JPEG")
    np.testing.assert_array_equal(decode_and_crop_jpeg(data, (3, 4, 5, 6)), decode_jpeg(data)[3:8, 4:10])
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=str)
def test_a_cut_jpeg_is_told_whatever_part_is_wanted(codec, options):
    data = saved(colours(64, 48), "JPEG", **options)
    for window in ((0, 0, 8, 8), (40, 0, 8, 8)):
        for end in range(len(data)):
            with pytest.raises(DecodeError, match=r"cut|empty|neither|damaged|GIF"):
                decode_and_crop_jpeg(data[:end], window)
    assert decode_and_crop_jpeg(data + b"\0" * 1000, (0, 0, 8, 8)).shape == (8, 8, 3)
    cut = decode_and_crop_jpeg(data[:-200], (0, 0, 8, 8), try_recover_truncated=True)
    np.testing.assert_array_equal(cut, decode_jpeg(data[:-200], try_recover_truncated=True)[:8, :8])


@settings(deadline=None, max_examples=150)
@given(place=st.integers(2, 2000), bits=st.integers(1, 255), window=st.tuples(*[st.integers(0, 40)] * 2))
def test_a_damaged_jpeg_gives_pixels_or_an_error(place, bits, window):
    data = bytearray(JPEGS["2 {}"])
    data[place % len(data)] ^= bits
    try:
        part = decode_and_crop_jpeg(bytes(data), (*window, 40, 40))
    except (DecodeError, InvalidArgumentError):
        return
    assert part.shape == (40, 40, 3)


def test_bad_windows():
    data = JPEGS["grey"]
    for window, text in [
        ((0, 0, 84, 1), r"83 x 101 pixels has no part of 84 x 1 pixels at row 0 and column 0"),
        ((80, 100, 3, 2), r"no part of 3 x 2 pixels at row 80 and column 100"),
        ((2**62, 0, 2**62, 1), "has no part"),
        ((0, 0, 0, 1), "with pixels"),
        ((0, 0, 1), "row, column, height and width"),
        ((-1, 0, 1, 1), "below 0"),
        (None, "missing"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            decode_and_crop_jpeg(data, window)


# Chains: one step, and the same operations one by one


def links(draw):
    """Stages in an order that a chain can have, and whether the first one decodes."""
    small = st.integers(1, 12)
    seeds = st.integers(1 - 2**63, 2**63 - 1)
    filters = st.sampled_from(["nearest", "bilinear", "bicubic", "area", "lanczos3", "gaussian", "mitchellcubic"])
    crop = st.one_of(
        st.tuples(small, small).map(lambda size: qc.ops.center_crop(size=size)),
        st.tuples(small, small, seeds).map(lambda one: qc.ops.random_crop(size=(*one[:2], 3), seed=one[2])),
    )
    resized = st.tuples(small, small, filters, st.booleans()).map(
        lambda one: qc.ops.resize(size=one[:2], method=one[2], antialias=one[3], dct_scale=False)
    )
    shorter = st.integers(12, 30).map(lambda side: qc.ops.resize(size=side))
    padded = st.tuples(small, small, filters).map(lambda one: qc.ops.resize_with_pad(size=one[:2], method=one[2]))
    random = st.tuples(small, small, st.booleans(), seeds).map(
        lambda one: qc.ops.random_resized_crop(size=one[:2], antialias=one[2], seed=one[3], dct_scale=False)
    )
    stages = []
    first = draw(st.sampled_from(["none", "crop", "resize", "shorter", "pad", "random", "crop resize"]))
    if first.startswith("crop"):
        stages.append(draw(crop))
    if first.endswith("resize"):
        stages.append(draw(resized))
    if first == "shorter":
        stages += [draw(shorter), draw(st.tuples(small, small).map(lambda size: qc.ops.center_crop(size=size)))]
    if first in ("pad", "random"):
        stages.append(draw(padded if first == "pad" else random))
    for flip in (
        st.just(qc.ops.flip_left_right()),
        seeds.map(lambda seed: qc.ops.random_flip_left_right(seed=seed)),
    ):
        if draw(st.booleans()):
            stages.append(draw(flip))
            break
    if draw(st.booleans()):
        stages.append(draw(seeds.map(lambda seed: qc.ops.random_flip_up_down(seed=seed))))
    if draw(st.booleans()):
        planar, dtype = draw(st.booleans()), draw(st.sampled_from([np.float32, np.float16]))
        stages.append(qc.ops.normalize(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4), channels_first=planar, dtype=dtype))
    return stages


@settings(deadline=None, max_examples=300)
@given(data=st.data(), element=st.integers(0, 2**40), epoch=st.integers(0, 2**31 - 1))
def test_a_chain_gives_what_its_links_give(data, element, epoch):
    file = data.draw(st.sampled_from(list(JPEGS.values())))
    stages = [decode_jpeg(channels=3), *links(data.draw)]
    place = {"element": element, "epoch": epoch}
    expected = file
    for stage in stages:
        expected = run(stage, expected, **place)
    joined = compose(*stages)
    np.testing.assert_array_equal(run(joined, file, **place), expected, strict=True)
    # Of pixels, too; in batches, and of other dtypes.
    pixels = run(stages[0], file)
    batch = np.stack([pixels, pixels[::-1]])
    for array in (batch, batch.astype(np.float32), batch.astype(np.int16)):
        if len(stages) > 1:
            singles = [
                run(compose(*stages[1:]), one, element=element + index, epoch=epoch) for index, one in enumerate(array)
            ]
            np.testing.assert_array_equal(run(compose(*stages[1:]), array, **place), np.stack(singles), strict=True)


def test_what_a_step_can_do_is_one_step():
    vision = [
        decode_jpeg(channels=3),
        qc.ops.random_resized_crop(size=224, seed=1),
        qc.ops.random_flip_left_right(seed=2),
        qc.ops.normalize(mean=0.5, std=0.25, channels_first=True),
    ]
    step = compose(*vision).bind([Component(BYTES, ())])
    assert type(step).__name__ == "PicturesStep"
    assert step.outputs[0].shape == (3, 224, 224)
    assert [step.label.find(repr(stage)) >= 0 for stage in vision] == [True] * 4
    # A crop of unknown channels may cut channels too; what follows normalising is another step.
    for stages in (
        [decode_jpeg(), qc.ops.random_crop(size=(2, 2, 1), seed=1)],
        [*vision[:2], vision[3], vision[2]],
        [qc.ops.flip_left_right(), qc.ops.flip_left_right()],
    ):
        given_component = Component(BYTES, ()) if "decode" in repr(stages[0]) else Component(np.dtype("u1"), (4, 5, 3))
        assert type(compose(*stages).bind([given_component])).__name__ == "SequenceStep"


def test_a_function_that_is_traced_has_the_same_step(tmp_path):
    data = JPEGS["2 {}"]
    path = tmp_path / "a.jpg"
    path.write_bytes(data)

    def vision(name, data):
        image = qc.ops.random_resized_crop(decode_jpeg(data, channels=3), (20, 24), seed=5)
        return qc.ops.normalize(qc.ops.random_flip_left_right(image, seed=6), 0.5, 0.5)

    ds = qc.data.WholeFileDataset(path).map(vision).repeat(3).batch(3)
    (batch,) = ds
    assert "row by row; of a JPEG, only what is used is decoded, as small as the new size allows" in ds.plan()
    apart = qc.data.WholeFileDataset(path).map(qc.ops.on(1, decode_jpeg(channels=3))).map(lambda name, x: x * 2)
    assert "JPEG," not in apart.plan()
    for epoch, made in enumerate(batch):
        image = qc.ops.random_resized_crop(decode_jpeg(data, channels=3), (20, 24), seed=5, epoch=epoch)
        image = qc.ops.random_flip_left_right(image, seed=6, epoch=epoch)
        # A JPEG of four times the size is decoded at a half of it.
        assert psnr(made, qc.ops.normalize(image, 0.5, 0.5), 2) > 25

    def twice(name, data):
        image = decode_jpeg(data, channels=3)
        return qc.ops.resize(image, (4, 4)), qc.ops.center_crop(image, 4)

    ((small, middle),) = qc.data.WholeFileDataset(path).map(twice)
    np.testing.assert_array_equal(small, qc.ops.resize(decode_jpeg(data), (4, 4)))
    np.testing.assert_array_equal(middle, qc.ops.center_crop(decode_jpeg(data), 4))


# Decoding at a smaller size


def psnr(got, expected, most):
    error = np.mean((got.astype("f8") - expected.astype("f8")) ** 2)
    return math.inf if error == 0 else 10 * math.log10(most**2 / error)


def photograph(height, width):
    """Smooth shapes and edges, without detail that no smaller picture has."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    planes = [np.sin(9 * x) * np.cos(7 * y), np.hypot(x - 0.4, y - 0.5) < 0.3, x * y]
    return (np.clip(np.stack(planes, -1) * 0.5 + 0.3, 0, 1) * 255).astype(np.uint8)


@pytest.mark.parametrize("side", [30, 60, 124, 130, 249])
def test_a_jpeg_may_be_decoded_smaller(codec, side):
    data = saved(photograph(500, 620), "JPEG", quality=92)
    picture = decode_jpeg(data)
    half = {30: 8, 60: 8, 124: 4, 130: 2, 249: 2}[side]
    size = (side, side + 3)
    fast = run(compose(decode_jpeg(channels=3), qc.ops.resize(size=size, antialias=True)), data)
    exact = qc.ops.resize(picture, size, antialias=True)
    assert not np.array_equal(fast, exact)
    assert psnr(fast, exact, 255) > 36
    slow = run(compose(decode_jpeg(channels=3), qc.ops.resize(size=size, antialias=True, dct_scale=False)), data)
    np.testing.assert_array_equal(slow, exact)
    # It is what a smaller decoding gives, with the same place of every pixel.
    small = decode_jpeg(data, ratio=half)
    assert small.shape[0] >= side
    assert psnr(fast, qc.ops.resize(small, size, antialias=True), 255) > 36
    wide = run(compose(decode_jpeg(channels=3), qc.ops.resize(size=(501, 3), antialias=True)), data)
    np.testing.assert_array_equal(wide, qc.ops.resize(picture, (501, 3), antialias=True))


def test_a_random_part_may_be_decoded_smaller(codec):
    data = saved(photograph(500, 620), "JPEG", quality=92)
    whole = decode_jpeg(data)
    fast = compose(decode_jpeg(channels=3), qc.ops.random_resized_crop(size=96, seed=3))
    different = 0
    for element in range(20):
        got = run(fast, data, element=element)
        exact = qc.ops.random_resized_crop(whole, 96, seed=3, element=element)
        different += not np.array_equal(got, exact)
        assert psnr(got, exact, 255) > 33
    assert different > 5


# Sizes


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos3"])
def test_antialiasing_is_pillows(method):
    pillows = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos3": Image.LANCZOS}[method]
    rng = np.random.default_rng(0)
    for _ in range(60):
        height, width, rows, columns = (int(side) for side in rng.integers(1, 70, 4))
        array = rng.integers(0, 256, (height, width, 3), np.uint8) if rng.random() < 0.5 else colours(height, width)
        ours = qc.ops.resize(array, (rows, columns), method, antialias=True)
        floats = [np.asarray(Image.fromarray(plane).resize((columns, rows), pillows)) for plane in planes(array)]
        np.testing.assert_allclose(ours, np.stack(floats, -1), 1e-5, 2e-3)
        # Its bytes are cut off at black and white between the columns and the rows: without these, they are ours.
        array = array // 4 + 96
        ours = qc.ops.resize(array, (rows, columns), method, antialias=True)
        assert np.abs(np.rint(ours) - np.asarray(Image.fromarray(array).resize((columns, rows), pillows))).max() <= 1


def planes(array):
    return array.astype("f4").transpose(2, 0, 1)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area"])
@pytest.mark.parametrize("antialias", [False, True])
def test_a_constant_picture_stays_so(method, antialias):
    for height, width, rows, columns in itertools.product((1, 2, 7), (1, 5), (1, 3, 16), (1, 8)):
        for channels in (1, 3, 4, 5):
            array = np.full((height, width, channels), 200, np.uint8)
            made = qc.ops.resize(array, (rows, columns), method, antialias)
            np.testing.assert_allclose(made, 200, 1e-5)


def test_many_channels_are_each_like_one():
    array = np.random.default_rng(0).random((9, 11, 6)).astype("f4")
    for method, antialias in itertools.product(["bilinear", "bicubic", "area"], [False, True]):
        made = qc.ops.resize(array, (5, 20), method, antialias)
        for channels in (1, 3, 4):
            part = qc.ops.resize(array[..., :channels].copy(), (5, 20), method, antialias)
            np.testing.assert_array_equal(part, made[..., :channels])


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area"])
def test_bytes_give_what_their_numbers_give(method, antialias):
    rng = np.random.default_rng(0)
    for channels in (1, 2, 3, 4, 5) * 6:
        height, width, rows, columns = (int(side) for side in rng.integers(1, 70, 4))
        array = rng.integers(0, 256, (height, width, channels), np.uint8)
        made = qc.ops.resize(array, (rows, columns), method, antialias)
        np.testing.assert_array_equal(made, qc.ops.resize(array.astype("f4"), (rows, columns), method, antialias))


def test_area_is_the_mean_of_whole_blocks():
    array = np.random.default_rng(0).integers(0, 256, (12, 20, 3), np.uint8)
    expected = array.reshape(4, 3, 5, 4, 3).mean((1, 3))
    np.testing.assert_allclose(qc.ops.resize(array, (4, 5), "area"), expected, 1e-5)


@pytest.mark.parametrize(("sides", "expected"), [((40, 60), (20, 30)), ((60, 40), (30, 20)), ((41, 99), (20, 48))])
def test_one_number_is_the_shorter_side(sides, expected):
    stage = qc.ops.resize(size=20)
    assert stage.bind([Component(np.dtype("u1"), (*sides, 3))]).outputs[0].shape == (*expected, 3)
    assert stage.bind([Component(np.dtype("u1"), (None, 40, 3))]).outputs[0].shape == (None, None, 3)
    assert qc.ops.resize(np.zeros((*sides, 3), np.uint8), 20).shape == (*expected, 3)


def test_rest_is_zero():
    made = qc.ops.resize_with_pad(np.full((10, 20, 3), 9, np.uint8), (11, 7))
    # 7 x 3.5 pixels, rounded down: three rows, where the 3.5 would begin
    assert [bool(row.any()) for row in made] == [False] * 3 + [True] * 3 + [False] * 5
    assert (made[3:6] == 9).all()
    tall = qc.ops.resize_with_pad(np.full((20, 10, 1), 9, np.uint8), (4, 7), "nearest")
    assert tall[0, :, 0].tolist() == [0, 0, 9, 9, 0, 0, 0]
    assert qc.ops.flip_left_right(tall)[0, :, 0].tolist() == [0, 0, 0, 9, 9, 0, 0]
    stages = compose(qc.ops.resize_with_pad(size=(4, 7), method="nearest"), qc.ops.flip_left_right())
    assert run(stages, np.full((20, 10, 1), 9, np.uint8))[0, :, 0].tolist() == [0, 0, 0, 9, 9, 0, 0]


def test_pixels_of_any_numbers():
    """As of float32, if they are such numbers; complex ones and what is wider than 64 bits are only moved."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.random.default_rng(0).integers(0, 2, (5, 6, 3))
    stage = compose(qc.ops.resize(size=(4, 7)), qc.ops.flip_left_right(), qc.ops.normalize(mean=0.5, std=2))
    expected = run(stage, array.astype("f4"))
    for dtype in ("?", "i1", "u2", "i8", "u8", "f2", "f8", ml_dtypes.bfloat16):
        np.testing.assert_array_equal(run(stage, array.astype(dtype)), expected)
    for dtype in ("c8", "c16", ml_dtypes.bfloat16):
        moved = compose(qc.ops.center_crop(size=4), qc.ops.flip_left_right(), qc.ops.flip_up_down())
        np.testing.assert_array_equal(run(moved, array.astype(dtype)), array.astype(dtype)[:4, 1:5][::-1, ::-1])


def test_sizes_that_no_memory_has():
    array = np.ones((2, 2, 16), np.uint8)
    unknown = [Component(array.dtype, None)]
    for size in ((2**30, 2**30), (2**31 - 1, 2**30), (1, 2**60), (2**60, 1)):
        for method in ("bilinear", "nearest", "area"):
            with pytest.raises(qc.errors.ResourceExhaustedError):
                qc.ops.resize(size=size, method=method).bind(unknown)(array)
    with pytest.raises(InvalidArgumentError, match="too large"):
        qc.ops.resize(size=2**40).bind(unknown)


@pytest.mark.parametrize("k", range(-5, 6))
@pytest.mark.parametrize(
    ("dtype", "shape"), [("u1", (5, 7, 3)), ("f8", (2, 3, 4, 6, 1)), ("c8", (6, 1, 2)), ("i2", (0, 3, 2))]
)
def test_right_angles(k, dtype, shape):
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    axes = (array.ndim - 3, array.ndim - 2)
    np.testing.assert_array_equal(qc.ops.rot90(array, k), np.rot90(array, k, axes), strict=True)
    (made,) = qc.ops.rot90(k=k).bind([Component(array.dtype, (None,) * array.ndim)])(array)
    np.testing.assert_array_equal(made, np.rot90(array, k, axes), strict=True)


# Crops


def test_the_middle():
    array = np.arange(6 * 7 * 2).reshape(6, 7, 2)
    np.testing.assert_array_equal(qc.ops.center_crop(array, (3, 4)), array[1:4, 1:5])
    np.testing.assert_array_equal(qc.ops.center_crop(array, 6), array[:, :6])
    np.testing.assert_array_equal(qc.ops.center_crop(array.astype("c16"), 2), array[2:4, 2:4])


@pytest.mark.parametrize("rest", range(9))
def test_a_middle_rounded_to_even(rest):
    """As Python rounds, and so torchvision's CenterCrop."""
    array = np.arange(3 + rest).reshape(1, -1, 1)
    stage = qc.ops.center_crop(size=(1, 3), half_to_even=True)
    begin = round(rest / 2)
    np.testing.assert_array_equal(run(stage, array), array[:, begin : begin + 3])


@pytest.mark.parametrize("p", [0, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize("flip", [qc.ops.random_flip_left_right, qc.ops.random_flip_up_down])
def test_mirror_images_are_as_likely_as_told(flip, p):
    pictures = np.broadcast_to(np.arange(4).reshape(2, 2, 1), (5000, 2, 2, 1))
    count = int((flip(pictures, seed=1, p=p)[:, 0, 0, 0] > 0).sum())
    assert count == 5000 * p if p in (0, 1) else abs(count - 5000 * p) < 200


def test_random_parts_are_torchvisions():
    """The same rules as its RandomResizedCrop, by a picture whose pixels say where they are."""
    height, width = 60, 100
    y, x = np.mgrid[0:height, 0:width].astype("f4")
    picture = np.stack([y, x], -1)
    parts = []
    for element in range(2000):
        # Two targets a side: at a quarter and at three quarters of the part.
        made = qc.ops.random_resized_crop(picture, 2, antialias=False, seed=1, element=element)
        rows = (made[1, 0, 0] - made[0, 0, 0]) * 2
        columns = (made[0, 1, 1] - made[0, 0, 1]) * 2
        top, left = made[0, 0, 0] + 0.5 - rows / 4, made[0, 0, 1] + 0.5 - columns / 4
        assert min(top, left) > -1e-3 and top + rows < height + 1e-3 and left + columns < width + 1e-3
        for number in (rows, columns, top, left):
            assert abs(number - round(float(number))) < 1e-3
        parts.append((rows * columns / (height * width), math.log(columns / rows), top / max(height - rows, 1)))
    areas, ratios, places = np.transpose(parts)
    # A side that is rounded may be half a pixel off.
    assert min(areas) > 0.07 and max(areas) <= 1 and min(ratios) > math.log(0.72) and max(ratios) < math.log(1.38)
    assert abs(np.mean(places) - 0.5) < 0.03
    rule = np.array(list(itertools.islice(torchvisions(height, width), 20_000)))
    for got, expected in ((areas, rule[:, 0]), (ratios, rule[:, 1])):
        assert abs(np.mean(got) - np.mean(expected)) < 4 * np.std(expected) / math.sqrt(len(got))
        assert abs(np.std(got) - np.std(expected)) < 0.05 * np.std(expected)


def torchvisions(height, width):
    """Area and ratio by the rules of its documentation: what doesn't fit is drawn again."""
    rng = np.random.default_rng(0)
    while True:
        area, ratio = rng.uniform(0.08, 1) * height * width, math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if rows <= height and columns <= width:
            yield rows * columns / (height * width), math.log(columns / rows)


def test_a_part_of_a_ratio_that_never_fits():
    """The largest part in the middle, of a ratio within the bounds."""
    column, row = np.mgrid[0:4, 0:100].astype("f4")
    picture = np.stack([column, row], -1)
    wide = qc.ops.random_resized_crop(picture, 2, scale=(1, 1), ratio=(1, 2), antialias=False, seed=1)
    np.testing.assert_allclose(wide[0, :, 1], [46 + 1.5, 46 + 5.5])
    tall = qc.ops.random_resized_crop(picture.transpose(1, 0, 2).copy(), 2, (1, 1), (0.5, 1), antialias=False, seed=1)
    np.testing.assert_allclose(tall[:, 0, 1], [46 + 1.5, 46 + 5.5])
    one = qc.ops.random_resized_crop(np.ones((1, 1, 3), np.uint8), 3, seed=1)
    np.testing.assert_array_equal(one, np.ones((3, 3, 3), "f4"))


# Normalising


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
def test_normalising(channels):
    rng = np.random.default_rng(channels)
    mean, std = rng.random(channels), rng.random(channels) + 0.1
    array = rng.integers(0, 256, (2, 9, 13, channels), np.uint8)
    expected = (array / 255 - mean) / std
    np.testing.assert_allclose(qc.ops.normalize(array, mean, std), expected, 1e-5, 1e-5)
    first = qc.ops.normalize(array, mean, std, channels_first=True)
    np.testing.assert_allclose(first, expected.transpose(0, 3, 1, 2), 1e-5, 1e-5)
    half = qc.ops.normalize(array, mean, std, channels_first=True, dtype="f2")
    np.testing.assert_array_equal(half, first.astype("f2"), strict=True)
    floats = qc.ops.normalize(array / 255, mean, std, max_value=1)
    np.testing.assert_allclose(floats, expected, 1e-5, 1e-5)
    np.testing.assert_allclose(qc.ops.normalize(array, 0.5, 2), (array / 255 - 0.5) / 2, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda o, x: o.center_crop(x, (9, 2)), InvalidArgumentError, r"at least 9 on axis 0, got 8"),
        (lambda o, x: o.center_crop(x), InvalidArgumentError, "size is missing"),
        (lambda o, x: o.center_crop(x[0], 2), InvalidArgumentError, r"center_crop: expected pictures"),
        (lambda o, x: o.resize(x, (2, 2), "box"), InvalidArgumentError, r"one of \"nearest\", .*, got 'box'"),
        (lambda o, x: o.resize_with_pad(x, 4), InvalidArgumentError, "size"),
        (lambda o, x: o.random_resized_crop(x, 4), InvalidArgumentError, "seed is missing"),
        (lambda o, x: o.random_resized_crop(x, 4, scale=(0, 1), seed=1), InvalidArgumentError, "scale .* above 0"),
        (lambda o, x: o.random_resized_crop(x, 4, scale=(0.5, 2), seed=1), InvalidArgumentError, "at most 1"),
        (lambda o, x: o.random_resized_crop(x, 4, ratio=(2, 1), seed=1), InvalidArgumentError, "not larger"),
        (lambda o, x: o.random_resized_crop(x, 4, ratio=3, seed=1), InvalidArgumentError, "two numbers"),
        (lambda o, x: o.random_resized_crop(x, 4, interpolation=2, seed=1), InvalidArgumentError, "interpolation"),
        (lambda o, x: o.random_flip_up_down(x), InvalidArgumentError, "seed is missing"),
        (lambda o, x: o.random_flip_left_right(x, 1, p=1.5), InvalidArgumentError, "p must be from 0 to 1, not 1.5"),
        (lambda o, x: o.random_flip_left_right(x, 1, p="a"), InvalidArgumentError, "p must be a number"),
        (lambda o, x: o.flip_left_right(x[0]), InvalidArgumentError, "flip_left_right: expected pictures"),
        (lambda o, x: o.rot90(x[0]), InvalidArgumentError, "rot90: expected pictures"),
        (lambda o, x: o.rot90().bind([Component(x.dtype, None)]), InvalidArgumentError, "must be known"),
        (lambda o, x: o.normalize(x, None, 1), InvalidArgumentError, "mean is missing"),
        (lambda o, x: o.normalize(x, (1, 2), 1), InvalidArgumentError, r"expected 2 channels"),
        (lambda o, x: o.normalize(x, (1, 2), (1, 2, 3)), InvalidArgumentError, "mean has 2 numbers, and std has 3"),
        (lambda o, x: o.normalize(x, 1, (1, 0, 1)), InvalidArgumentError, "may be 0"),
        (lambda o, x: o.normalize(x, 1, 1, 0), InvalidArgumentError, "may be 0"),
        (lambda o, x: o.normalize(x, math.nan, 1), InvalidArgumentError, "finite"),
        (lambda o, x: o.normalize(x, 0, 1, dtype="i4"), DtypeError, "int32"),
        (lambda o, x: o.normalize(x.astype("c8"), 0, 1), DtypeError, "complex64"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(qc.ops, np.zeros((8, 8, 3), np.uint8))


@pytest.mark.parametrize(
    ("stage", "shape", "text"),
    [
        (qc.ops.center_crop(size=4), (3, 5, 3), "center_crop: a picture of 3 x 5 pixels has no part of 4 x 4"),
        (qc.ops.normalize(mean=(1, 2), std=1), (3, 3, 3), "normalize: expected 2 channels, got 3"),
        (qc.ops.random_resized_crop(size=2, seed=1), (0, 3, 3), "0 x 3 pixels can't be resized"),
        (qc.ops.flip_up_down(), (3, 3), "flip_up_down: expected pictures .*, got 2 dimensions"),
        (compose(qc.ops.resize(size=3), qc.ops.center_crop(size=4)), (9, 9, 3), "center_crop: a picture of 3 x 3"),
    ],
)
def test_what_only_the_picture_tells(stage, shape, text):
    array = np.zeros(shape, np.uint8)
    with pytest.raises(InvalidArgumentError, match=text):
        stage.bind([Component(array.dtype, None)])(array)


def test_pictures_of_a_batch_must_become_equal():
    files = np.empty(2, object)
    files[:] = [saved(colours(9, 8), "JPEG"), saved(colours(8, 9), "JPEG")]
    stage = compose(decode_jpeg(), qc.ops.flip_left_right())
    with pytest.raises(InvalidArgumentError, match=r"picture 1 of the batch becomes one of 8 x 9 pixels"):
        stage.bind([Component(BYTES, (2,))])(files)
    resized = compose(decode_jpeg(channels=3), qc.ops.resize(size=(4, 4)))
    assert resized.bind([Component(BYTES, (2,))])(files)[0].shape == (2, 4, 4, 3)
