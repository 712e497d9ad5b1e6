"""What may be left out, how it is counted, and the log of it."""

import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.process import open_descriptors, run_python

from queuecore._io.bad_data import Quarantine, Told, check_on_error, is_bad_data
from queuecore.errors import (
    CancelledError,
    ChecksumError,
    CsvError,
    DataLossError,
    DecompressError,
    DtypeError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotAFileError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    PipelineError,
    ProtoError,
    QueueCoreError,
    RecordTooLargeError,
    ResourceExhaustedError,
    SourceChangedError,
    TruncatedRecordError,
    UnavailableError,
    UnimplementedError,
)


def caused(cause):
    error = PipelineError("f raised")
    error.__cause__ = cause
    return error


def lines(path):
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


# Which errors


@pytest.mark.parametrize(
    "error",
    [
        DataLossError(),
        TruncatedRecordError(),
        ChecksumError(),
        DecompressError(),
        SourceChangedError(),
        InvalidArgumentError(),
        CsvError(),
        ProtoError(),
        DtypeError(),
        RecordTooLargeError(),
        caused(ValueError()),
        caused(OSError(errno.ENOENT, "missing")),
        caused(ChecksumError()),
        caused(RecordTooLargeError()),
        caused(caused(KeyError())),
        NotFoundError(errno=errno.ENOENT),
        PermissionDeniedError(errno=errno.EACCES),
        NotAFileError(errno=errno.EISDIR),
        UnavailableError(errno=errno.ELOOP),
        UnavailableError(errno=errno.ENAMETOOLONG),
        UnavailableError("no regular file"),
    ],
)
def test_the_fault_of_the_data(error):
    assert is_bad_data(error)
    quarantine = Quarantine()
    quarantine.skip(error)
    assert quarantine.counts() == {"skipped": 1, "skipped_files": 0, "skipped_bytes": 0}


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError(errno=errno.EIO),
        UnavailableError(errno=errno.EMFILE),
        UnavailableError(errno=errno.ESTALE),
        ResourceExhaustedError(),
        caused(MemoryError()),
        caused(OSError(errno.EMFILE, "too many")),
        caused(UnavailableError(errno=errno.EIO)),
        caused(OutOfRangeError()),
        caused(CancelledError()),
        caused(ResourceExhaustedError()),
        UnimplementedError(),
        CancelledError(),
        OutOfRangeError(),
        FailedPreconditionError(),
        InternalError(),
    ],
)
def test_the_fault_of_somebody_else(error, tmp_path):
    assert not is_bad_data(error)
    quarantine = Quarantine(tmp_path / "log")
    with pytest.raises(type(error)) as caught:
        quarantine.skip(error)
    assert caught.value is error
    assert quarantine.counts() == {"skipped": 0, "skipped_files": 0, "skipped_bytes": 0}
    assert not (tmp_path / "log").exists()


# Counts


def test_counts_of_records_files_and_bytes():
    quarantine = Quarantine()
    quarantine.skip(ChecksumError("a"), nbytes=10)
    quarantine.skip(ChecksumError("a"), nbytes=None)
    quarantine.skip(ChecksumError("a"), file=True, nbytes=500)
    quarantine.skip(NotFoundError("a"), file=True)
    assert quarantine.counts() == {"skipped": 2, "skipped_files": 2, "skipped_bytes": 510}


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_one_more_than_may_be(tmp_path, limit):
    path = tmp_path / "log"
    quarantine = Quarantine(path, limit)
    for index in range(limit):
        quarantine.skip(ChecksumError(str(index)), file=index == 1)
    error = ChecksumError("too many", record=7)
    with pytest.raises(ChecksumError) as caught:
        quarantine.skip(error)
    assert caught.value is error
    assert f"max_skips={limit}" in error.__notes__[0]
    # It was not left out.
    counts = quarantine.counts()
    assert counts["skipped"] + counts["skipped_files"] == limit
    assert (len(lines(path)) if limit else path.exists()) == limit


