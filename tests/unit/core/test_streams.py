"""Files as streams of bytes: plain and compressed, whatever the sizes of the pieces."""

import bz2
import gzip
import lzma
import os
import random
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from helpers.formats.compressed import CODED, ENCODINGS, JOINED, LIBRARIES, compress, needs_zstd, number, text, zstd
from helpers.process import run_python
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._io import compression

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
parsers = pytest.importorskip("queuecore._core.testing.parsers")
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")


# WHAT_ numbers of errors.pxd.
DAMAGE = {"header": 101, "data": 102, "check": 103, "window": 106}


@pytest.fixture(params=LIBRARIES)
def library(request):
    name = parsers.prefer_library(request.param)
    if name is None or request.param not in name:
        parsers.prefer_library("")
        pytest.skip(f"{request.param} is not here")
    yield request.param
    parsers.prefer_library("")


def read_all(stream, piece):
    """All bytes of a stream, and the error that ended it."""
    parts = []
    while True:
        part, error = stream.read(piece)
        parts.append(part)
        assert stream.offset == sum(map(len, parts))
        if error is not None:
            return b"".join(parts), error
        assert len(part) <= piece
        if len(part) < piece:
            assert stream.read(piece) == (b"", None)
            return b"".join(parts), None


def whole(path, encoding, piece):
    stream = parsers.FileStream(path, encoding)
    assert stream.size == os.stat(path).st_size
    content, error = read_all(stream, piece)
    stream.close()
    assert error is None
    return content


# ---- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [None, "", "NONE"])
def test_words_for_plain(word):
    assert compression.encoding_number(word) == 0


def test_each_word_has_a_number_of_its_own(monkeypatch):
    monkeypatch.setattr(compression, "library", lambda _: "one")
    assert len({number(word) for word in ENCODINGS}) == len(ENCODINGS)
    assert [number(word.lower()) for word in ENCODINGS] == [number(word) for word in ENCODINGS]


@pytest.mark.parametrize("word", ["GZ", "BZIP2", " GZIP", b"GZIP", 1, [], ("GZIP",)])
def test_unknown_words(word):
    with pytest.raises(qc.errors.InvalidArgumentError, match="my_option.*'GZIP', 'ZLIB', 'ZSTD', 'LZ4', 'XZ' or 'BZ2'"):
        compression.encoding_number(word, "my_option")


@pytest.mark.parametrize(
    ("word", "package"),
    [
        *(("GZIP", "zlib1g"), ("ZLIB", "zlib1g"), ("ZSTD", "libzstd1"), ("LZ4", "liblz4-1"), ("XZ", "liblzma5")),
        ("BZ2", "libbz2-1.0"),
    ],
)
def test_no_library(monkeypatch, word, package):
    monkeypatch.setattr(compression, "library", lambda _: None)
    with pytest.raises(qc.errors.UnimplementedError, match=f"Install.*{package}"):
        compression.encoding_number(word)
    assert compression.encoding_number("NONE") == 0


