"""tf.gfile, tf.io.gfile and tf.python_io: files as TensorFlow has them. Expectations are TensorFlow's own answers."""

import os
import zlib

import pytest

import queuecore.tf1 as tf

gfile = tf.gfile
python_io = tf.python_io
E = tf.errors


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").write_bytes("héé\nzwei\ndrei".encode())
    (tmp_path / "s").mkdir()
    return str(tmp_path)


def test_what_is_written_is_read(tmp_path):
    name = str(tmp_path / "x")
    with gfile.GFile(name, "w") as file:
        file.write("héé\n")
        file.write(b"zwei")
        assert file.tell() == 10
        file.flush()
        assert file.size() == 10
    assert gfile.Open(name).read() == "héé\nzwei"
    assert gfile.FastGFile(name, "rb").read() == "héé\nzwei".encode()
    with gfile.GFile(name, "a") as file:
        file.write("!")
    assert gfile.Open(name).read() == "héé\nzwei!"


@pytest.mark.parametrize("mode", ["r+", "w+b", "a+"])
def test_reading_and_writing_have_places_of_their_own(tmp_path, mode):
    name = str(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"old\n")
    kept = b"old\n" if mode == "a+" else b""  # the first write empties it otherwise
    with gfile.GFile(name, mode) as file:
        file.write("one\ntwo\n")
        content = kept + b"one\ntwo\n"
        assert file.read() == (content if file.mode == "w+b" else content.decode())
        file.write("six")
        file.seek(0)
        assert [next(file), next(file)] == [one if file.mode == "w+b" else one.decode()
                                            for one in content.splitlines(True)[:2]]  # fmt: skip
        assert file.tell() == 8
    assert (tmp_path / "x").read_bytes() == content + b"six"


def test_places_and_numbers_of_bytes_that_make_no_sense(folder):
    file = gfile.GFile(folder + "/a")
    for wrong in (lambda: file.seek(-1), lambda: file.seek(-99, 2), lambda: file.read(-2)):
        with pytest.raises(E.InvalidArgumentError):
            wrong()
    with pytest.raises(TypeError):
        file.seek(0, position=0)
    with pytest.raises(E.PermissionDeniedError):
        gfile.GFile(folder + "/a", "a").seek(0)


def test_parts_of_a_file(folder):
    file = gfile.GFile(folder + "/a", "rb")
    assert (file.name, file.mode, file.size(), file.seekable()) == (folder + "/a", "rb", 15, True)
    assert file.read(2) == b"h\xc3"
    assert file.tell() == 2
    file.seek(-1, 2)
    assert file.read() == b"i"
    file.seek(1)
    file.seek(5, 1)
    assert file.readline() == b"zwei\n"
    file.seek(position=6)
    assert file.readlines() == [b"zwei\n", b"drei"]
    assert (file.readline(), file.read(), file.readlines()) == (b"", b"", [])
    file.seek(0)
    assert list(file) == [b"h\xc3\xa9\xc3\xa9\n", b"zwei\n", b"drei"]
    file.close()
    file.close()
    assert file.read(1) == b"h"  # opened anew
    file.close()
    with pytest.raises(TypeError):
        file.seek()
    with pytest.raises(E.InvalidArgumentError):
        file.seek(0, 3)


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda d: gfile.GFile(d + "/none").read(), E.NotFoundError),
        (lambda d: gfile.GFile(d + "/none").size(), E.NotFoundError),
        (lambda d: gfile.GFile(d).read(), E.NotAFileError),
        (lambda d: gfile.GFile(d + "/a").write("x"), E.PermissionDeniedError),
        (lambda d: gfile.GFile(d + "/q", "w").read(), E.PermissionDeniedError),
        (lambda d: gfile.GFile(d + "/q", "a").read(), E.PermissionDeniedError),
        (lambda d: gfile.GFile(d + "/q", "z"), E.InvalidArgumentError),
        (lambda d: gfile.GFile(d + "/none/q", "w").write("x"), E.NotFoundError),
        (lambda d: gfile.MkDir(d + "/u/v"), E.NotFoundError),
        (lambda d: gfile.MakeDirs(d + "/a"), E.FailedPreconditionError),
        (lambda d: gfile.ListDirectory(d + "/none"), E.NotFoundError),
        (lambda d: gfile.ListDirectory(d + "/a"), E.NotFoundError),
        (lambda d: gfile.Copy(d + "/a", d + "/s"), E.AlreadyExistsError),
        (lambda d: gfile.Copy(d + "/none", d + "/b"), E.NotFoundError),
        (lambda d: gfile.Rename(d + "/a", d + "/s"), E.AlreadyExistsError),
        (lambda d: gfile.Rename(d + "/none", d + "/b"), E.NotFoundError),
        (lambda d: gfile.Stat(d + "/none"), E.NotFoundError),
        (lambda d: gfile.Remove(d + "/none"), E.NotFoundError),
        (lambda d: gfile.Remove(d + "/s"), E.FailedPreconditionError),
        (lambda d: gfile.DeleteRecursively(d + "/none"), E.NotFoundError),
    ],
)
def test_refusals(folder, use, error):
    with pytest.raises(error) as caught:
        use(folder)
    assert type(caught.value) is error
    assert sorted(os.listdir(folder)) in (["a", "s"], ["a", "q", "s"])  # nothing else has changed