def test_threads_count_together(tmp_path):
    path = tmp_path / "log"
    quarantine = Quarantine(path, 700)
    raised = []

    def work(index):
        for record in range(100):
            try:
                quarantine.skip(ChecksumError("x" * 300, record=index * 100 + record), nbytes=3)
            except ChecksumError as error:
                raised.append(error.record)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert quarantine.counts() == {"skipped": 700, "skipped_files": 0, "skipped_bytes": 2100}
    assert sorted([*raised, *(line["record"] for line in lines(path))]) == list(range(800))


# The log


def test_a_line_for_each(tmp_path):
    path = tmp_path / "log"
    quarantine = Quarantine(path)
    assert not path.exists()  # until there is something to say
    quarantine.skip(ChecksumError("damaged\nhere: ä", path="/data/a", offset=19, record=1), nbytes=3)
    quarantine.skip(NotFoundError("gone", errno=errno.ENOENT, path="/data/b"), file=True)
    assert lines(path) == [
        {
            "path": "/data/a",
            "offset": 19,
            "record": 1,
            "reason": "ChecksumError",
            "message": "damaged\nhere: ä",
            "file": False,
            "bytes": 3,
        },
        {
            "path": "/data/b",
            "offset": None,
            "record": None,
            "reason": "NotFoundError",
            "message": "gone",
            "file": True,
            "bytes": None,
        },
    ]


def test_a_log_goes_on(tmp_path):
    path = tmp_path / "log"
    for index in range(3):
        Quarantine(path).skip(ChecksumError(record=index))
    assert [line["record"] for line in lines(path)] == [0, 1, 2]


def test_a_name_that_is_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe \xc3\xa4\n"
    path = tmp_path / "log"
    Quarantine(path).skip(NotFoundError(path=name), file=True)
    assert os.fsencode(lines(path)[0]["path"]) == name


def test_a_log_whose_name_is_no_text(tmp_path):
    name = os.fsencode(tmp_path) + b"/log\xff"
    quarantine = Quarantine(name)
    quarantine.skip(ChecksumError())
    assert os.path.getsize(name) > 0
    assert os.fsencode(quarantine.path) == name


def test_a_relative_name_is_of_the_directory_at_the_beginning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quarantine = Quarantine("log")
    os.mkdir("other")
    os.chdir("other")
    quarantine.skip(ChecksumError())
    assert os.listdir(tmp_path / "other") == []
    assert len(lines(tmp_path / "log")) == 1


def test_a_log_that_is_moved_away(tmp_path):
    path = tmp_path / "log"
    quarantine = Quarantine(path)
    before = open_descriptors()
    quarantine.skip(ChecksumError(record=0))
    path.rename(tmp_path / "old")
    quarantine.skip(ChecksumError(record=1))
    assert [line["record"] for line in lines(path)] == [1]
    assert open_descriptors() <= before


def test_a_long_message_is_cut(tmp_path):
    path = tmp_path / "log"
    Quarantine(path).skip(ChecksumError("x" * 1_000_000))
    assert path.stat().st_size < 3000


APPEND = """
    import sys
    from queuecore._io.bad_data import Quarantine
    from queuecore.errors import ChecksumError
    quarantine, index = Quarantine(sys.argv[1]), int(sys.argv[2])
    for record in range(200):
        quarantine.skip(ChecksumError("y" * (1 + index * 997 + record), record=index * 200 + record))
"""


def test_processes_share_a_log(tmp_path):
    """Lines of several processes stand whole beside each other."""
    path = tmp_path / "log"
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda index: run_python(APPEND, path, index), range(3)))
    assert [(child.returncode, child.stderr) for child in ended] == [(0, "")] * 3
    assert sorted(line["record"] for line in lines(path)) == list(range(600))


# What can't be


@pytest.mark.parametrize("most", [-1, 1.5, True, "3"])
def test_no_such_limit(most):
    with pytest.raises(InvalidArgumentError, match="max_skips must be an integer from 0 on"):
        Quarantine(max_skips=most)


@pytest.mark.parametrize("path", [7, "", b"a\0b", ["a"]])
def test_no_path(path):
    with pytest.raises(InvalidArgumentError, match="quarantine"):
        Quarantine(path)


def test_a_log_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path, kind in [
        (tmp_path, NotAFileError),
        (tmp_path / "missing" / "log", NotFoundError),
        (tmp_path / "file" / "log", NotFoundError),
    ]:
        with pytest.raises(kind, match="cannot write the quarantine log") as caught:
            Quarantine(path)
        assert caught.value.path == caught.value.filename == str(path)


