"""Files as streams of bytes, when the storage misbehaves or the compressed data is damaged."""

import errno
import gzip
import os
import random
import threading
import time
import zlib

import pytest
from helpers.formats.compressed import CODED, IN_BLOCKS, JOINED, LIBRARIES, before_the_cut, compress, number, text
from helpers.process import AT_ONCE, PATIENCE, open_descriptors

import queuecore as qc
from queuecore._io import compression

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
parsers = pytest.importorskip("queuecore._core.testing.parsers")
syscalls = pytest.importorskip("queuecore._core.testing.syscalls")

ALL = ["NONE", *CODED]


@pytest.fixture(autouse=True)
def faults_end_with_the_test():
    descriptors = open_descriptors()
    syscalls.reset_faults()
    yield
    syscalls.reset_faults()
    assert open_descriptors() <= descriptors


@pytest.fixture(params=LIBRARIES)
def library(request):
    name = parsers.prefer_library(request.param)
    if name is None or request.param not in name:
        parsers.prefer_library("")
        pytest.skip(f"{request.param} is not here")
    yield request.param
    parsers.prefer_library("")


def write(folder, encoding, content, level=6):
    path = folder / "file"
    path.write_bytes(content if encoding == "NONE" else compress(encoding, content, level))
    return path, compression.encoding_number(encoding)


def read_all(stream, piece=1000):
    """All bytes of a stream up to its end or its first error."""
    parts = []
    while True:
        before = stream.offset
        part, error = stream.read(piece)
        parts.append(part)
        assert stream.offset == before + len(part)
        if error is not None or len(part) < piece:
            return b"".join(parts), error


def assert_all_before_a_cut(got, content):
    # ISA-L takes up to three symbols at once, or none of them.
    assert content.startswith(got)
    assert len(content) - len(got) <= (0 if "libz" in parsers.find_library() else 3)


# ---- storage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("hook", ["one byte", "interrupted", "both", "later"])
def test_short_interrupted_and_delayed_reads_are_invisible(tmp_path, encoding, hook):
    content = text(5000)
    path, coded = write(tmp_path, encoding, content)
    if hook in ("one byte", "both"):
        syscalls.short_reads(1)
    if hook in ("interrupted", "both"):
        syscalls.interrupt_reads(2)
    if hook == "later":
        syscalls.fail_read(1, errno.EAGAIN)
    stream = parsers.FileStream(path, coded)
    assert read_all(stream) == (content, None)
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("piece", [100, 1000, 100_000])
def test_a_read_fails_and_may_be_tried_again(tmp_path, encoding, piece):
    content = text(20_000)
    path, coded = write(tmp_path, encoding, content)
    for nth in range(1, 300):
        syscalls.reset_faults()
        syscalls.short_reads(700)
        syscalls.fail_read(nth, errno.EIO)
        stream = parsers.FileStream(path, coded)
        results, error = read_all(stream, piece)
        if error is None:
            assert results == content
            assert nth > os.stat(path).st_size // 700
            stream.close()
            break
        assert type(error) is qc.errors.UnavailableError
        assert (error.errno, error.path, error.stage) == (errno.EIO, str(path), "read")
        assert "record" not in str(error)
        assert content.startswith(results)
        if encoding == "NONE":
            assert error.offset == len(results)
        else:
            assert error.offset == (nth - 1) * 700
        if encoding in ("GZIP", "ZLIB", "XZ"):
            assert_all_before_a_cut(results, before_the_cut(encoding, path.read_bytes()[: error.offset]))
        rest, error = stream.read(len(content))
        assert error is None
        assert results + rest == content
        stream.close()
    else:
        pytest.fail("never ran to the end")


@pytest.mark.parametrize("encoding", ALL)
def test_retries(tmp_path, encoding):
    content = text(5000)
    path, coded = write(tmp_path, encoding, content)
    for nth in (1, 2, 3):
        syscalls.reset_faults()
        syscalls.short_reads(700)
        syscalls.fail_read(nth, errno.EIO)
        stream = parsers.FileStream(path, coded, retries=1)
        assert read_all(stream) == (content, None)
        stream.close()
    for retries in (0, 1, 3):
        syscalls.reset_faults()
        syscalls.short_reads(700)
        syscalls.fail_read(2, errno.EIO, True)
        stream = parsers.FileStream(path, coded, retries=retries)
        _, error = read_all(stream)
        assert type(error) is qc.errors.UnavailableError
        assert (error.errno, error.offset) == (errno.EIO, 700)
        assert syscalls.read_count() == 2 + retries
        stream.close()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EBADF, errno.ENOMEM])
