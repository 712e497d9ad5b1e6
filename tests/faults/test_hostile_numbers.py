"""Files in which one number is wrong are refused, or read as others read them: never a crash, a wait, or wrong data."""

import gzip
import io
import itertools
import math
import struct
import warnings
import zlib

import numpy as np
import pytest
from helpers.formats.hostile import MAGIC, Field, Kept, Piece, changed, wrong
from helpers.formats.pictures import chunk
from helpers.formats.tfrecords import stream
from PIL import Image

import queuecore as qc
import queuecore.tf1 as tf
from queuecore.data import Dataset, NumpyDataset, TextLineDataset
from queuecore.errors import (
    ChecksumError,
    DataLossError,
    DecodeError,
    DecompressError,
    FailedPreconditionError,
    InvalidArgumentError,
    QueueCoreError,
    ResourceExhaustedError,
    TruncatedRecordError,
    UnimplementedError,
)
from queuecore.ops import decode_bmp, decode_compressed, decode_gif, decode_image, decode_png

PIXELS = np.random.default_rng(5).integers(0, 256, (4, 5, 4), dtype=np.uint8)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def saved(pixels, kind, **options):
    made = io.BytesIO()
    Image.fromarray(pixels).save(made, kind, **options)
    return made.getvalue()


def by_pillow(data, mode):
    """Return what Pillow gives; None if it refuses."""
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data)) as picture:
            warnings.simplefilter("ignore")
            return np.asarray(picture.convert(mode))
    except Exception:
        return None


def decoded(decode, data):
    """Return what we give; None if we refuse."""
    try:
        return decode(data, max_pixels=1 << 20)
    except (DecodeError, UnimplementedError):
        return None


# ---- pictures ----

BMP_FIELDS = [
    *(Field("size", 2, 4), Field("offset", 10, 4), Field("header", 14, 4), Field("width", 18, 4)),
    *(Field("height", 22, 4), Field("bits", 28, 2), Field("compression", 30, 4), Field("colours", 46, 4)),
]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_bmp(channels):
    pixels = PIXELS[..., 0] if channels == 1 else PIXELS[..., :channels]
    data = saved(pixels, "BMP")
    whole_picture = decode_bmp(data)
    outcomes = set()
    for name, value, damaged in changed(data, BMP_FIELDS):
        picture = decoded(decode_bmp, damaged)
        outcomes.add(picture is None)
        if picture is None:
            continue
        if name in ("width", "height", "bits"):
            picture = picture[..., :3]  # Pillow takes no alpha of such files
            other = by_pillow(damaged, MODES[picture.shape[2]])
            np.testing.assert_array_equal(picture, other.reshape(picture.shape), f"{name} = {value}")
        else:  # what TensorFlow doesn't use changes nothing
            np.testing.assert_array_equal(picture, whole_picture, f"{name} = {value}")
    assert outcomes == {True, False}


PNG_FIELDS = [
    *(Field("width", 16, 4, True), Field("height", 20, 4, True), Field("depth", 24, 1), Field("colour", 25, 1)),
    *(Field("method", 26, 1), Field("filter", 27, 1), Field("interlace", 28, 1)),
]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png(channels):
    pixels = PIXELS[..., 0] if channels == 1 else PIXELS[..., :channels]
    data = saved(pixels, "PNG")
    for name, value, damaged in changed(data, PNG_FIELDS):
        mended = damaged[:8] + chunk(b"IHDR", damaged[16:29]) + damaged[33:]  # its checksum holds
        made = decoded(decode_png, mended)
        if made is not None:
            other = by_pillow(mended, MODES[made.shape[2]])
            np.testing.assert_array_equal(made, other.reshape(made.shape), f"{name} = {value}")
    for at in (8, data.index(b"IDAT") - 4):  # the lengths of chunks
        for _, value, damaged in changed(data, [Field("length", at, 4, True)]):
            assert decoded(decode_png, damaged) is None, value


