"""``queuecore verify``: every fault of every file, with its place, and an exit code that scripts can use."""

import gzip
import os
import random
import re
import signal
import subprocess
import sys
import zlib

import pytest
from helpers.formats.tfrecords import KNOWN, header, places, stream
from helpers.process import PATIENCE, open_descriptors

from queuecore import errors
from queuecore._core.io.codecs import library
from queuecore.cli.main import main
from queuecore.cli.verify import FixedLengthCheck, TFRecordCheck

RECORDS = [bytes([n]) * 100 for n in range(50)]
STARTS = places(RECORDS)


@pytest.fixture(autouse=True)
def no_descriptor_is_left():
    before = open_descriptors()
    yield
    assert open_descriptors() <= before


@pytest.fixture
def verify(capsys, tmp_path):
    """Run the command in this process; return exit code, the lines of the faults, and the summary."""

    def run(*args):
        code = main(["verify", *map(str, args)])
        printed = capsys.readouterr()
        assert printed.err == ""
        *faults, summary = printed.out.splitlines()
        return code, faults, summary

    return run


def test_good_files(verify, tmp_path):
    for n in range(3):
        (tmp_path / f"{n}.tfrecord").write_bytes(stream(RECORDS * n))
    assert verify(tmp_path / "*.tfrecord") == (0, [], "3 files, 150 good records (0.0 MB), 0 faults")


def test_an_index_beside_the_file(verify, tmp_path):
    data = bytearray(stream(RECORDS))
    data[STARTS[3] + 50] ^= 1
    data[STARTS[7] + 9] ^= 1
    (tmp_path / "bad").write_bytes(data)
    (tmp_path / "good").write_bytes(stream(KNOWN * 100_000))
    assert verify("--index", tmp_path / "bad", tmp_path / "good")[0] == 1
    lines = (tmp_path / "bad.idx").read_text().splitlines()
    assert lines == [f"{STARTS[n]} 116" for n in range(50) if n not in (3, 7)]
    content = (tmp_path / "good").read_bytes()
    rows = [tuple(map(int, line.split())) for line in (tmp_path / "good.idx").read_text().splitlines()]
    assert len(rows) == 300_000
    assert b"".join(content[start + 12 : start + length - 4] for start, length in rows[:9]) == b"".join(KNOWN * 3)
    assert rows[-1][0] + rows[-1][1] == len(content)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "bad.idx", "good", "good.idx"]
    assert verify(tmp_path / "good")[0] == 0


