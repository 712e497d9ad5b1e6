"""decode_compressed: at once and as a stage, against Python's own modules."""

import gzip
import random
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.formats.compressed import CODED, ENCODINGS, compress, needs_zstd, number, text, zstd
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._elements.component import BYTES
from queuecore.ops import Component, decode_compressed, decode_raw


@pytest.mark.parametrize("encoding", CODED)
@pytest.mark.parametrize("count", [0, 1, 100, 5000, 200_000])
def test_bytes(encoding, count):
    content = text(count)
    assert decode_compressed(compress(encoding, content), encoding) == content


def test_plain_is_what_it_was():
    assert decode_compressed(b"abc") == b"abc"
    assert decode_compressed([b"abc", b""], "").tolist() == [b"abc", b""]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nothing_is_nothing(encoding):
    number(encoding)
    assert decode_compressed(b"", encoding) == b""
    assert decode_compressed([b"", b""], encoding).tolist() == [b"", b""]
    assert decode_compressed([], encoding).shape == (0,)


@pytest.mark.parametrize("encoding", CODED)
def test_arrays_keep_their_shape(encoding):
    contents = [text(100 * index**3, index) for index in range(6)]
    array = np.empty((2, 3), object)
    array.reshape(-1)[:] = [compress(encoding, content) for content in contents]
    found = decode_compressed(array, encoding)
    assert found.shape == (2, 3)
    assert found.ravel().tolist() == contents
    assert decode_compressed(array.tolist(), encoding).tolist() == found.tolist()
    assert decode_compressed(array[:0], encoding).shape == (0, 3)


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=2000), max_size=8), st.sampled_from(["GZIP", "ZLIB", "XZ", "BZ2"]), st.integers(0, 6)
)
def test_any_batch(contents, encoding, level):
    batch = [compress(encoding, content, level) for content in contents]
    assert decode_compressed(np.array([*batch, b""], object)[:-1], encoding).tolist() == contents


def test_members_and_frames_are_one_string():
    data = gzip.compress(b"one") + bytes(3) + gzip.compress(b"") + gzip.compress(b"two" * 1000) + bytes(7)
    # The length that its end tells is not that of all.
    assert decode_compressed(data, "GZIP") == gzip.decompress(data) == b"one" + b"two" * 1000


@needs_zstd
def test_frames_are_one_string():
    assert decode_compressed(zstd(b"one" * 500) + zstd(b"two"), "ZSTD") == b"one" * 500 + b"two"


def test_strings_are_encoded():
    assert decode_compressed("plain", "") == b"plain"


@pytest.mark.parametrize("word", ["NONE", "bzip2", "zip", None, 5])
def test_unknown_words(word):
    with pytest.raises(qc.errors.InvalidArgumentError):
        decode_compressed(b"", word)


@pytest.mark.parametrize("limit", [-1, 1 << 62])
def test_impossible_limits(limit):
    with pytest.raises(qc.errors.InvalidArgumentError):
        decode_compressed(b"", "GZIP", max_record_bytes=limit)


def test_no_bytes():
    with pytest.raises(qc.errors.DtypeError):
        decode_compressed(np.arange(3), "GZIP")


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", CODED)
def test_cut_anywhere(encoding):
    data = compress(encoding, text(300))
    for cut in range(1, len(data)):
        with pytest.raises(qc.errors.DecompressError) as caught:
            decode_compressed(data[:cut], encoding)
        assert caught.value.offset == cut
        assert f"byte {cut}" in str(caught.value)


@pytest.mark.parametrize("encoding", CODED)
def test_something_else_behind_it(encoding):
    data = compress(encoding, b"content")
    for rest in (b"x", b"\x1f\x8c", b"something else") + ((b"\0",) if encoding not in ("GZIP", "XZ") else (b"\0\0x",)):
        with pytest.raises(qc.errors.DecompressError) as caught:
            decode_compressed(data + rest, encoding)
        assert len(data) <= caught.value.offset <= len(data) + len(rest)


@pytest.mark.parametrize("encoding", CODED)
def test_a_batch_names_the_string(encoding):
    data = compress(encoding, b"content")
    with pytest.raises(qc.errors.DecompressError, match="string 2 of the batch"):
        decode_compressed([data, data, data[:-1], data], encoding)


@pytest.mark.parametrize("data", [b"no GZIP data at all", bytes(30), b"\0", b"\x1f\x8b\x09" + bytes(20)])
def test_no_header(data):
    with pytest.raises(qc.errors.DecompressError) as caught:
        decode_compressed(data, "GZIP")
    assert caught.value.offset == 0