def jpeg_fields(data):
    """Return the fields of the segments before the first scan, and of its header."""
    position, fields = 2, []
    while True:
        marker = data[position + 1]
        fields.append(Field(f"length of {marker:x}", position + 2, 2, True))
        if marker in (0xC0, 0xC2):
            fields += [
                Field("depth", position + 4, 1),
                Field("height", position + 5, 2, True),
                Field("width", position + 7, 2, True),
            ]
            fields += [Field(f"component {i}", position + i, 1) for i in range(9, 13)]
        elif marker in (0xC4, 0xDB):
            fields += [Field(f"table {marker:x} {i}", position + i, 1) for i in range(4, 21)]
        elif marker == 0xDD:
            fields.append(Field("restarts", position + 4, 2, True))
        elif marker == 0xDA:
            return fields + [Field(f"scan {i}", position + i, 1) for i in range(4, 8 + 2 * data[position + 4])]
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
def test_jpeg(options):
    data = saved(np.tile(PIXELS[..., :3], (4, 3, 1)), "JPEG", **options)
    whole_picture = decode_image(data)
    for name, value, damaged in changed(data, jpeg_fields(data)):
        picture = decoded(decode_image, damaged)
        if picture is None:
            continue
        other = by_pillow(damaged, MODES[picture.shape[2]])
        if other is None:  # Pillow wants the segment of JFIF to have its usual length
            assert name == "length of e0"
            np.testing.assert_array_equal(picture, whole_picture)
        else:
            np.testing.assert_array_equal(picture, other.reshape(picture.shape), f"{name} = {value}")


def test_gif():
    palette = bytes(range(12))
    data = b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x81, 0, 0) + palette
    data += b"," + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + bytes([2, 3, 0x44, 0x34, 0x05, 0, 0x3B])
    image = len(data) - 17
    names = [("screen width", 6, 2), ("screen height", 8, 2), ("flags", 10, 1)]
    names += [("left", image + 1, 2), ("top", image + 3, 2), ("width", image + 5, 2), ("height", image + 7, 2)]
    names += [("own flags", image + 9, 1), ("codes", image + 10, 1), ("block", image + 11, 1)]
    whole_frames = decode_gif(data)
    np.testing.assert_array_equal(whole_frames[0], by_pillow(data, "RGB"))
    for name, value, damaged in changed(data, [Field(*one) for one in names]):
        frames = decoded(decode_gif, damaged)
        if frames is None:
            continue
        if name in ("screen width", "screen height", "left", "top"):  # black where the frame isn't, as TensorFlow's
            left, top = value * (name == "left"), value * (name == "top")
            expected = np.zeros_like(frames)
            expected[:, top : top + 2, left : left + 2] = whole_frames
            np.testing.assert_array_equal(frames, expected, f"{name} = {value}")
        elif name in ("width", "height"):
            height, width = (value, 2) if name == "height" else (2, value)
            frame = by_pillow(damaged[:6] + struct.pack("<HH", width, height) + damaged[10:], "RGB")
            np.testing.assert_array_equal(frames[0, :height, :width], frame, f"{name} = {value}")
        elif (other := by_pillow(damaged, "RGB")) is not None:
            np.testing.assert_array_equal(frames[0], other, f"{name} = {value}")


@pytest.mark.parametrize("side", [5, 7])
def test_a_frame_without_pixels(side):
    # giflib, by which TensorFlow reads, refuses it.
    data = saved(PIXELS[..., 0], "GIF")
    image = data.index(b",\0\0\0\0\5\0\4\0")
    with pytest.raises(DecodeError, match="no pixels"):
        decode_gif(data[: image + side] + b"\0\0" + data[image + side + 2 :])


# ---- compressed data and arrays ----