def test_an_index_that_can_not_be(capsys, verify, tmp_path):
    (tmp_path / "a").write_bytes(stream(KNOWN))
    for arguments in (["--compression", "gzip"], ["--record-bytes", "4"]):
        assert main(["verify", "--index", *arguments, str(tmp_path / "a")]) == 2
        assert "--index" in capsys.readouterr().err
    (tmp_path / "a.idx").mkdir()
    code, faults, _ = verify("--index", tmp_path / "a")
    assert code == 1
    assert "a.idx" in faults[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.idx"]


@pytest.mark.parametrize("word", ["none", "gzip", "ZLIB"])
def test_each_fault_is_named_with_its_place(verify, tmp_path, word):
    compress = {"none": bytes, "gzip": gzip.compress, "ZLIB": zlib.compress}[word]
    data = bytearray(stream(RECORDS))
    data[STARTS[3] + 50] ^= 1
    data[STARTS[7] + 9] ^= 1
    data[STARTS[30] : STARTS[30] + 12] = header(2**40)
    (tmp_path / "bad").write_bytes(compress(data[:-1]))
    (tmp_path / "good").write_bytes(compress(stream(KNOWN)))
    code, faults, summary = verify(tmp_path / "bad", tmp_path / "good", "--compression", word)
    assert code == 1
    assert summary == "2 files, 49 good records (0.0 MB), 4 faults"
    places_of = [
        ("ChecksumError", 3, f"; goes on at byte {STARTS[4]}"),
        ("ChecksumError", 7, f"; goes on at byte {STARTS[8]}"),
        ("RecordTooLargeError", 30, f"; goes on at byte {STARTS[31]}"),
        ("TruncatedRecordError", 49, ""),
    ]
    assert len(faults) == len(places_of)
    for line, (kind, record, rest) in zip(faults, places_of, strict=True):
        assert line.startswith(f"{kind}: ")
        assert str(tmp_path / "bad") in line
        assert re.search(rf"\brecord {record}\b", line)
        assert re.search(rf"\bbyte {STARTS[record]}\b", line)
        assert line.endswith(rest)


def test_zstd(verify, tmp_path):
    zstandard = pytest.importorskip("zstandard", reason="no zstandard here to compress with")
    if library(3) is None:
        pytest.skip("no libzstd here")
    data = bytearray(stream(RECORDS))
    data[STARTS[3] + 50] ^= 1
    (tmp_path / "a").write_bytes(zstandard.compress(bytes(data)))
    code, (line,), summary = verify(tmp_path / "a", "--compression", "zstd")
    assert (code, summary) == (1, "1 file, 49 good records (0.0 MB), 1 fault")
    assert line.endswith(f"; goes on at byte {STARTS[4]}")


def test_the_limit_can_be_raised_and_lowered(verify, tmp_path):
    (tmp_path / "a").write_bytes(stream([b"x" * 100, b"y"]))
    assert verify(tmp_path / "a", "--max-record-bytes", 100)[0] == 0
    code, faults, summary = verify(tmp_path / "a", "--max-record-bytes", 99)
    assert (code, summary) == (1, "1 file, 1 good record (0.0 MB), 1 fault")
    assert faults[0].startswith("RecordTooLargeError: ")


def test_what_is_no_tfrecord_file(verify, tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(stream(RECORDS)))
    code, (line,), _ = verify(tmp_path / "a")
    assert code == 1
    assert "uncompressed TFRecord file?" in line
    assert line.endswith("; no record follows")


@pytest.mark.parametrize("cut", [1, 8, 200])
def test_damaged_compression_ends_a_file_after_its_good_records(verify, tmp_path, cut):
    data = stream([random.Random(n).randbytes(1000) for n in range(20)])
    (tmp_path / "a").write_bytes(gzip.compress(data)[:-cut])
    (tmp_path / "b").write_bytes(gzip.compress(stream(KNOWN)))
    code, faults, summary = verify(tmp_path / "a", tmp_path / "b", "--compression", "GZIP")
    assert code == 1
    assert [line.split(":")[0] for line in faults] == ["DecompressError"]
    assert str(tmp_path / "a") in faults[0]
    assert summary.startswith(f"2 files, {22 if cut == 200 else 23} good records")


def test_files_that_cannot_be_read_do_not_stop_the_others(verify, tmp_path):
    (tmp_path / "good").write_bytes(stream(KNOWN))
    os.mkfifo(tmp_path / "pipe")
    code, faults, summary = verify(tmp_path / "missing", tmp_path, tmp_path / "pipe", tmp_path / "good")
    assert code == 1
    assert [line.split(":")[0] for line in faults] == ["NotFoundError", "NotAFileError", "UnavailableError"]
    assert summary == "4 files, 3 good records (0.0 MB), 3 faults"


def test_fixed_length_files(verify, tmp_path):
    (tmp_path / "a").write_bytes(b"HH" + bytes(30) + b"F")
    (tmp_path / "empty").write_bytes(b"")
    options = ["--record-bytes", 10, "--header-bytes", 2, "--footer-bytes", 1]
    assert verify(tmp_path / "a", tmp_path / "empty", *options) == (0, [], "2 files, 3 good records (0.0 MB), 0 faults")
    code, (line,), summary = verify(tmp_path / "a", "--record-bytes", 8, "--header-bytes", 2)
    assert (code, summary) == (1, "1 file, 3 good records (0.0 MB), 1 fault")
    assert line.startswith("TruncatedRecordError: ")
    assert str(tmp_path / "a") in line
    assert "record 3" in line
    assert "byte 26" in line
    code, (line,), _ = verify(tmp_path / "a", "--record-bytes", 8, "--header-bytes", 40)
    assert (code, line.split(":")[0]) == (1, "TruncatedRecordError")


def test_compressed_fixed_length_files(verify, tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(bytes(3_000_000)))
    assert verify(tmp_path / "a", "--record-bytes", 300, "--compression", "gzip")[::2] == (
        0,
        "1 file, 10,000 good records (3.0 MB), 0 faults",
    )
    assert verify(tmp_path / "a", "--record-bytes", 301, "--compression", "gzip")[0] == 1


@pytest.mark.parametrize(
    ("check", "data"),
    [(FixedLengthCheck(8, 2), bytes(21)), (TFRecordCheck(), stream(KNOWN)[:-1])],
)
def test_the_errors_carry_their_place(tmp_path, check, data):
    path = tmp_path / "a"
    path.write_bytes(data)
    ((error, _),) = check.faults(os.fsencode(path))
    assert isinstance(error, errors.TruncatedRecordError)
    assert (error.path, error.record, error.stage) == (str(path), 2, "read")
    assert error.offset == (18 if isinstance(check, FixedLengthCheck) else places(KNOWN)[2])


def test_ctrl_c_ends_it_in_the_middle_of_a_file(tmp_path):
    # A damaged record, then a length that is none: the rest, which takes minutes, is searched for a header.
    data = bytearray(stream([b"first"]))
    data[13] ^= 1
    (tmp_path / "a").write_bytes(data)
    os.truncate(tmp_path / "a", 1 << 40)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "queuecore.cli", "verify", str(tmp_path / "a")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test runner in the background ignores it, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline().startswith("ChecksumError: ")
    process.send_signal(signal.SIGINT)
    _, errors_ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors_) == (130, "queuecore: interrupted\n")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["a", "--compression", "rar"], 2),
        (["a", "--record-bytes", "0"], 2),
        (["a", "--header-bytes", "4"], 2),
        ([], 2),
        (["no-*-such"], 1),
    ],
)
def test_wrong_use_is_one_line(tmp_path, args, code):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "queuecore.cli", "verify", *args], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("queuecore")