@pytest.mark.parametrize("data", [b"no", b"\x78\x9d" + bytes(20)])
def test_no_zlib_header(data):
    with pytest.raises(qc.errors.DecompressError) as caught:
        decode_compressed(data, "ZLIB")
    assert caught.value.offset == 0


def test_a_dictionary_is_wanted():
    packer = zlib.compressobj(zdict=b"words")
    with pytest.raises(qc.errors.DecompressError, match="dictionary"):
        decode_compressed(packer.compress(b"words words") + packer.flush(), "ZLIB")


@pytest.mark.parametrize("first", [0x1E, *range(0x22, 0x28)])
def test_formats_from_before_zstd_are_none(first):
    # The library may know them, and of damaged ones says that it has made bytes which it hasn't.
    encoding = number("ZSTD")
    frame = bytes([first]) + bytes.fromhex("b52ffd003d58d102e203bc3ab05100fefe")
    with pytest.raises(qc.errors.DecompressError) as caught:
        decode_compressed(frame, "ZSTD")
    assert caught.value.offset == 0
    testing = pytest.importorskip("queuecore._core.testing.parsers", reason="this build has no test hooks")
    for piece in (1, 3, 100):
        assert testing.inflate_pieces(frame, encoding, piece, 1000)[0] == b""


def test_a_zstd_window_beyond_the_limit():
    number("ZSTD")
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([20 << 3]) + b"\x01\x00\x00"  # 2**30 bytes of window
    with pytest.raises(qc.errors.DecompressError, match="window"):
        decode_compressed(frame, "ZSTD")


# ---- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", CODED)
@pytest.mark.parametrize("count", [1, 100, 70_000, 1_000_000])
def test_a_limit_is_exact(encoding, count):
    for content in (bytes(count), random.Random(0).randbytes(count)):
        data = compress(encoding, content)
        assert decode_compressed(data, encoding, max_record_bytes=count) == content
        assert decode_compressed([data] * 3, encoding, max_record_bytes=count).tolist() == [content] * 3
        with pytest.raises(qc.errors.RecordTooLargeError, match="max_record_bytes"):
            decode_compressed(data, encoding, max_record_bytes=count - 1)
        with pytest.raises(qc.errors.RecordTooLargeError, match="string 1"):
            decode_compressed([b"", data], encoding, max_record_bytes=count - 1)


def test_the_limit_without_saying_so():
    data = gzip.compress(bytes(32 << 20), 1)
    assert len(decode_compressed(data + data, "GZIP")) == 64 << 20
    with pytest.raises(qc.errors.RecordTooLargeError):
        decode_compressed(data + data + gzip.compress(b"x"), "GZIP")


def test_a_length_that_lies():
    data = bytearray(gzip.compress(b"short"))
    data[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(qc.errors.DecompressError):
        decode_compressed(bytes(data), "GZIP")
    # That of the last member alone says little.
    data = gzip.compress(text(1_000_000)) + gzip.compress(b"x")
    assert decode_compressed(data, "GZIP") == gzip.decompress(data)


# ---- stages ---------------------------------------------------------------------------------------------------------


def test_a_stage():
    stage = decode_compressed(compression_type="GZIP", max_record_bytes=100)
    assert repr(stage) == "decode_compressed(GZIP)"
    step = stage.bind([Component(BYTES, ())])
    assert step.outputs == (Component(BYTES, ()),)
    assert step(gzip.compress(b"one")) == [b"one"]
    with pytest.raises(qc.errors.RecordTooLargeError):
        step(gzip.compress(bytes(101)))
    assert step(gzip.compress(b"two")) == [b"two"]


def test_a_stage_refuses_what_is_no_bytes():
    stage = decode_compressed(compression_type="ZLIB")
    for components in ([], [Component(np.dtype("i4"), ())], [Component(BYTES, ())] * 2):
        with pytest.raises(qc.errors.InvalidArgumentError, match="decode_compressed"):
            stage.bind(components)


def test_stages_follow_each_other():
    inflate = decode_compressed(compression_type="ZLIB").bind([Component(BYTES, (None,))])
    numbers = decode_raw(out_type=np.int16).bind(inflate.outputs)
    batch = np.array([zlib.compress(np.arange(i, i + 5, dtype=np.int16).tobytes()) for i in range(3)], object)
    assert numbers(inflate(batch)[0])[0].tolist() == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [2, 3, 4, 5, 6]]


@pytest.mark.parametrize("encoding", CODED)
def test_a_step_in_many_threads_at_once(encoding):
    contents = [text(50_000, seed) for seed in range(8)]
    batches = [compress(encoding, content) for content in contents]
    step = decode_compressed(compression_type=encoding).bind([Component(BYTES, ())])

    def work(index):
        return all(step(batches[index])[0] == contents[index] for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