def test_an_error_of_the_system_is_that_too(folder):
    with pytest.raises(FileNotFoundError) as caught:
        gfile.GFile(folder + "/none").read()
    assert caught.value.errno == 2
    assert caught.value.filename == folder + "/none"


def test_directories(folder):
    assert (gfile.Exists(folder + "/a"), gfile.Exists(folder), gfile.Exists(folder + "/none")) == (True, True, False)
    assert gfile.Exists((folder + "/a").encode())
    assert [gfile.IsDirectory(folder + name) for name in ("", "/a", "/none")] == [True, False, False]
    gfile.MkDir(folder + "/s")
    gfile.MakeDirs(folder + "/u/v")
    gfile.MakeDirs(folder + "/u/v")
    assert gfile.ListDirectory(folder) == ["a", "s", "u"]
    assert gfile.Glob(folder + "/*") == [folder + name for name in ("/a", "/s", "/u")]
    assert gfile.Glob([folder + "/s*", folder + "/a"]) == [folder + "/a", folder + "/s"]
    assert gfile.Glob(pattern for pattern in (folder + "/s*",)) == [folder + "/s"]
    assert gfile.Glob(folder + "/n*") == []
    with gfile.GFile(folder + "/u/f", "w") as file:
        file.write("x")
    walked = [(folder, ["s", "u"], ["a"]), (folder + "/s", [], []), (folder + "/u", ["v"], ["f"]),
              (folder + "/u/v", [], [])]  # fmt: skip
    assert list(gfile.Walk(folder)) == walked
    assert [path for path, _, _ in gfile.Walk(folder + "/u", in_order=False)] == [folder + "/u/v", folder + "/u"]
    assert list(gfile.Walk(folder + "/none")) == []
    gfile.DeleteRecursively(folder + "/u")
    assert gfile.ListDirectory(folder) == ["a", "s"]


def test_copies_and_other_names(folder):
    gfile.Copy(folder + "/a", folder + "/b")
    gfile.GFile(folder + "/a", "w").write("new")
    gfile.Copy(folder + "/b", folder + "/a", overwrite=True)
    assert gfile.GFile(folder + "/a").read() == "héé\nzwei\ndrei"
    gfile.Rename(folder + "/b", folder + "/c")
    gfile.Rename(folder + "/c", folder + "/a", overwrite=True)
    assert gfile.ListDirectory(folder) == ["a", "s"]
    found = gfile.Stat(folder + "/a")
    assert (found.length, found.is_directory) == (15, False)
    assert found.mtime_nsec == os.stat(folder + "/a").st_mtime_ns
    gfile.Remove(folder + "/a")
    assert gfile.ListDirectory(folder) == ["s"]


def test_the_newer_names(folder):
    new = tf.io.gfile
    assert new.exists(folder)
    assert new.isdir(folder)
    assert new.listdir(folder) == ["a", "s"]
    assert new.glob(folder + "/a") == [new.join(folder, "a")]
    assert [one for one, _, _ in new.walk(folder)] == [folder, folder + "/s"]
    assert new.GFile is gfile.GFile
    new.makedirs(folder + "/x/y")
    new.rmtree(folder + "/x")
    new.mkdir(folder + "/x")
    assert new.stat(folder + "/x").is_directory


# ---- TFRecord files


@pytest.mark.parametrize("options", [None, python_io.TFRecordOptions(1), python_io.TFRecordOptions("GZIP"), "ZLIB"])
def test_records(tmp_path, options):
    name = str(tmp_path / "r")
    records = [b"a", b"", bytes(range(256)) * 100]
    with python_io.TFRecordWriter(name, options) as writer:
        for one in records:
            writer.write(one)
        writer.write("text")
        writer.flush()
    assert list(python_io.tf_record_iterator(name, options)) == [*records, b"text"]
    with open(name, "rb") as file:
        head = file.read(2)
    word = python_io.TFRecordOptions.get_compression_type_string(options)
    assert head == {"": b"\1\0", "GZIP": b"\x1f\x8b", "ZLIB": b"\x78\x9c"}[word]


