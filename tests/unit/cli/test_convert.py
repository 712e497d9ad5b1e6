"""``queuecore convert``: what was in a folder or in archives is in the shards, once, in the order asked for."""

import os
import random

import numpy as np
import pytest
from helpers.formats.pictures import colours, saved
from helpers.formats.tars import archive, members_of, samples

import queuecore as qc
from queuecore.cli.main import main
from queuecore.data import ImageFolderDataset, TarDataset, TFRecordDataset

KEYS = ["__key__", "txt", "cls"]


@pytest.fixture
def root(tmp_path):
    for number, name in enumerate(["cat/1.jpg", "cat/b.2.JPG", "dog.s/1.jpg", "dog.s/deep/1.png", "é/1.jpg"]):
        path = tmp_path / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(colours(8 + number, 6), "PNG" if name.endswith("png") else "JPEG"))
    return tmp_path / "train"


def convert(capsys, *words):
    """Run the command; return its exit code, and its lines."""
    code = main(["convert", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out.splitlines() if code == 0 else captured.err


def test_a_folder_becomes_archives(tmp_path, root, capsys):
    code, lines = convert(capsys, root, tmp_path / "a-%03d.tar", "--shard-samples", 2)
    assert code == 0 and lines[-1].startswith("3 files, 5 samples")
    assert [line.split(":")[0] for line in lines[:-1]] == [str(tmp_path / f"a-00{n}.tar") for n in range(3)]
    got = list(TarDataset(f"{tmp_path}/a-{{000..002}}.tar", ["__key__", "jpg;png", "cls"]))
    assert [(one["jpg"], int(one["cls"])) for one in got] == [(content, int(label)) for content, label in folder(root)]
    assert [one["__key__"].decode() for one in got] == [
        *("cat/00000000", "cat/00000001", "dog.s/00000002", "dog.s/00000003", "é/00000004")
    ]


def folder(root):
    return list(ImageFolderDataset(root))


def test_a_folder_becomes_examples(tmp_path, root, capsys):
    code, lines = convert(capsys, f"{root}/", tmp_path / "a.tfrecord", "--shuffle", "--seed", 3)
    assert code == 0 and lines[-1].startswith("1 file, 5 samples")
    form = {"__key__": qc.ops.FixedLenFeature((), bytes), "cls": qc.ops.FixedLenFeature((), np.int64)}
    form |= {key: qc.ops.FixedLenFeature((), bytes, b"") for key in ("jpg", "png")}
    got = list(TFRecordDataset(tmp_path / "a.tfrecord").map(qc.ops.parse_single_example(features=form)))
    numbers = [int(one["__key__"].rpartition(b"/")[2]) for one in got]
    assert sorted(numbers) == list(range(5)) != numbers
    expected = folder(root)
    assert [(one["jpg"] + one["png"], one["cls"]) for one in got] == [expected[number] for number in numbers]


def test_archives_become_other_archives(tmp_path, capsys):
    expected = samples(60, random.Random(1))
    for number, part in enumerate((expected[:25], expected[25:])):
        (tmp_path / f"a-{number}.tar").write_bytes(archive(members_of(part)))
    given = f"{tmp_path}/a-{{0,1}}.tar"
    assert convert(capsys, given, tmp_path / "b.tar", "--keys", "txt,cls")[0] == 0
    assert list(TarDataset(tmp_path / "b.tar", KEYS)) == expected
    code, lines = convert(capsys, given, tmp_path / "c-%d.tar", "--keys", "txt,cls", "--shard-bytes", 3000, "--shuffle")
    assert code == 0 and len(lines) > 3
    names = sorted(tmp_path.glob("c-*.tar"), key=lambda path: int(path.stem[2:]))
    parts = [list(TarDataset(name, KEYS)) for name in names]
    assert all(sum(len(one["txt"]) + len(one["cls"]) for one in part) <= 3000 for part in parts)
    got = [one for part in parts for one in part]
    assert got != expected and sorted(map(str, got)) == sorted(map(str, expected))
    assert not list(tmp_path.glob("*.part"))


def test_samples_of_one_name_stay_apart(tmp_path, capsys):
    for number in range(2):
        (tmp_path / f"a-{number}.tar").write_bytes(archive([("x.txt", b"%d" % number)]))
    assert convert(capsys, tmp_path / "a-0.tar", tmp_path / "a-1.tar", tmp_path / "b.tar", "--keys", "txt")[0] == 0
    assert [one["txt"] for one in TarDataset(tmp_path / "b.tar", ["txt"])] == [b"0", b"1"]


def test_to_a_store(root, capsys):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    try:
        code, lines = convert(capsys, root, "memory://shards/a-%d.tar", "--shard-samples", 3)
        assert code == 0 and len(lines) == 3
        assert len(list(TarDataset("memory://shards/a-{0..1}.tar", ["cls"]))) == 5
    finally:
        memory.rm("/shards", recursive=True)


def test_what_is_there_is_not_replaced_unasked(tmp_path, root, capsys):
    (tmp_path / "a.tar").write_bytes(b"before")
    code, text = convert(capsys, root, tmp_path / "a.tar")
    assert code == 2 and "--overwrite" in text
    assert (tmp_path / "a.tar").read_bytes() == b"before"
    assert convert(capsys, root, tmp_path / "a.tar", "--overwrite")[0] == 0
    assert len(list(TarDataset(tmp_path / "a.tar", ["cls"]))) == 5


def test_an_error_leaves_no_half_file(tmp_path, capsys):
    (tmp_path / "a.tar").write_bytes(archive([("x.txt", b"1"), ("y.txt", b"2"), ("z.cls", b"3")]))
    code, text = convert(capsys, tmp_path / "a.tar", tmp_path / "b-%d.tar", "--keys", "txt", "--shard-samples", 1)
    assert code != 0 and "has no file of b'txt'" in text
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "b-0.tar", "b-1.tar"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["{root}", "a.zip"], "must end in"),
        (["{root}", "a.tar", "--shard-samples", "2"], "need a number"),
        (["{root}", "a.tar", "--keys", "jpg"], "--keys is for archives"),
        (["a.tar", "b.tar"], "--keys is needed"),
        (["{root}/missing", "a.tar"], "cannot list"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, root, capsys, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    code, error = convert(capsys, *[word.format(root=root) for word in words])
    assert code in (1, 2) and text in error and len(error.splitlines()) == 1
    assert os.listdir(tmp_path) == ["train"]
