"""Names of files as URIs of RFC 8089 and as a shell's ``~``, wherever a name is taken; names of what lies elsewhere."""

import gzip
import json
import os
import pathlib
import re

import numpy as np
import pytest

import queuecore as qc
import queuecore.tf1 as tf
from queuecore.cli.main import main
from queuecore.data import (
    CsvDataset,
    Dataset,
    FixedLengthRecordDataset,
    NumpyDataset,
    Options,
    TextLineDataset,
    WholeFileDataset,
)
from queuecore.errors import InvalidArgumentError, NotFoundError, UnimplementedError

NAME = "a b%1.txt"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with a file in it whose name an URI writes otherwise, in a process that works in another folder."""
    folder = tmp_path / "ho me"
    folder.mkdir()
    (folder / NAME).write_text("7,8\n")
    monkeypatch.setenv("HOME", str(folder))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


FORMS = {
    "as_uri": lambda path: path.as_uri(),  # the standard library's: file:///…/ho%20me/a%20b%251.txt
    "localhost": lambda path: "file://localhost" + path.as_uri().removeprefix("file://"),
    "letters": lambda path: "FILE" + path.as_uri().removeprefix("file"),
    "short": lambda path: "file:" + path.as_uri().removeprefix("file://"),
    "of pathlib": lambda path: pathlib.PurePath(path.as_uri()),  # keeps one slash of several
    "bytes": lambda path: path.as_uri().encode(),
    "home": lambda path: f"~/{path.name}",
    "home of pathlib": lambda path: pathlib.Path("~", path.name),
    "home as bytes": lambda path: b"~/" + os.fsencode(path.name),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def graph_value(make):
    """Return the value of a tensor that is made in a graph of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        made = make()
        session.run(tf.local_variables_initializer())
        return session.run(made)


def through_a_queue(name, reader):
    """Return what a graph's reader gives of a name in a queue, by a run of each record."""

    def make():
        queue = tf.FIFOQueue(1, [tf.string], [()])
        with tf.control_dependencies([queue.enqueue([name])]):
            return reader().read(queue)[1]

    return graph_value(make)


def programmed(name):
    """Return the first record that a stage program gives of a name in a queue of strings."""
    names, queue = qc.FIFOQueue(-1, [bytes], [()]), qc.FIFOQueue(-1, [bytes, bytes], [(), ()])
    names.enqueue(os.fsencode(name))
    names.close()
    coordinator = qc.Coordinator()
    program = qc.StageProgram(qc.TextLineReader(), names)
    threads = qc.QueueRunner(queue, [program]).create_threads(coordinator, start=True)
    try:
        return queue.dequeue()[1]
    finally:
        coordinator.request_stop()
        coordinator.join(threads)


READS = {
    "lines": lambda name: list(TextLineDataset(name)),
    "list": lambda name: list(TextLineDataset([name])),
    "whole": lambda name: [WholeFileDataset(name).get_single_element()[1][:3]],
    "csv": lambda name: [b"%d,%d" % row for row in CsvDataset(name, [0, 0])],
    "fixed": lambda name: [row.tobytes() for row in FixedLengthRecordDataset(name, 3, footer_bytes=1)],
    "list_files": lambda name: list(TextLineDataset(list(Dataset.list_files(name)))),
    "interleave": lambda name: list(
        Dataset.from_tensor_slices([os.fspath(name)] * 3).interleave(TextLineDataset, cycle_length=1).take(1)
    ),
    "shuffled": lambda name: list(
        Dataset.from_tensor_slices([os.fspath(name)]).shuffle(3, 1).interleave(TextLineDataset, cycle_length=1)
    ),
    "flat_map": lambda name: list(
        Dataset.from_tensor_slices([os.fspath(name)]).flat_map(lambda one: TextLineDataset(one))
    ),
    "reader": lambda name: [qc.TextLineReader().read([name])[1]],
    "program": lambda name: [programmed(name)],
    "tf1 dataset": lambda name: [
        graph_value(lambda: tf.data.TextLineDataset(os.fsencode(name)).make_one_shot_iterator().get_next())
    ],
    "tf1 reader": lambda name: [through_a_queue(os.fsencode(name), tf.TextLineReader)],
    "read_file": lambda name: [graph_value(lambda: tf.read_file(os.fsencode(name)))[:3]],
    "matching_files": lambda name: [
        pathlib.Path(os.fsdecode(one)).read_bytes()[:3]
        for one in graph_value(lambda: tf.matching_files(os.fsencode(name)))
    ],
    "match_filenames_once": lambda name: [
        pathlib.Path(os.fsdecode(one)).read_bytes()[:3]
        for one in graph_value(lambda: tf.train.match_filenames_once(os.fsencode(name)))
    ],
    "gfile": lambda name: [tf.gfile.GFile(name, "rb").read()[:3]],
    "gfile.Glob": lambda name: [pathlib.Path(one).read_bytes()[:3] for one in tf.gfile.Glob(name)],
}