def test_only_input_output_errors_are_tried_again(tmp_path, code):
    path, coded = write(tmp_path, "GZIP", text(1000))
    syscalls.fail_read(1, code)
    stream = parsers.FileStream(path, coded, retries=5)
    got, error = read_all(stream)
    assert (got, error.errno) == (b"", code)
    assert syscalls.read_count() == 1
    stream.close()


def test_a_stop_ends_the_wait_for_another_try(tmp_path):
    path, _ = write(tmp_path, "NONE", text(1000))
    syscalls.fail_read(1, errno.EIO, True)
    stream = parsers.FileStream(path, 0, retries=1_000_000)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(read_all(stream)))
    thread.start()
    until = time.monotonic() + PATIENCE
    while syscalls.read_count() < 3 and time.monotonic() < until:
        time.sleep(0.001)
    assert thread.is_alive()
    begin = time.monotonic()
    stream.request_stop()
    thread.join(PATIENCE)
    assert time.monotonic() - begin < AT_ONCE
    assert outcomes[0][1].errno == errno.EIO
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
@pytest.mark.parametrize("code", [errno.ESTALE, errno.ETIMEDOUT])
def test_a_file_that_the_system_lost_is_opened_once_more(tmp_path, encoding, code):
    content = text(5000)
    path, coded = write(tmp_path, encoding, content)
    for nth in (1, 3):
        syscalls.reset_faults()
        syscalls.short_reads(700)
        syscalls.fail_read(nth, code)
        stream = parsers.FileStream(path, coded)
        assert read_all(stream) == (content, None)
        stream.close()
        syscalls.fail_read(nth, code, True)
        stream = parsers.FileStream(path, coded)
        _, error = read_all(stream, 6000)
        assert type(error) is qc.errors.UnavailableError
        assert (error.errno, error.offset, error.path) == (code, (nth - 1) * 700, str(path))
        assert syscalls.read_count() == nth + 1
        stream.close()


@pytest.mark.parametrize("way", ["another", "gone", "rewritten"])
def test_a_file_that_the_system_lost_is_another_now(tmp_path, way):
    path, _ = write(tmp_path, "NONE", text(5000))
    stream = parsers.FileStream(path)
    stream.read(1000)
    if way == "another":
        (tmp_path / "new").write_bytes(path.read_bytes())
        os.rename(tmp_path / "new", path)
    elif way == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(5000))
        os.utime(path, ns=(1, 1))
    syscalls.fail_read(1, errno.ESTALE)
    got, error = stream.read(1000)
    assert got == b""
    assert type(error) is (qc.errors.NotFoundError if way == "gone" else qc.errors.SourceChangedError)
    assert error.path == str(path)
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
def test_shortened_while_being_read(tmp_path, encoding):
    # More than is read ahead, in blocks of less: those of BZ2 have 100 kB for each level.
    content = random.Random(0).randbytes(500_000)
    path, coded = write(tmp_path, encoding, content, level=1)
    stream = parsers.FileStream(path, coded)
    first, error = stream.read(1000)
    assert error is None
    os.truncate(path, 200_000)
    got, error = read_all(stream, 50_000 + 1)
    assert type(error) is qc.errors.SourceChangedError
    assert error.offset == 200_000
    assert content.startswith(first + got)
    # Random bytes hardly get shorter.
    assert 200_000 - 140_000 < len(first + got) <= 200_000
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
def test_appended_to_while_being_read(tmp_path, encoding):
    content = random.Random(0).randbytes(500_000)
    path, coded = write(tmp_path, encoding, content)
    stream = parsers.FileStream(path, coded)
    first, _ = stream.read(1000)
    with path.open("ab") as file:
        file.write(b"more")
    rest, error = stream.read(len(content))
    assert error is None
    assert first + rest == content
    assert stream.read(10) == (b"", None)
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
def test_unlinked_while_being_read(tmp_path, encoding):
    content = random.Random(0).randbytes(500_000)
    path, coded = write(tmp_path, encoding, content)
    stream = parsers.FileStream(path, coded)
    path.unlink()
    assert read_all(stream) == (content, None)
    stream.close()