def test_a_library_that_nobody_looked_for(tmp_path):
    # In a fresh interpreter: here they may be loaded already.
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(b"x"))
    done = run_python(
        """
        import os, sys
        from queuecore._core.testing import parsers, syscalls
        from queuecore.errors import UnimplementedError
        for encoding in range(1, 7):
            try:
                parsers.FileStream(sys.argv[1], encoding)
            except UnimplementedError as error:
                assert error.path == sys.argv[1]
            else:
                raise SystemExit("opened")
        assert syscalls.open_files() == 0
        """,
        path,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.parametrize("way", ["does nothing", "has another state", "lacks a function"])
def test_a_library_that_is_not_what_its_name_says(tmp_path, way):
    body = {
        "does nothing": "return 0;",
        "has another state": "for (int i = 0; i < 300000; i++) ((char *)state)[i] = 5; return 0;",
        "lacks a function": "return -1;",
    }[way]
    source = "void isal_inflate_init(void *state) {}" if way != "lacks a function" else ""
    source += f"void isal_inflate_reset(void *state) {{}} int isal_inflate(void *state) {{ {body} }}"
    (tmp_path / "fake.c").write_text(source)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "libisal.so.2", tmp_path / "fake.c"], check=True, timeout=50
    )
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-c"),
            "import gzip, queuecore.ops as ops; from queuecore._core.io.codecs import library;"
            "assert ops.decode_compressed(gzip.compress(b'content'), 'GZIP') == b'content'; print(library(1))",
        ],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(Path(qc.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "libz" in done.stdout


# ---- pieces ---------------------------------------------------------------------------------------------------------


def test_plain_files(tmp_path):
    content = random.Random(0).randbytes(3000)
    path = tmp_path / "file"
    path.write_bytes(content)
    for piece in [*range(1, 65), 2999, 3000, 3001]:
        assert whole(path, 0, piece) == content


@pytest.mark.parametrize("encoding", ["NONE", *ENCODINGS])
def test_empty_files(tmp_path, encoding):
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert whole(path, number(encoding), 10) == b""


def members(encoding):
    """Data that begins and ends anew where the encoding allows it, and what it holds."""
    parts = [text(2500), b"", random.Random(1).randbytes(700), bytes(5000), text(50, 3)]
    if encoding == "ZLIB":
        return compress(encoding, b"".join(parts)), b"".join(parts)
    data = b"".join(compress(encoding, part, level) for level, part in enumerate(parts))
    module = {"GZIP": gzip, "XZ": lzma, "BZ2": bz2}.get(encoding)
    assert module is None or module.decompress(data) == b"".join(parts)
    return data, b"".join(parts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoding", CODED)
def test_every_size_of_the_pieces_that_come_and_go(library, encoding):
    data, content = members(encoding)
    for size in range(1, 65):
        for source, into in ((size, size), (size, 1), (1, size), (size, 9000), (9000, size)):
            assert parsers.inflate_pieces(data, number(encoding), source, into) == (content, 0, len(data))


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", CODED)
def test_every_size_of_a_read(tmp_path, library, encoding):
    data, content = members(encoding)
    path = tmp_path / "file"
    path.write_bytes(data)
    for piece in [*range(1, 65), 1000, len(content) - 1, len(content), len(content) + 1]:
        assert whole(path, number(encoding), piece) == content


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", CODED)
def test_files_longer_than_all_buffers(tmp_path, library, encoding):
    content = text(3_000_000) + bytes(2_000_000) + random.Random(2).randbytes(1_500_000) + text(500_000)
    path = tmp_path / "file"
    path.write_bytes(compress(encoding, content, 1))
    kib = 1 << 10
    for piece in (777, 64 * kib, 128 * kib - 1, 128 * kib, 128 * kib + 1, 300 * kib, 8 << 20):
        assert whole(path, number(encoding), piece) == content
    # Turn and turn about: through the stream's own memory, and past it.
    stream = parsers.FileStream(path, number(encoding))
    state = random.Random(3)
    parts = []
    while len(parts) < 2 or parts[-1]:
        part, error = stream.read(state.choice([1, 100, 10_000, 200_000, 1_000_000]))
        assert error is None
        parts.append(part)
    assert b"".join(parts) == content


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=5),
    source=st.integers(1, 400),
    into=st.integers(1, 400),
)
def test_members_with_zeros_behind_them(library, parts, source, into):
    data = b"".join(gzip.compress(part, level) + bytes(zeros) for part, zeros, level in parts)
    content = gzip.decompress(data)
    assert content == b"".join(part for part, _, _ in parts)
    assert parsers.inflate_pieces(data, number("GZIP"), source, into) == (content, 0, len(data))


def header(flags):
    """A GZIP header with the fields that the flags name."""
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(5) + b"\xff"
    if flags & 4:
        head += struct.pack("<H", 500) + bytes(range(250)) * 2
    if flags & 8:
        head += b"name of a file\0"
    if flags & 16:
        head += b"a comment" * 50 + b"\0"
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) if flags & 2 else head


@pytest.mark.parametrize("flags", range(32))
def test_every_gzip_header(library, flags):
    content = text(200)
    body = gzip.compress(content, mtime=0)[10:]
    data = header(flags) + body
    assert gzip.decompress(data) == content
    for source in [*range(1, 65), 1000]:
        assert parsers.inflate_pieces(data + data, number("GZIP"), source, 100) == (content * 2, 0, 2 * len(data))
    if flags & 2:
        wrong = bytearray(data)
        wrong[len(data) - len(body) - 1] ^= 1
        assert parsers.inflate_pieces(bytes(wrong), number("GZIP"), 100, 100)[:2] == (b"", DAMAGE["check"])
    no_extra = bytearray(data[:10]) + b"\0\0" + data[512:] if flags & 4 else None
    if no_extra and not flags & 2:
        assert parsers.inflate_pieces(bytes(no_extra), number("GZIP"), 1, 100)[:2] == (content, 0)


@pytest.mark.parametrize("flag", [32, 64, 128])
def test_flags_of_a_gzip_header_that_nobody_knows(library, flag):
    data = bytearray(gzip.compress(b"content"))
    data[3] |= flag
    assert parsers.inflate_pieces(bytes(data), number("GZIP"), 100, 100) == (b"", DAMAGE["header"], 0)


@needs_zstd
def test_zstd_frames_that_hold_nothing():
    skipped = b"\x50\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"user's!"
    data = skipped + zstd(b"one") + zstd(b"") + skipped + zstd(b"two") + skipped
    for size in range(1, 65):
        assert parsers.inflate_pieces(data, number("ZSTD"), size, 100) == (b"onetwo", 0, len(data))


@needs_zstd
def test_zstd_windows_of_any_size_up_to_the_limit():
    # Longer than the window, so that it wraps.
    content = text(300_000) * 40
    for level in (1, 19):
        data = zstd(content, level)
        assert parsers.inflate_pieces(data, number("ZSTD"), 10_000, 100_000) == (content, 0, len(data))