TEXT = b"".join(b"line %d\n" % number for number in range(9))


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB", "named"])
def test_compressed(tmp_path, kind):
    data = zlib.compress(TEXT) if kind == "ZLIB" else gzip.compress(TEXT, mtime=0)
    if kind == "named":
        data = data[:3] + b"\x0c" + data[4:10] + b"\4\0ab\0\0" + b"name\0" + data[10:]
    word = "ZLIB" if kind == "ZLIB" else "GZIP"
    right = zlib.decompress if kind == "ZLIB" else gzip.decompress
    assert right(data) == TEXT
    path = tmp_path / "file"
    for number, (_, _, damaged) in enumerate(changed(data, [Field("byte", at, 1) for at in range(len(data))])):
        try:
            content = decode_compressed(damaged, word)
        except QueueCoreError:
            content = None
        else:
            assert content == right(damaged)
        if number % 11:  # of a file it is the same, and takes longer
            continue
        path.write_bytes(damaged)
        try:
            lines = list(TextLineDataset(path, compression_type=word))
        except QueueCoreError:
            assert content is None
        else:
            assert b"".join(line + b"\n" for line in lines) == content


SIDES = [0, 1, 2, 3, 5, 6, 7, 12, -1, -6, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 + 6, 10**30]


@pytest.mark.parametrize("order", [False, True])
def test_shapes_of_arrays(tmp_path, order):
    numbers = np.arange(6, dtype="<i4")
    path = tmp_path / "array.npy"
    cases = 0
    for shape in [(side,) for side in SIDES] + [(one, other) for one in SIDES for other in SIDES]:
        text = f"{{'descr': '<i4', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + numbers.tobytes())
        try:
            made = np.array(list(NumpyDataset(path)))
        except QueueCoreError:
            continue
        cases += 1
        np.testing.assert_array_equal(made, np.load(path))
    assert cases == 5  # (6,), and the four pairs whose product is 6


# ---- caches and snapshots ----


def png(height, width):
    return saved(PIXELS[:height, :width, 0], "PNG")


SOURCES = {
    "fixed": lambda: Dataset.from_tensor_slices(np.arange(6, dtype=np.int16).reshape(3, 2)),
    "string": lambda: Dataset.from_tensor_slices([b"to", b"", b"be"]),
    "ragged": lambda: Dataset.from_tensor_slices(qc.Ragged(np.arange(3), np.array([0, 1, 1, 3]))),
    "dense": lambda: Dataset.from_tensor_slices([png(2, 3), png(1, 2)]).map(decode_png()),
    "strings": lambda: Dataset.from_tensor_slices([EXAMPLE]).map(PARSE),
    "objects": lambda: Dataset.from_tensor_slices([3, 1]).map(lambda n: (qc.Ragged.from_list([[int(n)], []]), "x")),
}
# A feature "w" with the strings "ab" and "".
EXAMPLE = bytes.fromhex("0a0f0a0d0a017712080a060a0261620a00")
PARSE = qc.ops.parse_single_example(features={"w": qc.ops.FixedLenFeature([2], np.bytes_)})


def plain(value):
    """Return an element in plain objects."""
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, qc.Ragged):
        return value.to_list()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def total(value):
    """Return how many bytes and numbers there are in a plain element."""
    if isinstance(value, dict):
        return sum(map(total, value.values()))
    return len(value) if isinstance(value, bytes | str) else sum(map(total, value)) if isinstance(value, list) else 1