@pytest.mark.parametrize("encoding", ALL)
def test_files_that_can_not_be_opened(tmp_path, encoding):
    coded = number(encoding)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(qc.errors.NotFoundError):
        parsers.FileStream(tmp_path / "missing", coded)
    with pytest.raises(qc.errors.NotAFileError):
        parsers.FileStream(tmp_path, coded)
    with pytest.raises(qc.errors.UnavailableError):
        parsers.FileStream(tmp_path / "pipe", coded)
    path, coded = write(tmp_path, "NONE", b"x")
    syscalls.fail_open(1, errno.EMFILE)
    with pytest.raises(qc.errors.UnavailableError, match="ulimit"):
        parsers.FileStream(path, coded)


# ---- damaged data ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("encoding", CODED)
def test_cut_anywhere(tmp_path, library, encoding):
    content = text(600) + bytes(300)
    data = compress(encoding, content)
    path = tmp_path / "file"
    for cut in range(1, len(data)):
        path.write_bytes(data[:cut])
        stream = parsers.FileStream(path, number(encoding))
        results, error = read_all(stream, 7)
        assert type(error) is qc.errors.DecompressError
        assert (error.offset, error.path, error.stage) == (cut, str(path), "read")
        if encoding in IN_BLOCKS:
            assert content.startswith(results)
        else:
            assert_all_before_a_cut(results, before_the_cut(encoding, data[:cut]))
        # It stays so.
        again, error = stream.read(10)
        assert again == b""
        assert type(error) is qc.errors.DecompressError
        stream.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoding", JOINED)
def test_whole_members_before_a_cut(tmp_path, library, encoding):
    parts = [text(400, 1), b"", text(90, 2)]
    pieces = [compress(encoding, part) for part in parts]
    data = b"".join(pieces)
    ends = [sum(map(len, pieces[:n])) for n in range(4)]
    path = tmp_path / "file"
    for cut in range(1, len(data)):
        path.write_bytes(data[:cut])
        stream = parsers.FileStream(path, number(encoding))
        got, error = read_all(stream)
        complete = b"".join(part for part, end in zip(parts, ends[1:], strict=True) if end <= cut)
        assert got.startswith(complete)
        assert b"".join(parts).startswith(got)
        assert (error is None) == (cut in ends)
        assert error is None or (type(error) is qc.errors.DecompressError and error.offset == cut)
        stream.close()


@pytest.mark.parametrize("encoding", CODED)
def test_every_bit_flipped(library, encoding):
    content = text(120) + bytes(100)
    data = compress(encoding, content)
    unseen = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        got, what, place = parsers.inflate_pieces(bytes(flipped), number(encoding), 50, 70)
        assert 0 <= place <= len(data)
        if what == 0:
            assert got == content
            unseen += 1
    # GZIP's time, level, system and note that it is text; the rest of the last byte of deflate data. Of LZ4, the same
    # bytes from another place. BZ2's level, two bits of it, and the rest of its last byte.
    assert unseen <= {"GZIP": 8 * 6 + 1 + 7, "ZLIB": 7, "ZSTD": 8 * 2, "LZ4": 8 * 2, "XZ": 0, "BZ2": 9}[encoding]


@pytest.mark.parametrize("encoding", CODED)
def test_damage_in_the_middle_comes_after_the_good_bytes(tmp_path, library, encoding):
    # Blocks that are stored show what is good before the damage: all but the block that is concerned.
    content = random.Random(0).randbytes(1_000_000)
    data = bytearray(compress(encoding, content, 1))
    position = len(data) // 2
    data[position : position + 200_000] = b"\xff" * 200_000
    path = tmp_path / "file"
    path.write_bytes(data)
    for piece in (1000, 300_000, 2_000_000):
        stream = parsers.FileStream(path, number(encoding))
        got, error = read_all(stream, piece)
        assert type(error) is qc.errors.DecompressError
        assert len(data) * 0.9 > error.offset > position - 140_000 or error.offset == len(data)
        good = os.path.commonprefix([got, content])
        assert len(good) > position - 200_000
        assert f"{len(got)} bytes were decompressed" in str(error)
        stream.close()