XZ_FILTERS = {
    "two filters": [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}],
    "x86": [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}],
    "the largest window": [
        {"id": lzma.FILTER_LZMA2, "dict_size": 128 << 20, "mf": lzma.MF_HC4, "mode": lzma.MODE_FAST}
    ],
}


@pytest.mark.parametrize("check", [lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256])
@pytest.mark.parametrize("filters", XZ_FILTERS)
def test_every_kind_of_xz(check, filters):
    content = text(3000) * 3
    data = lzma.compress(content, check=check, filters=XZ_FILTERS[filters])
    for size in (1, 7, 1000):
        assert parsers.inflate_pieces(data, number("XZ"), size, size) == (content, 0, len(data))


def test_zeros_between_xz_streams():
    data = lzma.compress(b"one") + bytes(8) + lzma.compress(b"two") + bytes(400)
    for size in (1, 4, 100):
        assert parsers.inflate_pieces(data, number("XZ"), size, 100) == (b"onetwo", 0, len(data))


def test_an_xz_window_that_is_too_large():
    larger = [{"id": lzma.FILTER_LZMA2, "dict_size": 192 << 20, "mf": lzma.MF_HC3, "mode": lzma.MODE_FAST}]
    data = lzma.compress(b"content", filters=larger)
    assert parsers.inflate_pieces(data, number("XZ"), 100, 100)[:2] == (b"", DAMAGE["window"])
    with pytest.raises(qc.errors.DecompressError, match="128 MiB"):
        qc.ops.decode_compressed(data, "XZ")


@pytest.mark.parametrize("level", range(1, 10))
def test_every_size_of_bz2_blocks(level):
    content = random.Random(level).randbytes(350_000)
    data = bz2.compress(content, level) + bz2.compress(b"end", 10 - level)
    assert parsers.inflate_pieces(data, number("BZ2"), 10_000, 200_000) == (content + b"end", 0, len(data))


@pytest.mark.skipif(shutil.which("lz4") is None, reason="the program lz4 is not here")
@pytest.mark.parametrize("block", ["-B4", "-B5", "-B7"])
@pytest.mark.parametrize("more", [[], ["-BD"], ["-BX"], ["--no-frame-crc"], ["--content-size"], ["-9", "-BD"]])
def test_every_kind_of_lz4_frames(tmp_path, block, more):
    content = text(400_000)
    (tmp_path / "file").write_bytes(content)
    command = ["lz4", "-q", "-z", "-c", block, *more, tmp_path / "file"]
    data = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=50).stdout
    skipped = b"\x50\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"user's!"
    data = skipped + data + skipped + data
    for source, into in ((997, 100_000), (100_000, 997), (1 << 20, 1 << 20)):
        assert parsers.inflate_pieces(data, number("LZ4"), source, into) == (content * 2, 0, len(data))


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("XZ", lzma.compress(b"content", lzma.FORMAT_ALONE)),
        ("LZ4", b"\x02\x21\x4c\x18" + bytes(20)),  # of before the frames
        ("BZ2", b"BZ0" + bytes(20)),
    ],
)
def test_formats_of_the_same_libraries(encoding, data):
    assert parsers.inflate_pieces(data, number(encoding), 100, 100) == (b"", DAMAGE["header"], 0)


def test_one_stream_for_many_files(tmp_path, library):
    paths = []
    for index, encoding in enumerate(["GZIP", "ZLIB", "NONE"] * 4):
        path = tmp_path / f"{index}"
        content = text(1000 * index, index)
        path.write_bytes(content if encoding == "NONE" else compress(encoding, content))
        paths.append((path, compression.encoding_number(encoding), content))
    stream = None
    for path, encoding, content in paths * 2:
        if stream is None:
            stream = parsers.FileStream(path, encoding)
        else:
            stream.__init__(path, encoding)  # closes the one before, where it is
        assert read_all(stream, 999) == (content, None)
    stream.close()
    stream.close()


# ---- memory ---------------------------------------------------------------------------------------------------------


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoding", JOINED)
def test_a_bomb_takes_no_more_memory_than_the_caller_asks_for(tmp_path, library, encoding):
    path = tmp_path / "bomb"
    # At the lowest level the window of XZ, which fills bit by bit, is no longer than the first read. LZ4 makes 255
    # bytes of one at most.
    path.write_bytes(compress(encoding, bytes(32 << 20), 1) * 16)
    assert path.stat().st_size < (16 * 32 << 20) // 200
    stream = parsers.FileStream(path, number(encoding))
    stream.read(1 << 20)
    before = resident()
    assert stream.skip(1 << 20) == (16 * 32 - 1) << 20
    assert resident() < before + (4 << 20)


def test_nothing_is_kept_by_streams_that_are_closed(tmp_path, library):
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(text(300_000)))

    def open_and_read(times):
        for _ in range(times):
            stream = parsers.FileStream(path, number("GZIP"))
            stream.read(1000)
            stream.close()

    open_and_read(20)
    before, descriptors = resident(), syscalls.open_files()
    open_and_read(300)
    assert resident() < before + (2 << 20)
    assert syscalls.open_files() == descriptors
