"""Samples of tar archives: forms of headers, keys, orders, places, damage, and names that mean to do harm."""

import io
import os
import random
import re
import shutil
import subprocess
import tarfile

import numpy as np
import pytest
from helpers.data.blocks import KEYS, flat, pull, run, small
from helpers.data.chains import threads, write_files
from helpers.formats.compressed import compress
from helpers.formats.pictures import colours, saved
from helpers.formats.tars import FORMATS, archive, members_of, samples, samples_of

import queuecore as qc
from queuecore.data import Options, TarDataset
from queuecore.errors import (
    ChecksumError,
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    QueueCoreError,
    RecordTooLargeError,
    TruncatedRecordError,
)


def packed(tmp_path, members, form="ustar", name="a.tar"):
    path = tmp_path / name
    path.write_bytes(archive(members, form))
    return path


def header(name, content=b"", **fields):
    """The bytes of one member, with fields as tarfile's."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


# ---- what is read ----


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("ended", [True, False])
def test_samples_are_those_that_tarfile_finds(tmp_path, form, ended):
    for seed in range(6):
        state = random.Random(seed)
        expected = samples(state.choice([0, 1, 7, 40]), state)
        data = archive(members_of(expected), form, ended)
        assert list(samples_of(data, KEYS)) == expected if data else not expected
        (tmp_path / "a").write_bytes(data)
        for piece in (1, 700, 1 << 18):
            got, error = run(threads(small(TarDataset(tmp_path / "a", KEYS), piece), seed % 3 + 1))
            assert (got, error) == (expected, None)


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar")
def test_archives_of_the_tar_command(tmp_path, form):
    folder = tmp_path / "files"
    wanted = samples(20, random.Random(3))
    for name, content in members_of(wanted):
        if form in ("v7", "ustar") and len(name.encode()) > 99:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    subprocess.run(["tar", f"--format={form}", "--sort=name", "-cf", tmp_path / "a.tar", "-C", folder, "."], check=True)
    data = (tmp_path / "a.tar").read_bytes()
    expected = list(samples_of(data, KEYS))
    # tarfile leaves out a "./" in front, and this doesn't.
    for sample in expected:
        if not sample["__key__"].startswith(b"./"):
            sample["__key__"] = b"./" + sample["__key__"]
    assert list(TarDataset(tmp_path / "a.tar", KEYS)) == expected and len(expected) > 5


@pytest.mark.parametrize("encoding", ["GZIP", "ZSTD", "XZ"])
def test_compressed(tmp_path, encoding):
    wanted = samples(300, random.Random(1))
    paths = write_files(tmp_path, [compress(encoding, archive(members_of(wanted)))] * 3)
    ds = TarDataset(paths, KEYS, compression_type=encoding)
    assert list(threads(ds, 3)) == wanted * 3
    assert flat(run(threads(ds.shuffle(1000, seed=1).batch(7), 2))[0]) != wanted * 3


def test_which_files_are_a_sample(tmp_path):
    names = ["a.txt", "a.TXT2", "b.txt", "x/a.txt", "a.txt", "x/.hidden", "README", "x.y/n", "c.seg.png", "c.txt", "d."]
    path = packed(tmp_path, [(name, name.encode()) for name in names])
    everything = list(TarDataset(path, ["__key__", "txt;seg.png"]).with_options(Options(on_error="skip")))
    # "c" has both: the first that is named.
    assert everything == [
        {"__key__": b"a", "txt": b"a.txt"},
        {"__key__": b"b", "txt": b"b.txt"},
        {"__key__": b"x/a", "txt": b"x/a.txt"},
        {"__key__": b"a", "txt": b"a.txt"},
        {"__key__": b"c", "txt": b"c.txt"},
    ]
    assert list(TarDataset(path, ["seg.png;txt"]).skip(4).take(1)) == [{"seg.png": b"c.seg.png"}]
    assert list(TarDataset(path, ["TXT", "txt2"]).take(1)) == [{"txt": b"a.txt", "txt2": b"a.TXT2"}]


def test_members_that_are_no_files_are_passed_over(tmp_path):
    kinds = [
        {"type": tarfile.DIRTYPE},
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"type": tarfile.LNKTYPE, "linkname": "a.txt"},
        {"type": tarfile.FIFOTYPE},
        {"type": tarfile.CHRTYPE},
    ]
    data = b"".join(
        header("b.txt", **fields) + header(f"{n}.txt", b"%d" % n) + header(f"{n}.cls", b"")
        for n, fields in enumerate(kinds)
    )
    (tmp_path / "a").write_bytes(data)
    assert list(TarDataset(tmp_path / "a", ["txt", "cls"])) == [{"txt": b"%d" % n, "cls": b""} for n in range(5)]


def test_nothing_is_written_whatever_a_name_says(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    names = ["../out.txt", f"{tmp_path}/absolute.txt", "a/../../up.txt", "nul\udcff.txt", "line\nend.txt"]
    path = packed(tmp_path, [(name, b"x") for name in names], "pax")
    got = list(TarDataset(path, ["__key__", "txt"]))
    assert [sample["__key__"] for sample in got] == [os.fsencode(name.removesuffix(".txt")) for name in names]
    assert os.listdir(inside) == [] and sorted(os.listdir(tmp_path)) == ["a.tar", "inside"]


def test_numbers_of_256_and_sizes_of_pax(tmp_path):
    member = tarfile.TarInfo("a.txt")
    member.size = 3
    plain = bytearray(member.tobuf(tarfile.USTAR_FORMAT))

    def with_size(field):
        changed = bytearray(plain)
        changed[124:136] = field
        changed[148:156] = b" " * 8
        changed[148:156] = b"%06o\0 " % sum(changed)
        return bytes(changed)

    tail = b"abc" + bytes(509)
    (tmp_path / "a").write_bytes(with_size(b"\x80" + bytes(10) + b"\x03") + tail)
    assert list(TarDataset(tmp_path / "a", ["txt"])) == [{"txt": b"abc"}]
    record = b"9 size=3\n"
    pax = header("x", record, type=tarfile.XHDTYPE)
    (tmp_path / "a").write_bytes(pax + with_size(b"00000000000\0") + tail)
    assert list(TarDataset(tmp_path / "a", ["txt"])) == [{"txt": b"abc"}]
    for field in (b"\xff" * 12, b"\x80" + b"\xff" * 11, b"\x81" + bytes(11), b"0000000000x\0", b"-0000000001\0"):
        (tmp_path / "a").write_bytes(with_size(field) + tail)
        with pytest.raises(DataLossError, match="size is no number"):
            list(TarDataset(tmp_path / "a", ["txt"]))


# ---- orders, places, names ----


def test_places_in_every_order(tmp_path):
    state = random.Random(5)
    parts = [samples(count, state) for count in (9, 0, 23, 4)]
    paths = write_files(tmp_path, [archive(members_of(part)) for part in parts])
    for make in (
        lambda: TarDataset(paths, KEYS),
        lambda: TarDataset(paths, KEYS).shuffle(7, seed=2).repeat(2),
        lambda: TarDataset(paths, KEYS, shuffle=True, seed=3).repeat(2),
    ):
        expected = list(make())
        assert sorted(map(str, expected[:36])) == sorted(map(str, flat(parts)))
        for place in (0, 1, 8, 9, 30, len(expected)):
            with iter(make()) as it:
                pull(it, place)
                state = it.state_dict()
            with iter(make()) as it:
                it.load_state_dict(state)
                assert pull(it) == (expected[place:], None)


def test_an_order_of_archives_that_is_drawn(tmp_path):
    parts = [samples(5, random.Random(n)) for n in range(8)]
    paths = write_files(tmp_path, [archive(members_of(part)) for part in parts])
    ds = TarDataset(paths, KEYS, shuffle=True, seed=1)
    first, second = list(ds), list(ds)
    assert first != second
    assert sorted(map(str, first)) == sorted(map(str, second)) == sorted(map(str, flat(parts)))
    assert list(TarDataset(paths, KEYS, shuffle=True, seed=1)) == first
    assert list(threads(TarDataset(paths, KEYS, shuffle=True, seed=1), 4)) == first
    # Samples of several archives come in turns.
    assert len({next(n for n, part in enumerate(parts) if sample in part) for sample in first[:4]}) == 4
    shards = [list(TarDataset(paths, KEYS, shuffle=True, seed=1).shard(2, number)) for number in range(2)]
    assert shards == [first[::2], first[1::2]]


def test_braces(tmp_path):
    for name in ("t-08.tar", "t-09.tar", "t-10.tar", "v-1.tar"):
        packed(tmp_path, [(f"{name}.txt", b"")], name=name)

    def names(*patterns):
        paths = [f"{tmp_path}/{pattern}" for pattern in patterns]
        return [
            sample["__key__"].decode() for sample in TarDataset(paths[0] if len(paths) == 1 else paths, ["__key__"])
        ]

    assert names("t-{08..10}.tar") == ["t-08", "t-09", "t-10"]
    assert names("{v-1,t-{08..09}}.tar") == names("v-1.tar", "t-{08..09}.tar") == ["v-1", "t-08", "t-09"]
    assert names("{t-,v-}{10..10}.tar".replace("v-", "t-")) == ["t-10", "t-10"]
    with pytest.raises(NotFoundError, match=r"t-11\.tar"):
        names("t-{10..11}.tar")
    for kept in ("t-{x}.tar", "t-{09..08}.tar", "t-{08.tar", "{}.tar"):
        with pytest.raises(NotFoundError, match=re.escape(kept)):
            names(kept)


def test_pictures_and_labels_are_decoded_natively(tmp_path):
    pictures = [colours(8 + n, 6) for n in range(5)]
    members = [
        part
        for n, picture in enumerate(pictures)
        for part in ((f"{n}.png", saved(picture, "PNG")), (f"{n}.cls", b"%d" % n))
    ]

    def vision(sample):
        image = qc.ops.decode_image(sample["png"], channels=3)
        return image, qc.ops.decode_csv(sample["cls"], [np.int64])[0]

    ds = TarDataset(packed(tmp_path, members), ["png", "cls"]).map(vision)
    assert "Python" not in ds.plan()
    for (image, label), (number, picture) in zip(ds, enumerate(pictures), strict=True):
        np.testing.assert_array_equal(image, picture)
        assert label == number


def test_of_a_store(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    wanted = samples(20, random.Random(2))
    memory.pipe("/shards/a-0.tar", archive(members_of(wanted[:8])))
    memory.pipe("/shards/a-1.tar", archive(members_of(wanted[8:])))
    try:
        assert list(TarDataset("memory://shards/a-{0..1}.tar", KEYS)) == wanted
        assert list(TarDataset("memory://shards/*.tar", KEYS)) == wanted
    finally:
        memory.rm("/shards", recursive=True)


# ---- what is wrong ----


def test_samples_that_lack_a_key_or_have_it_twice(tmp_path):
    path = packed(tmp_path, [("a.txt", b"1"), ("b.cls", b"2"), ("c.txt", b"3"), ("c.TXT", b"4"), ("d.txt", b"5")])
    for workers in (1, 3):
        got, error = run(threads(TarDataset(path, ["txt"]), workers))
        assert got == [{"txt": b"1"}] and type(error) is InvalidArgumentError
        assert (error.path, error.record, error.offset) == (str(path), 1, 1024)
        assert "has no file of b'txt'" in str(error)
        ds = TarDataset(path, ["txt"]).with_options(Options(on_error="skip"))
        with iter(threads(ds, workers)) as it:
            assert pull(it) == ([{"txt": b"1"}, {"txt": b"5"}], None)
            assert it.stats()["skipped"] == 2
        with pytest.raises(InvalidArgumentError, match=r"two files of b'txt'"):
            list(TarDataset(path, ["txt"]).skip(2))


def test_an_archive_cut_at_any_byte(tmp_path):
    expected = samples(4, random.Random(9))
    data = archive(members_of(expected), "gnu")
    path = tmp_path / "a"
    ends = set(range(0, len(data), 97)) | {end + step for end in range(0, len(data), 512) for step in (-1, 0, 1)}
    complete_count = 0
    for end in sorted(ends & set(range(len(data)))):
        path.write_bytes(data[:end])
        for compressed in (False, True):
            if compressed:
                path.write_bytes(compress("ZSTD", data[:end]))
            got, error = run(small(TarDataset(path, KEYS, compression_type="ZSTD" if compressed else None), 600))
            assert got == expected[: len(got)]
            if error is not None:
                assert isinstance(error, TruncatedRecordError | InvalidArgumentError) and error.path == str(path)
            complete_count += error is None and got == expected
    assert complete_count > 2


def test_each_bit_of_a_header(tmp_path):
    data = archive([("a.txt", b"abc"), ("b.txt", b"def"), ("c.txt", b"")], "ustar", False)
    path = tmp_path / "a"
    state = random.Random(0)
    for bit in state.sample(range(1024 * 8, 1536 * 8), 300):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        results, error = run(TarDataset(path, ["__key__", "txt"]))
        # The checksum's own field may say the same number with other bytes.
        if error is None:
            assert results == [
                {"__key__": key, "txt": text} for key, text in ((b"a", b"abc"), (b"b", b"def"), (b"c", b""))
            ]
            assert 148 <= bit // 8 - 1024 < 156
        else:
            assert isinstance(error, DataLossError) and error.path == str(path)
            assert results == [] and error.record == 0
    changed = bytearray(data)
    changed[1024 + 5] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ChecksumError, match="damaged header"):
        list(TarDataset(path, ["txt"]))


def test_no_archive_at_all(tmp_path):
    path = tmp_path / "a"
    for data in (b"no archive", os.urandom(5000), compress("GZIP", archive([("a.txt", b"")]))):
        path.write_bytes(data)
        with pytest.raises(DataLossError, match=str(path)):
            list(TarDataset(path, ["txt"]))
    path.write_bytes(bytes(10240))
    assert list(TarDataset(path, ["txt"])) == []
    path.write_bytes(b"")
    assert list(TarDataset(path, ["txt"])) == []


def test_sparse_files(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(header("a.txt", b"", type=tarfile.GNUTYPE_SPARSE))
    with pytest.raises(DataLossError, match="sparse file"):
        list(TarDataset(path, ["txt"]))
    record = b"22 GNU.sparse.major=1\n"
    path.write_bytes(header("x", record, type=tarfile.XHDTYPE) + header("a.txt", b"1\n0\n5\n"))
    with pytest.raises(DataLossError, match="sparse file"):
        list(TarDataset(path, ["txt"]))


def test_what_is_too_large_is_not_asked_of_memory(tmp_path):
    path = tmp_path / "a"
    member = tarfile.TarInfo("b.txt")
    member.size = 1 << 45
    for form in FORMATS.values():
        if form != tarfile.USTAR_FORMAT:
            path.write_bytes(header("a.txt", b"1") + member.tobuf(form))
            got, error = run(TarDataset(path, ["txt"]))
            assert got == [] or got == [{"txt": b"1"}]
            assert isinstance(error, RecordTooLargeError | TruncatedRecordError)
            got, error = run(TarDataset(path, ["txt"]).with_options(Options(max_record_bytes=1 << 20)))
            assert isinstance(error, RecordTooLargeError)
    names = io.BytesIO()
    with tarfile.open(fileobj=names, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("x" * (2 << 20) + ".txt"))
    path.write_bytes(names.getvalue())
    with pytest.raises(DataLossError):
        list(TarDataset(path, ["txt"]))


def test_damage_and_what_comes_behind_it(tmp_path):
    expected = samples(40, random.Random(4))
    good = archive(members_of(expected))
    bad = bytearray(good)
    with tarfile.open(fileobj=io.BytesIO(good)) as tar:
        bad[tar.getmembers()[40].offset] ^= 1  # of the sample in the middle
    paths = write_files(tmp_path, [good, bytes(bad), good])
    with pytest.raises(DataLossError):
        list(TarDataset(paths, KEYS))
    for workers in (1, 3):
        ds = TarDataset(paths, KEYS).with_options(Options(on_error="skip"))
        with iter(threads(ds, workers)) as it:
            got, error = pull(it)
            assert error is None and it.stats()["skipped_files"] == 1
        assert got[:59] == expected + expected[:19] and got[-40:] == expected


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"keys": "txt"}, "must be a list"),
        ({"keys": []}, "must be names"),
        ({"keys": [""]}, "must be names"),
        ({"keys": ["a;"]}, "must be names"),
        ({"keys": [b"a"]}, "must be names"),
        ({"keys": ["a", "b;A"]}, "twice"),
        ({"keys": ["__key__", "__key__"]}, "twice"),
        ({"keys": [str(n) for n in range(65)]}, "at most 64"),
        ({"shuffle": 1}, "shuffle"),
        ({"shuffle": True, "seed": "a"}, "seed"),
        ({"compression_type": "RAR"}, "compression_type"),
    ],
)
def test_bad_arguments(tmp_path, words, text):
    path = packed(tmp_path, [("a.txt", b"")])
    with pytest.raises(QueueCoreError, match=text) as caught:
        TarDataset(path, **{"keys": ["txt"], **words})
    assert isinstance(caught.value, InvalidArgumentError)