@pytest.mark.parametrize("size", [0, 100, 20_000])
def test_a_copy_from_before_the_first_byte_gives_nothing(tmp_path, library, size):
    # Its bytes would be those of a file that was read before.
    state = random.Random(0)
    lost = bytes(state.choices(range(32), k=300))
    content = bytes(state.choices(range(97, 123), k=size)) + lost[:200]
    packer = zlib.compressobj(9, wbits=-15, zdict=lost)
    body = packer.compress(content) + packer.flush()
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(b"", mtime=0)[:10] + body + bytes(8))
    (tmp_path / "before").write_bytes(gzip.compress(state.randbytes(200_000)))
    for piece in (1000, 1 << 20):
        stream = parsers.FileStream(tmp_path / "before", number("GZIP"))
        read_all(stream, piece)
        stream.close()
        stream = parsers.FileStream(path, number("GZIP"))
        got, error = read_all(stream, piece)
        stream.close()
        assert type(error) is qc.errors.DecompressError
        assert content.startswith(got)
        assert len(got) >= size - (0 if library == "libz" else 258)


@pytest.mark.parametrize("size", [1, 7, 300_000])
@pytest.mark.parametrize(
    ("encoding", "back"), [("GZIP", 1), ("GZIP", 4), ("GZIP", 5), ("GZIP", 8), ("ZLIB", 1), ("ZLIB", 4)]
)
def test_checksums_and_lengths(tmp_path, library, encoding, back, size):
    content = text(10_000)
    data = bytearray(compress(encoding, content))
    data[-back] ^= 1
    path = tmp_path / "file"
    path.write_bytes(data)
    stream = parsers.FileStream(path, number(encoding))
    got, error = read_all(stream, size)
    assert got == content
    assert type(error) is qc.errors.DecompressError
    assert "checksum" in str(error)
    assert len(data) - 8 <= error.offset <= len(data)
    stream.close()


@pytest.mark.parametrize("zeros", [1, 511, 100_000, 400_000])
def test_zeros_behind_gzip_data(tmp_path, library, zeros):
    content = text(1000)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) + bytes(zeros))
    stream = parsers.FileStream(path, number("GZIP"))
    assert read_all(stream) == (content, None)
    stream.close()
    path.write_bytes(gzip.compress(content) + bytes(zeros) + b"x")
    stream = parsers.FileStream(path, number("GZIP"))
    got, error = read_all(stream)
    assert got == content
    assert type(error) is qc.errors.DecompressError
    assert error.offset == path.stat().st_size - 1
    stream.close()


@pytest.mark.parametrize("encoding", CODED)
@pytest.mark.parametrize("rest", [b"x", b"garbage" * 20, b"\x1f\x8b\x07" + bytes(20), b"\0x", b"\x1f"])
def test_something_else_behind_it(tmp_path, library, encoding, rest):
    content = text(1000)
    data = compress(encoding, content)
    path = tmp_path / "file"
    path.write_bytes(data + rest)
    stream = parsers.FileStream(path, number(encoding))
    got, error = read_all(stream)
    assert got == content
    assert type(error) is qc.errors.DecompressError
    assert len(data) <= error.offset <= len(data) + len(rest)
    stream.close()


@pytest.mark.parametrize("encoding", CODED)
def test_plain_data_where_compressed_was_promised(tmp_path, library, encoding):
    path = tmp_path / "file"
    path.write_bytes(b"label,value\n1,2\n")
    stream = parsers.FileStream(path, number(encoding))
    got, error = read_all(stream)
    assert got == b""
    assert type(error) is qc.errors.DecompressError
    assert error.offset == 0
    assert encoding in str(error)
    stream.close()


def test_every_read_fails_somewhere_and_all_data_is_cut(tmp_path, library):
    # Both at once: what the storage says comes where it said it, and the cut where the file ends.
    data = gzip.compress(text(5000))[:-3]
    path = tmp_path / "file"
    path.write_bytes(data)
    syscalls.short_reads(100)
    syscalls.interrupt_reads(3)
    for nth in range(1, 1000):
        syscalls.fail_read(nth, errno.EIO)
        stream = parsers.FileStream(path, number("GZIP"))
        results, error = read_all(stream, 100)
        if isinstance(error, qc.errors.UnavailableError):
            assert error.offset < len(data)
            rest, error = read_all(stream, 100)
            results += rest
        assert type(error) is qc.errors.DecompressError
        assert_all_before_a_cut(results, before_the_cut("GZIP", data))
        stream.close()
        if syscalls.read_count() < nth:
            break