def test_a_log_that_may_not_be_written(tmp_path):
    path = tmp_path / "log"
    path.touch(0o444)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write everywhere: make test")
    with pytest.raises(PermissionDeniedError):
        Quarantine(path)


def test_a_log_on_a_full_disk():
    quarantine = Quarantine("/dev/full")
    bad = ChecksumError("bad")
    with pytest.raises(UnavailableError) as caught:
        quarantine.skip(bad)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.path == caught.value.filename == "/dev/full"
    assert "'/dev/full': No space left on device" in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is bad
    assert set(quarantine.counts().values()) == {0}


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.EFBIG])
def test_a_log_that_is_written_in_part(tmp_path, monkeypatch, number):
    # What comes behind the part says why it was one.
    write, left = os.write, [5]

    def some(fd, data):
        if not left:
            raise OSError(number, os.strerror(number))
        return write(fd, data[: left.pop()])

    quarantine = Quarantine(tmp_path / "log", 1)
    bad = ChecksumError("bad")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", some)
        with pytest.raises(QueueCoreError) as caught:
            quarantine.skip(bad, nbytes=7)
    assert caught.value.errno == number
    assert caught.value.__cause__ is caught.value.__context__ is bad
    assert set(quarantine.counts().values()) == {0}
    quarantine.skip(bad, nbytes=7)  # the only one that is allowed
    assert quarantine.counts() == {"skipped": 1, "skipped_files": 0, "skipped_bytes": 7}


def test_a_log_that_takes_parts(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    Quarantine(tmp_path / "log").skip(ChecksumError("bad", record=4))
    assert json.loads((tmp_path / "log").read_text())["record"] == 4


def test_a_log_whose_folder_goes_away(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    quarantine = Quarantine(folder / "log")
    folder.rmdir()
    with pytest.raises(NotFoundError, match="quarantine log"):
        quarantine.skip(ChecksumError())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("ignore", None, None), "on_error must be"),
        ((None, None, None), "on_error must be"),
        (("raise", 3, None), "max_skips is of use only"),
        (("raise", None, "log"), "quarantine is of use only"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        check_on_error(*options)


def test_options():
    assert check_on_error("raise", None, None) is None
    quarantine = check_on_error("skip", 3, None)
    assert (quarantine.max_skips, quarantine.path) == (3, None)


# Files that can't be the log


def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UnavailableError, match="quarantine log") as caught:
        Quarantine(pipe)
    assert caught.value.errno == errno.ENXIO
    pipe.unlink()
    quarantine = Quarantine(pipe)
    os.mkfifo(pipe)
    with pytest.raises(UnavailableError) as caught:  # also if it is made later
        quarantine.skip(DataLossError("damaged"))
    assert caught.value.errno == errno.ENXIO and quarantine.counts()["skipped"] == 0


def test_a_pipe_that_somebody_reads_gets_the_lines(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        Quarantine(pipe).skip(DataLossError("damaged"))
        assert json.loads(os.read(reader, 1000))["message"] == "damaged"
    finally:
        os.close(reader)


@pytest.mark.parametrize("name", ["itself", "symlink", "hard link"])
def test_a_file_of_the_data_is_refused_under_any_name(tmp_path, name):
    data, log = tmp_path / "data", tmp_path / "data" if name == "itself" else tmp_path / "log"
    data.write_bytes(b"abc")
    if name == "symlink":
        log.symlink_to(data)
    elif name == "hard link":
        log.hardlink_to(data)
    quarantine = Quarantine(log)
    quarantine.check_apart([os.fsencode(tmp_path / "other"), "no\0name"])
    with pytest.raises(InvalidArgumentError, match="data"):
        quarantine.check_apart([os.fsencode(data)])
    with pytest.raises(InvalidArgumentError, match="data"):
        Told(quarantine).check_apart([data])
    with pytest.raises(InvalidArgumentError, match="data"):
        quarantine.skip(DataLossError("damaged", path=data))
    assert data.read_bytes() == b"abc" and quarantine.counts()["skipped"] == 0