@forms
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_file_is_read_under_each_name(home, read, form):
    assert read(form(home / NAME)) == [b"7,8"]


def test_arrays_and_compressed_files_too(home):
    np.save(home / "x.npy", np.arange(3))
    (home / "x.gz").write_bytes(gzip.compress(b"one\n"))
    assert [int(one) for one in NumpyDataset("~/x.npy")] == [0, 1, 2]
    assert list(TextLineDataset((home / "x.gz").as_uri(), "GZIP")) == [b"one"]


def test_patterns(home):
    for name in ("x1", "x2", "y1"):
        (home / name).write_text(name)
    uri = home.as_uri()
    for pattern in ("~/x*", f"{uri}/x?", f"{uri}/x%2A"):
        assert list(TextLineDataset(pattern)) == [b"x1", b"x2"]
        assert sorted(Dataset.list_files(pattern)) == [os.fsencode(home / name) for name in ("x1", "x2")]
    assert list(TextLineDataset(["~/y1", f"{uri}/x2"])) == [b"y1", b"x2"]


def write_array(name):
    with qc.FixedLengthRecordWriter(name, "u1") as writer:
        writer.write(np.array([1, 2], np.uint8))


def write_records(name):
    with qc.TFRecordWriter(name) as writer:
        writer.write(b"one")


def write_cache(name):
    list(Dataset.range(3).cache(name))


def write_snapshot(name):
    list(Dataset.range(3).snapshot(name))


def write_trace(name):
    with iter(Dataset.range(3).batch(1)) as batches, batches.trace(name):
        list(batches)


def write_quarantine(name):
    pathlib.Path("bad.csv").write_text("1\nx\n")
    options = Options(on_error="skip", quarantine=name)
    assert [row for (row,) in CsvDataset("bad.csv", [0]).with_options(options)] == [1]


def write_graph_file(name):
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.write_file(os.fsencode(name), "x"))


def write_gfile(name):
    with tf.gfile.GFile(name, "w") as file:
        file.write("x")


WRITES = {
    "FixedLengthRecordWriter": (write_array, "", lambda path: path.read_bytes() == b"\1\2"),
    "TFRecordWriter": (write_records, "", lambda path: path.stat().st_size == 19),
    "cache": (write_cache, ".index", lambda path: path.stat().st_size > 0),
    "snapshot": (write_snapshot, "", lambda path: path.is_dir()),
    "trace": (write_trace, "", lambda path: json.loads(path.read_text()) is not None),
    "quarantine": (write_quarantine, "", lambda path: json.loads(path.read_text())["reason"] == "CsvError"),
    "tf1.write_file": (write_graph_file, "", lambda path: path.read_bytes() == b"x"),
    "gfile": (write_gfile, "", lambda path: path.read_bytes() == b"x"),
    "gfile.MakeDirs": (tf.gfile.MakeDirs, "", lambda path: path.is_dir()),
}


@forms
@pytest.mark.parametrize(("write", "suffix", "is_right"), WRITES.values(), ids=WRITES)
def test_a_file_is_written_under_each_name(home, write, suffix, is_right, form):
    write(form(home / "new one"))
    assert is_right(home / f"new one{suffix}")
    assert not any(one.name in ("~", "file:") for one in pathlib.Path().iterdir())


def test_the_command_line(home, capsys):
    write_records(home / "x.tfrecord")
    for name in ("~/x.*", (home / "x.tfrecord").as_uri()):
        assert main(["verify", name]) == 0
        assert "1 file, 1 good record" in capsys.readouterr().out
    (home / "x.bin").write_bytes(bytes(12))
    assert main(["stream", "~/x.bin", "--record-bytes", "4", "--batch", "2", "--rounds", "0"]) == 0
    assert "3 records of 4 bytes" in capsys.readouterr().out
    assert main(["verify", "nothing://bucket/x"]) == 1
    assert "mount" in capsys.readouterr().err