def test_the_files_are_those_of_the_specification(tmp_path):
    name = tmp_path / "r"
    writer = tf.io.TFRecordWriter(str(name))
    for one in (b"one", b"", b"three"):
        writer.write(one)
    writer.close()
    assert name.read_bytes().hex() == (
        "0300000000000000b099490e6f6e6501405508" + "000000000000000029039807d8ea82a2"
        "0500000000000000eab2043e74687265656023fb45"
    )
    with python_io.TFRecordWriter(str(name), python_io.TFRecordOptions("ZLIB", compression_level=0)) as writer:
        writer.write(b"abc")
    assert b"abc" in name.read_bytes()
    assert zlib.decompress(name.read_bytes())[12:15] == b"abc"


def test_options():
    kinds, options = python_io.TFRecordCompressionType, python_io.TFRecordOptions
    assert (kinds.NONE, kinds.ZLIB, kinds.GZIP) == (0, 1, 2)
    word = options.get_compression_type_string
    assert [word(one) for one in (None, "ZLIB", options(kinds.GZIP), options())] == ["", "ZLIB", "GZIP", ""]
    assert options(1).compression_type == 1
    assert word(options(options("GZIP"))) == "GZIP"
    for make in (options, word):
        with pytest.raises(ValueError):
            make("zzz")


def test_damaged_and_missing_records(tmp_path):
    name = str(tmp_path / "r")
    with pytest.raises(E.NotFoundError):
        list(python_io.tf_record_iterator(name))
    with python_io.TFRecordWriter(name) as writer:
        for _ in range(3):
            writer.write(b"abc")
    with open(name, "r+b") as file:
        file.seek(19 + 13)
        file.write(b"X")
    records = python_io.tf_record_iterator(name)
    assert next(records) == b"abc"
    with pytest.raises(E.DataLossError):
        next(records)


def test_records_of_a_file_that_grows(tmp_path):
    name = str(tmp_path / "r")
    with python_io.TFRecordWriter(name) as writer:
        writer.write(b"first")
        writer.flush()
        records = python_io.tf_record_iterator(name)
        assert next(records) == b"first"
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(records)
        writer.write(b"second")
        writer.write(b"third")
        writer.flush()
        assert list(records) == [b"second", b"third"]


def test_a_cut_record_is_read_once_the_rest_is_there(tmp_path):
    name = tmp_path / "r"
    with python_io.TFRecordWriter(str(name)) as writer:
        writer.write(b"first")
        writer.write(b"second")
    content = name.read_bytes()
    name.write_bytes(content[:-3])
    records = python_io.tf_record_iterator(str(name))
    assert next(records) == b"first"
    for _ in range(2):
        with pytest.raises(E.DataLossError):
            next(records)
    with name.open("ab") as file:
        file.write(content[-3:])
    assert list(records) == [b"second"]


def test_another_file_in_the_place_of_one_is_read_after_reopen(tmp_path):
    for name, records in (("old", [b"a"]), ("new", [b"a", b"b"])):
        with python_io.TFRecordWriter(str(tmp_path / name)) as writer:
            for one in records:
                writer.write(one)
    records = python_io.tf_record_iterator(str(tmp_path / "old"))
    assert list(records) == [b"a"]
    os.replace(tmp_path / "new", tmp_path / "old")
    assert list(records) == []  # it still reads the old one
    records.reopen()
    assert list(records) == [b"b"]


def test_text_and_bytes(tmp_path):
    compat = tf.compat
    assert (compat.as_bytes("é"), compat.as_bytes(b"x"), compat.as_bytes("é", "latin-1")) == (
        b"\xc3\xa9",
        b"x",
        b"\xe9",
    )
    assert (compat.as_text(b"\xc3\xa9"), compat.as_str("x"), compat.as_str_any(3)) == ("é", "x", "3")
    assert compat.path_to_str(tmp_path) == str(tmp_path)
    assert compat.path_to_bytes(tmp_path) == str(tmp_path).encode()
    for function in (compat.as_bytes, compat.as_text):
        with pytest.raises(TypeError):
            function(3)
    assert compat.v1.data.make_one_shot_iterator is tf.data.make_one_shot_iterator