STEPS = [13, pytest.param(1, marks=pytest.mark.thorough)]  # of the variants, every so many is tried


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", SOURCES)
def test_what_is_kept_is_checked_before_it_is_used(tmp_path, kind, step):
    def make():
        return [plain(one) for one in SOURCES[kind]().cache(tmp_path / "kept")]

    expected = make()
    files = Kept(tmp_path / "kept.index", tmp_path / "kept.data-00000-of-00001")
    refused = 0
    for variant, piece in itertools.islice(files.piece.variants(), 0, None, step):
        files.put(piece)
        try:
            elements = make()
        except DataLossError as error:
            assert error.path == str(files.data), variant
            refused += 1
        else:  # as many elements, of no more than there is
            assert len(elements) == len(expected), variant
            assert total(elements) <= max(total(expected), len(expected) * sum(map(len, piece.parts))), variant
    assert refused > 3
    files.restore()
    assert make() == expected


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["cache", "snapshot"])
def test_an_index_is_checked_before_it_is_used(tmp_path, kind, step):
    def make():
        ds = SOURCES["string"]().shuffle(3, 1)
        ds = ds.cache(tmp_path / "kept") if kind == "cache" else ds.snapshot(tmp_path / "kept")
        return list(ds)

    expected = make()
    if kind == "snapshot":
        expected = make()  # in the order of its shards
    (index,) = tmp_path.rglob("*.index")
    (data,) = tmp_path.rglob("*.data-00000-of-00001")
    files = Kept(index, data)
    for what, facts in itertools.islice(files.facts.variants(), 0, None, step):
        files.put_facts(facts)
        try:
            assert sorted(make()) == sorted(expected), what
        except QueueCoreError as error:
            assert type(error) in (DataLossError, ChecksumError, TruncatedRecordError, FailedPreconditionError), what
        if not data.exists() or data.read_bytes() != files.intact[1]:  # a snapshot of another plan was written anew
            files.restore()


def test_a_piece_that_says_how_long_it_was(tmp_path):
    def make():
        return list(SOURCES["string"]().snapshot(tmp_path / "kept", compression="GZIP"))

    expected = make()
    (index,) = tmp_path.rglob("*.index")
    (data,) = tmp_path.rglob("*.data-00000-of-00001")
    content = data.read_bytes()[28:-4]
    facts = Piece.of(index.read_bytes()[16:])
    number = next(entry[1][1] for entry in facts.tree[1:] if entry[0] == "pieces")
    for length in [*wrong(int.from_bytes(content[:8], "little"), 8), int.from_bytes(content[:8], "little")]:
        framed = stream([length.to_bytes(8, "little") + content[8:]])
        table = np.frombuffer(facts.parts[number], np.int64).copy()
        table[2:4] = len(framed), int.from_bytes(framed[-4:], "little")
        facts.parts[number] = table.tobytes()
        data.write_bytes(MAGIC + framed)
        index.write_bytes(MAGIC + facts.framed())
        if length == int.from_bytes(content[:8], "little"):
            assert sorted(make()) == sorted(expected)
        else:
            with pytest.raises(DecompressError):
                make()


# ---- messages of tensors ----


def test_shapes_of_messages_of_tensors():
    values = np.arange(6, dtype="<f4").tobytes()

    def message(shape, field):
        dims = b"".join(b"\x12" + bytes([len(dim)]) + dim for dim in (b"\x08" + varint(side) for side in shape))
        return b"\x08\x01\x12" + bytes([len(dims)]) + dims + field + bytes([len(values)]) + values

    shapes = [(side,) for side in SIDES] + [(one, other) for one in SIDES for other in SIDES]
    shapes = [shape for shape in shapes if all(side < 1 << 64 for side in shape)]
    with tf.Graph().as_default(), tf.Session() as session:
        serialized = tf.placeholder(tf.string, [])
        parsed = tf.io.parse_tensor(serialized, tf.float32)
        for shape, field in itertools.product(shapes, (b"\x22", b"\x2a")):
            # TensorFlow takes whole values as they are, and repeats the last of fewer ones.
            signed = [side - (1 << 64) if side >> 63 else side for side in shape]
            count = math.prod(signed)
            fits = min(signed) >= 0 and (count == 6 or (field == b"\x2a" and 6 < count < 1 << 28))
            try:
                tensor = session.run(parsed, {serialized: message(shape, field)})
            except (InvalidArgumentError, ResourceExhaustedError):
                assert not fits, shape
            else:
                assert fits, shape
                expected = np.append(np.arange(6, dtype="f4"), np.full(count - 6, 5, "f4")).reshape(signed)
                np.testing.assert_array_equal(tensor, expected)


def varint(value):
    value %= 1 << 64
    made = b""
    while value > 127:
        made += bytes([value & 127 | 128])
        value >>= 7
    return made + bytes([value])
