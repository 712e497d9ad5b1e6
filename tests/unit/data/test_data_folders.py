"""Pictures in folders: classes and files by torchvision's rules, orders, places, errors."""

import dataclasses
import os
import pathlib

import numpy as np
import pytest
from helpers.formats.pictures import colours, saved

import queuecore as qc
from queuecore.data import Dataset, ImageFolderDataset, Options, WholeFileDataset
from queuecore.data._plan.chain import Chain, chain_of, dataset_of
from queuecore.errors import DtypeError, InvalidArgumentError, NotFoundError, PermissionDeniedError

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def torchvisions(root):
    """The samples by the rules that torchvision's DatasetFolder documents and follows."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    samples = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            samples += [
                (os.path.join(folder, file), number) for file in sorted(files) if file.lower().endswith(EXTENSIONS)
            ]
    return classes, samples


@pytest.fixture
def root(tmp_path):
    """Three classes, with files at several depths."""
    top = tmp_path / "pets"
    for index, name in enumerate(
        [
            *("cat/2.jpg", "cat/10.jpg", "cat/a/1.JPG", "cat/a-b/1.png", "cat/a/deep/er/1.jpeg", "cat/notes.txt"),
            *("dog/1.jpg", "Dog/1.jpg", "dog/.hidden.jpg", "Zebra é/1.jpg", "Zebra é/\udcff.jpg", "alone.jpg"),
        ]
    ):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(colours(9 + index, 8), "PNG" if name.endswith("png") else "JPEG"))
    return top


def elements(ds):
    return [(contents, int(label)) for contents, label in ds]


def test_classes_and_files_are_torchvisions(root):
    classes, samples = torchvisions(root)
    ds = ImageFolderDataset(root)
    assert ds.class_names == classes and len(classes) == 4
    assert ds.class_to_idx == {name: number for number, name in enumerate(classes)}
    assert ds.targets == [label for _, label in samples]
    assert ds.file_paths == [path for path, _ in samples] and len(ds) == len(samples) == 10
    assert elements(ds) == [(pathlib.Path(path).read_bytes(), label) for path, label in samples]
    assert elements(ImageFolderDataset(f"{root}/")) == elements(ImageFolderDataset(os.fsencode(root))) == elements(ds)


def test_relative_names(root, monkeypatch):
    expected = elements(ImageFolderDataset(root))
    monkeypatch.chdir(root.parent)
    assert elements(ImageFolderDataset("pets")) == elements(ImageFolderDataset(".//pets//")) == expected
    monkeypatch.chdir(root)
    assert elements(ImageFolderDataset(".")) == expected


def test_links_are_followed_but_in_no_circle(root):
    (root / "linked").symlink_to(root / "cat")
    (root / "cat" / "a" / "up").symlink_to(root / "cat")
    (root / "cat" / "nowhere.jpg").symlink_to(root / "missing")
    ds = ImageFolderDataset(root)
    assert ds.class_names == ["Dog", "Zebra é", "cat", "dog", "linked"]
    names = [os.path.relpath(path, root) for path in ds.file_paths]
    assert names.count("linked/a/1.JPG") == names.count("cat/a/1.JPG") == names.count("cat/nowhere.jpg") == 1
    assert "cat/a/up/2.jpg" not in names
    with pytest.raises(NotFoundError, match=r"nowhere\.jpg"):
        elements(ds)


def test_vision_is_native(root):
    def vision(contents, label):
        image = qc.ops.random_resized_crop(qc.ops.decode_image(contents, channels=3), 8, seed=1)
        return qc.ops.normalize(image, 0.5, 0.5, channels_first=True), label

    ds = ImageFolderDataset(root).map(vision).batch(4)
    assert "Python" not in ds.plan()
    images, labels = next(iter(ds))
    assert images.shape == (4, 3, 8, 8) and labels.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_order_that_is_drawn(root, threads):
    expected = elements(ImageFolderDataset(root))
    ds = ImageFolderDataset(root, shuffle=True, seed=5).with_options(Options(num_threads=threads))
    assert len(ds) == 10
    first, second = elements(ds), elements(ds)
    assert sorted(first) == sorted(second) == sorted(expected)
    assert len({str(first), str(second), str(expected)}) == 3
    again = ImageFolderDataset(root, shuffle=True, seed=5)
    assert elements(again) == first and elements(again) == second
    assert elements(again.take(7).shard(2, 1))
    shards = [elements(ImageFolderDataset(root, shuffle=True, seed=5).shard(2, number)) for number in range(2)]
    assert shards == [first[::2], first[1::2]]
    with iter(ImageFolderDataset(root, shuffle=True, seed=5).repeat(3)) as it:
        for _ in range(13):
            next(it)
        state, rest = it.state_dict(), elements(it)
        it.load_state_dict(state)
        assert elements(it) == rest and len(rest) == 17


def test_of_a_store(root):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("cat/2.jpg", "cat/10.jpg", "cat/notes.txt", "dog/1.JPG"):
        memory.pipe(f"/pets/{name}", name.encode())
    try:
        ds = ImageFolderDataset("memory://pets")
        assert ds.class_names == ["cat", "dog"]
        assert elements(ds) == [(b"cat/10.jpg", 0), (b"cat/2.jpg", 0), (b"dog/1.JPG", 1)]
        assert sorted(elements(ImageFolderDataset("memory://pets", shuffle=True))) == elements(ds)
    finally:
        memory.rm("/pets", recursive=True)


def test_what_is_not_there(root, tmp_path):
    with pytest.raises(NotFoundError, match="cannot list .*missing"):
        ImageFolderDataset(tmp_path / "missing")
    with pytest.raises(NotFoundError, match="cannot list .*alone.jpg"):
        ImageFolderDataset(root / "alone.jpg")
    with pytest.raises(InvalidArgumentError, match="has no folders"):
        ImageFolderDataset(root / "dog")
    (root / "empty").mkdir()
    (root / "notes").mkdir()
    with pytest.raises(InvalidArgumentError, match=r"no file in 'empty', 'notes' ends in \.jpg, "):
        ImageFolderDataset(root)
    ds = ImageFolderDataset(root, allow_empty=True)
    assert ds.class_names[-2:] == ["empty", "notes"] and len(ds) == 10
    with pytest.raises(InvalidArgumentError, match="no file in"):
        ImageFolderDataset(root, extensions=".gif", allow_empty=True)
    texts = ImageFolderDataset(root, extensions=[".TXT"], allow_empty=True)
    assert [os.path.basename(path) for path in texts.file_paths] == ["notes.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="this user may read everything: make test")
def test_what_may_not_be_listed(root):
    (root / "cat" / "a").chmod(0)
    try:
        with pytest.raises(PermissionDeniedError, match="cannot list .*cat/a'"):
            ImageFolderDataset(root)
    finally:
        (root / "cat" / "a").chmod(0o700)


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"root": 3}, DtypeError, "root must be str"),
        ({"root": ""}, InvalidArgumentError, "root is no name"),
        ({"root": "a\0"}, InvalidArgumentError, "root is no name"),
        ({"shuffle": 1}, InvalidArgumentError, "shuffle"),
        ({"shuffle": True, "seed": "a"}, InvalidArgumentError, "seed"),
        ({"extensions": []}, InvalidArgumentError, "extensions"),
        ({"extensions": [1]}, InvalidArgumentError, "extensions"),
        ({"storage_options": 3}, InvalidArgumentError, "storage_options"),
    ],
)
def test_bad_arguments(root, words, error, text):
    with pytest.raises(error, match=text):
        ImageFolderDataset(**{"root": root, **words})


def test_a_bad_picture_is_left_out(root):
    (root / "dog" / "1.jpg").write_bytes(b"\xff\xd8\xff no picture")
    ds = ImageFolderDataset(root).map(lambda contents, label: (qc.ops.decode_image(contents, channels=3), label))
    ds = ds.map(lambda image, label: (qc.ops.resize(image, (4, 4)), label))
    with pytest.raises(qc.errors.DecodeError):
        list(ds)
    kept = ds.with_options(Options(on_error="skip"))
    assert len(list(kept)) == 9
    assert isinstance(kept, Dataset)
    np.testing.assert_array_equal(next(iter(kept))[0].shape, (4, 4, 3))


@pytest.mark.parametrize("threads", [1, 3])
def test_draws_follow_from_the_number_of_the_first_file(root, threads):
    """Files from the third one on, told so, get the draws that they have among all files."""
    names = ImageFolderDataset(root).file_paths

    def drawn(files, first):
        source = dataclasses.replace(chain_of(WholeFileDataset(files)).source, first_number=first)
        ds = dataset_of(Chain(source)).with_options(Options(num_threads=threads))
        return [
            part.tobytes()
            for part in ds.map(lambda name, data: qc.ops.random_crop(qc.ops.decode_image(data, 3), (5, 5, 3), seed=1))
        ]

    everything = drawn(names, 0)
    assert drawn(names[3:], 3) == everything[3:]
    assert drawn(names[3:], 0) != everything[3:]