# Of schemes that nobody knows: of others see test_remote.
ELSEWHERE = [
    "nothing://bucket/x",
    "no-thing://bucket/*.bin",
    "nothing://host/x?y=1",
    pathlib.Path("nothing://bucket/x"),
]
ANYWHERE = [
    TextLineDataset,
    lambda name: NumpyDataset([name]),
    Dataset.list_files,
    lambda name: qc.TextLineReader().read([name]),
    lambda name: through_a_queue(os.fsencode(name), tf.WholeFileReader),
    tf.gfile.Glob,
    qc.TFRecordWriter,
]
LOCAL = [
    lambda name: Dataset.range(1).cache(name),
    lambda name: Dataset.range(1).snapshot(name),
    lambda name: Options(on_error="skip", quarantine=name),
    lambda name: Dataset.range(1).save(name),
    Dataset.load,
    lambda name: qc.data.experimental.SqlDataset("sqlite", name, "select 1", (int,)),
    lambda name: qc.LMDBReader().read([name]),
    lambda name: iter(Dataset.range(1)).trace(name),
    tf.gfile.Exists,
]


@pytest.mark.parametrize("name", ELSEWHERE, ids=str)
@pytest.mark.parametrize("use", ANYWHERE)
def test_what_nobody_can_read_is_refused_with_what_to_do(use, name):
    with pytest.raises(UnimplementedError, match="no local file, and fsspec.*copy it.*mount") as caught:
        use(name)
    assert caught.value.path == f"{name}".replace("nothing:/bucket", "nothing://bucket").replace("y=1", "y=...")


@pytest.mark.parametrize("name", ELSEWHERE, ids=str)
@pytest.mark.parametrize("use", LOCAL)
def test_what_must_be_local(use, name):
    with pytest.raises(UnimplementedError, match="only a local file.*mount") as caught:
        use(name)
    assert caught.value.path == str(name).replace("y=1", "y=...")


def test_names_in_a_list_of_which_one_lies_elsewhere(home):
    names = [str(home / NAME)] * 4 + ["nothing://bucket/x"]
    lines = iter(Dataset.from_tensor_slices(names).interleave(TextLineDataset, cycle_length=1))
    assert [next(lines) for _ in range(4)] == [b"7,8"] * 4
    with pytest.raises(qc.errors.QueueCoreError, match="'nothing://bucket/x'"):
        next(lines)


def test_a_program_says_what_lies_elsewhere():
    with pytest.raises(UnimplementedError, match="'nothing://bucket/x'"):
        programmed("nothing://bucket/x")


def test_an_uri_of_another_machine():
    with pytest.raises(InvalidArgumentError, match="machine 'data'.*three slashes"):
        TextLineDataset("file://data/x.txt")


def test_names_that_only_look_like_others(home):
    # As a shell takes them: only a "~" at the beginning; nobody's home; a folder whose name ends with a colon.
    for name in ("x~", "~nobody-has-this-name", "run:/x", "run://y", "c:x", "x/s3:/y", "x/~/y"):
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        assert list(TextLineDataset(name)) == list(TextLineDataset([name])) == [name.encode()]
        assert qc.TextLineReader().read([name])[1] == programmed(name) == name.encode()
    with pytest.raises(NotFoundError):
        list(TextLineDataset("./~/x"))


def test_names_that_are_listed_are_those_that_are_read(home):
    # A folder that is really called "~" isn't home.
    pathlib.Path("~").mkdir()
    pathlib.Path("~", NAME).write_text("of the folder\n")
    for names in (list(Dataset.list_files(f"*/{NAME}")), tf.gfile.Glob(f"*/{NAME}")):
        assert list(TextLineDataset(names)) == [b"of the folder"]


def test_identity_readers_leave_names_as_they_are(home):
    for name in (b"~/x", b"s3://bucket/x", b"file:///x"):
        assert qc.IdentityReader().read([name]) == (name, name)


def test_the_page_that_errors_name_is_there():
    root = pathlib.Path(qc.__file__).parent.parent
    if not (root / "docs").exists():
        pytest.skip("runs where the docs are")
    with pytest.raises(UnimplementedError) as caught:
        TextLineDataset("nothing://bucket/x")
    (page,) = re.findall(r"docs/[\w-]+\.md", str(caught.value))
    assert (root / page).exists()
