"""Files that others write to: while they are read, between two passes, and between a saved place and its use."""

import copy
import gc
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from helpers.data.blocks import flat, plain, pull, run
from helpers.data.chains import THREADS, dataset, own, pull as pull_arrays, threads, write_files
from helpers.formats import tfrecords
from helpers.formats.compressed import compress

import queuecore as qc
from queuecore.data import CsvDataset, Dataset, Options, TextLineDataset, TFRecordDataset
from queuecore.data._nodes.stream import ChainStream
from queuecore.errors import (
    InvalidArgumentError,
    NotFoundError,
    ResumeMismatchError,
    SourceChangedError,
    UnavailableError,
)

# While a file is read: far more than is read ahead.

COUNT = 400_000


def fixed_bytes(first=0):
    return (np.arange(COUNT, dtype=">u8") + first).tobytes() * 4


def text(first=0):
    return b"".join(b"%031d\n" % n for n in range(first, first + COUNT))


def records(first=0):
    return tfrecords.stream([b"%0100d" % n for n in range(first, first + COUNT // 8)])


def table(first=0):
    return b"".join(b"%015d,%015d\n" % (n, n) for n in range(first, first + COUNT))


def gz(first=0):
    # Stored, not squeezed: so it is as long for other numbers.
    return compress("GZIP", text(first), 0)


KINDS = {
    "fixed": (fixed_bytes, lambda paths: dataset(paths, 32).batch(100)),
    "steps": (fixed_bytes, lambda paths: dataset(paths, 32).map(qc.ops.reshape(shape=(4, 8))).batch(100)),
    "shard": (fixed_bytes, lambda paths: dataset(paths, 32).shard(3, 1).batch(100)),
    "shuffle": (fixed_bytes, lambda paths: dataset(paths, 32).shuffle(1000, 1).batch(100)),
    "permute": (fixed_bytes, lambda paths: dataset(paths, 32).permute(1).batch(100)),
    "take": (fixed_bytes, lambda paths: dataset(paths, 32).take(COUNT - 5).batch(100)),
    "lines": (text, lambda paths: TextLineDataset(paths).batch(100)),
    "tfrecord": (records, lambda paths: TFRecordDataset(paths).batch(100)),
    "csv": (table, lambda paths: CsvDataset(paths, [np.int64, np.int64]).batch(100)),
    "gzip": (gz, lambda paths: TextLineDataset(paths, "GZIP").batch(100)),
    "zip": (
        lambda first=0: text(first) * 3,
        lambda paths: Dataset.zip((TextLineDataset(paths), TextLineDataset(paths))).batch(100),
    ),
}


def changed_later(path, seconds=1):
    """Another modification time for certain: what the clock ticks is up to the file system."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + seconds * 10**9))


@pytest.mark.sampled(42)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("kind", KINDS)
def test_rewritten_while_it_is_read(tmp_path, kind, number):
    make, ds = KINDS[kind]
    path = tmp_path / "a"
    path.write_bytes(make())
    with iter(threads(ds(path), number)) as it:
        first = plain(next(it))
        with path.open("r+b") as file:
            file.write(make(1))
        changed_later(path)
        got, error = pull(it)
    assert isinstance(error, SourceChangedError)
    assert error.path == os.fspath(path)
    assert first and len(flat(got)) < 3 * COUNT


def _is_even(line):
    return int(line) % 2 == 0


def _first(line, _):
    return line


# The order ends within the file, so that it never comes to its end, whose check others rely on.
CUT = {
    "lines": (text, lambda paths: TextLineDataset(paths).take(COUNT - 5).batch(100)),
    "more": (text, lambda paths: TextLineDataset(paths).skip(5).take(COUNT // 2).batch(100)),
    "csv": (table, lambda paths: CsvDataset(paths, [np.int64, np.int64]).take(COUNT - 5).batch(100)),
    "tfrecord": (records, lambda paths: TFRecordDataset(paths).take(COUNT // 8 - 5).batch(100)),
    "gzip": (gz, lambda paths: TextLineDataset(paths, "GZIP").take(COUNT // 2).batch(100)),
    "shuffle": (text, lambda paths: TextLineDataset(paths).take(COUNT - 5).shuffle(100, 1).batch(100)),
    "interleave": (
        text,
        lambda paths: Dataset.from_tensor_slices(paths).interleave(TextLineDataset, 2, 1).take(COUNT - 5).batch(100),
    ),
    "filter": (text, lambda paths: TextLineDataset(paths).filter(_is_even).take(COUNT // 2 - 5).batch(100)),
    "cut by another": (
        lambda first=0: text(first) * 3,
        lambda paths: Dataset.zip((TextLineDataset(paths), Dataset.range(3 * COUNT - 5))).map(_first).batch(100),
    ),
    "flat_map": (
        text,
        lambda paths: Dataset.from_tensor_slices(paths).flat_map(TextLineDataset).take(COUNT - 5).batch(100),
    ),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("kind", CUT)
def test_rewritten_while_a_part_of_it_is_read(tmp_path, kind, number):
    make, ds = CUT[kind]
    path = tmp_path / "a"
    path.write_bytes(make())
    with iter(threads(ds([os.fspath(path)]), number)) as it:
        first = plain(next(it))
        with path.open("r+b") as file:
            file.write(make(1))
        changed_later(path)
        got, error = pull(it)
    assert isinstance(error, SourceChangedError)
    assert error.path == os.fspath(path)
    assert first and len(flat(got)) < 3 * COUNT


@pytest.mark.thorough
@pytest.mark.parametrize("kind", CUT)
def test_a_part_of_what_is_appended_to_or_replaced(tmp_path, kind):
    make, ds = CUT[kind]
    path = tmp_path / "a"
    path.write_bytes(make())
    elements, _ = run(ds([os.fspath(path)]))
    for way in ("appended to", "replaced"):
        with iter(ds([os.fspath(path)])) as it:
            first = [plain(next(it))]
            if way == "appended to":
                with path.open("ab") as file:
                    file.write(make())
            else:
                (tmp_path / "b").write_bytes(make(1))
                (tmp_path / "b").replace(path)
            got, error = pull(it)
        assert error is None and flat(first + got) == flat(elements), way


@pytest.mark.parametrize("number", THREADS)
def test_the_rest_of_a_part_is_left_out(tmp_path, number):
    path = tmp_path / "a"
    path.write_bytes(text())
    options = Options(num_threads=number, on_error="skip")
    with iter(TextLineDataset([os.fspath(path)]).take(COUNT - 5).batch(100).with_options(options)) as it:
        next(it)
        changed_later(path)
        _, error = pull(it)
        assert error is None
        assert it.stats()["skipped_files"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["appended to", "unlinked", "chmod", "renamed"])
def test_what_is_no_change(tmp_path, kind, way):
    make, ds = KINDS[kind]
    path = tmp_path / "a"
    path.write_bytes(make())
    expected, _ = run(ds(path))
    with iter(ds(path)) as it:
        results = [plain(next(it))]
        if way == "appended to":
            with path.open("ab") as file:
                file.write(b"more\n")
        elif way == "unlinked":
            path.unlink()
        elif way == "chmod":
            path.chmod(0o600)
        else:
            path.rename(tmp_path / "b")
        rest, error = pull(it)
    assert error is None
    assert results + rest == expected


def test_shuffled_lone_records(tmp_path):
    # So large that they are read one by one, in any order: the file ends nowhere.
    path = tmp_path / "a"
    content = np.arange(300 * 8192, dtype="u8").tobytes()
    path.write_bytes(content)
    for number in THREADS:
        with iter(threads(dataset(path, 65536).shuffle(100, 1).batch(2), number)) as it:
            got = [own(next(it))]
            changed_later(path)
            rest, error = pull_arrays(it)
        assert isinstance(error, SourceChangedError)
        assert len(got) + len(rest) <= 150


@pytest.mark.thorough
@pytest.mark.parametrize("number", THREADS)
def test_a_file_that_is_interleaved(tmp_path, number):
    paths = write_files(tmp_path, [text(n * COUNT) for n in range(3)])
    names = Dataset.list_files([os.fspath(one) for one in paths], shuffle=False)
    ds = names.interleave(TextLineDataset, 3, 1).batch(100)
    with iter(threads(ds, number)) as it:
        next(it)
        changed_later(paths[1])
        _, error = pull(it)
    assert isinstance(error, SourceChangedError) and error.path == os.fspath(paths[1])


@pytest.mark.thorough
@pytest.mark.parametrize("number", THREADS)
def test_the_rest_of_it_is_left_out(tmp_path, number):
    paths = write_files(tmp_path, [text(0), text(COUNT)])
    log = tmp_path / "log"
    options = Options(num_threads=number, on_error="skip", quarantine=log)
    with iter(TextLineDataset(paths).batch(100).with_options(options)) as it:
        got = [plain(next(it))]
        changed_later(paths[0])
        rest, error = pull(it)
        counts = it.stats()
    assert error is None
    numbers = [int(line) for line in flat(got + rest)]
    assert numbers[-COUNT:] == list(range(COUNT, 2 * COUNT))
    assert numbers[:-COUNT] == list(range(len(numbers) - COUNT)) and len(numbers) < 2 * COUNT
    assert (counts["skipped"], counts["skipped_files"]) == (0, 1)
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["path"], line["reason"], line["file"]) == (os.fspath(paths[0]), "SourceChangedError", True)


READERS = {
    "fixed": (fixed_bytes, lambda: qc.FixedLengthRecordReader(32)),
    "lines": (text, lambda: qc.TextLineReader()),
    "tfrecord": (records, lambda: qc.TFRecordReader()),
    "gzip": (gz, lambda: qc.TFRecordReader(options="GZIP")),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("way", ["rewritten", "appended to"])
def test_a_reader_s_file_is_rewritten(tmp_path, kind, way):
    make, new_reader = READERS[kind]
    path = tmp_path / "a"
    content = make() if kind != "gzip" else compress("GZIP", records(), 0)
    path.write_bytes(content)
    work = [path]
    reader = new_reader()
    keys = [reader.read(work)[0]]
    if way == "rewritten":
        path.write_bytes(content)
        changed_later(path)
    else:
        with path.open("ab") as file:
            file.write(b"more")
    error = None
    try:
        while True:
            keys += reader.read_up_to(work, 1000)[0].to_list()
    except qc.errors.OutOfRangeError:
        pass
    except SourceChangedError as caught:
        error = caught
    expected = COUNT // 8 if kind in ("tfrecord", "gzip") else len(content) // 32
    assert len(set(keys)) == len(keys)
    if way == "rewritten":
        assert error is not None and error.path == os.fspath(path)
        assert len(keys) < expected
        assert reader.num_work_units_completed() == 0
    else:
        assert error is None
        assert len(keys) == expected
        assert reader.num_work_units_completed() == 1


@pytest.mark.thorough
def test_one_look_more_at_each_file(tmp_path):
    hooks = pytest.importorskip("queuecore._core.testing.syscalls")
    count, size = 5, 3 << 20
    paths = write_files(tmp_path, [bytes(size)] * count)
    try:
        for ds in (dataset(paths, 64).batch(64), TextLineDataset(paths), dataset(paths, 64).shuffle(100, 1).batch(64)):
            hooks.reset_faults()
            run(threads(ds, 1))
            # When it is found, and when it has been read; each takes at least six reads.
            assert hooks.fstat_count() == 2 * count
    finally:
        hooks.reset_faults()


# Between two passes

WAYS = ("grown", "gone", "replaced", "replaced by the same")


def change(path, way):
    if way == "grown":
        with path.open("ab") as file:
            file.write(b"more")
    elif way == "gone":
        path.unlink()
    else:
        content = path.read_bytes()
        other = path.with_name("b")
        other.write_bytes(content if way != "replaced" else content[:-100])
        other.rename(path)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["fixed", "lines", "gzip"])
def test_all_of_the_first_pass_comes_before_an_error_of_the_second(tmp_path, kind, way, number):
    count = 3_000_000 if kind == "fixed" else COUNT
    content = {"fixed": lambda: np.arange(count, dtype="<u4").tobytes(), "lines": text, "gzip": gz}[kind]()
    source = {
        "fixed": lambda path: dataset(path, np.dtype("<u4")),
        "lines": TextLineDataset,
        "gzip": lambda path: TextLineDataset(path, "GZIP"),
    }[kind]
    path = tmp_path / "a"
    path.write_bytes(content)
    with iter(threads(source(path).repeat(2).batch(10_007), number)) as it:  # the pass ends within a batch
        got = [plain(next(it))]
        change(path, way)
        rest, error = pull(it)
    values = [int(one) for one in flat(got + rest)]
    if error is None:  # compressed files are opened before their turn, also that of the second pass
        assert kind == "gzip" and number > 1 and values == 2 * list(range(count))
        return
    assert isinstance(error, NotFoundError if way == "gone" else SourceChangedError)
    assert error.path == os.fspath(path)
    assert values == list(range(count))


NODES = {
    "a filter": lambda ds: ds.filter(lambda line: line[-1] != 51),
    "a function": lambda ds: ds.map(lambda line: bytes(line)),
    "a function of a filter": lambda ds: ds.filter(lambda line: bytes(line)[-1] != 51).map(lambda line: bytes(line)),
    "two datasets": lambda ds: ds.concatenate(Dataset.from_tensor_slices([b"x"])),
    "a zip": lambda ds: Dataset.zip((ds, ds.skip(1))),
    "ragged batches": lambda ds: ds.map(qc.ops.decode_raw(out_type=np.uint8)).dense_to_ragged_batch(10),
    "a window": lambda ds: ds.window(100, 100).flat_map(lambda window: window.batch(100)),
}


@pytest.mark.parametrize("number", (1, 7))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NODES)
def test_a_pass_over_an_input_finds_the_files_of_the_one_before(tmp_path, kind, way, number):
    path = tmp_path / "a"
    content = b"".join(b"%03d\n" % n for n in range(600))
    path.write_bytes(content)
    ds = NODES[kind](TextLineDataset(path)).batch(10)
    elements = run(threads(ds, number))[0]
    last = iter([False] * (len(elements) - 1) + [True])

    def passed(*batch):
        if next(last, False):  # of the first pass
            change(path, way)
        return batch if len(batch) > 1 else batch[0]

    came, error = run(threads(ds.map(passed).repeat(2), number))
    assert isinstance(error, NotFoundError if way == "gone" else SourceChangedError)
    assert error.path == os.fspath(path)
    assert came == elements


def test_closing_a_pass_that_there_is_no_memory_to_remember(tmp_path, monkeypatch):
    def refuse(stream, before=None):
        raise MemoryError

    monkeypatch.setattr(ChainStream, "known_files", refuse)
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % n for n in range(1000)))
    ds = TextLineDataset(path).filter(lambda line: np.bool_(True)).repeat(2)
    assert list(ds) == 2 * [b"%d" % n for n in range(1000)]
    with iter(ds) as it:
        next(it)
    gc.collect()  # an error of a generator that is closed in passing fails this test


def test_a_file_that_many_passes_open(tmp_path):
    # Few of them are ahead of the consumer, so that an endless stream ends soon.
    path = tmp_path / "a"
    content = np.arange(5000, dtype="<u4").tobytes()
    for number in THREADS:
        for before in (1, 7, 40):
            path.write_bytes(content)
            with iter(threads(dataset(path, np.dtype("<u4")).repeat().batch(77), number)) as it:
                results = [plain(next(it)) for _ in range(before)]
                with path.open("r+b") as file:
                    file.write(b"\xff" * 20_000)
                changed_later(path)
                rest, error = pull(it, 10_000)
            assert isinstance(error, SourceChangedError)
            numbers = flat(results)
            assert numbers == [n % 5000 for n in range(len(numbers))]


# Between a saved place and its use

CONTENTS = [b"".join(b"%d.%d\n" % (file, n) for n in range(20)) for file in range(5)]


def by_name(identity):
    return {
        "fixed": lambda paths: dataset(paths, 4, tail="drop"),
        "lines": TextLineDataset,
        "zip": lambda paths: Dataset.zip((TextLineDataset(paths), TextLineDataset(paths[::-1]))),
        "concatenate": lambda paths: TextLineDataset(paths[:3]).concatenate(TextLineDataset(paths[3:])),
        "python": lambda paths: TextLineDataset(paths).map(lambda line: line + b"!"),
        "shuffle": lambda paths: TextLineDataset(paths).shuffle(10, 1),
    }[identity]


SOURCES = ("fixed", "lines", "zip", "concatenate", "python", "shuffle")


def saved(ds, elements):
    with iter(ds) as it:
        for _ in range(elements):
            next(it)
        return json.loads(json.dumps(it.state_dict())), pull(it)[0]


def loaded(ds, state):
    with iter(ds) as it:
        it.load_state_dict(state)
        return pull(it)[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("identity", ["stat", "content"])
@pytest.mark.parametrize("way", ["same", "touched", "copied", "other bytes", "other bytes, same time", "longer"])
def test_a_place_is_loaded_onto_other_files(tmp_path, kind, identity, way):
    paths = write_files(tmp_path, CONTENTS)

    def make():
        return by_name(kind)(paths).repeat(2).with_options(Options(identity=identity))

    state, rest = saved(make(), 80)
    path, status = paths[1], paths[1].stat()
    if way == "touched":
        changed_later(path)
    elif way == "copied":
        shutil.copyfile(path, tmp_path / "new")
        (tmp_path / "new").rename(path)
        changed_later(path)
    elif way != "same":
        path.write_bytes(CONTENTS[1].replace(b"1.5", b"1.x") + b"more\n" * (way == "longer"))
        if way == "other bytes, same time":
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        else:
            changed_later(path)
    good = {"same", "other bytes, same time"} if identity == "stat" else {"same", "touched", "copied"}
    if way in good:
        assert len(loaded(make(), state)) == len(rest)
        if way != "other bytes, same time":
            assert loaded(make(), state) == rest
        return
    with iter(make()) as it:
        first = plain(next(it))
        with pytest.raises(ResumeMismatchError, match="part-00001") as caught:
            it.load_state_dict(state)
        assert caught.value.path == os.fspath(path)
        # It stays where it is.
        with iter(make()) as other:
            assert first == plain(next(other))
            assert plain(next(it)) == plain(next(other))


@pytest.mark.parametrize("way", ["stat", "content"])
def test_the_state_decides_what_is_compared(tmp_path, way):
    paths = write_files(tmp_path, CONTENTS)
    other = "content" if way == "stat" else "stat"
    state, rest = saved(TextLineDataset(paths).with_options(Options(identity=way)), 50)
    assert loaded(TextLineDataset(paths).with_options(Options(identity=other)), state) == rest
    changed_later(paths[0])
    if way == "content":
        assert loaded(TextLineDataset(paths).with_options(Options(identity=other)), state) == rest
    else:
        with pytest.raises(ResumeMismatchError):
            loaded(TextLineDataset(paths).with_options(Options(identity=other)), state)


def test_a_state_says_which_files_were_read(tmp_path):
    # Not those that are there when it is saved.
    paths = write_files(tmp_path, CONTENTS)
    with iter(TextLineDataset(paths)) as it:
        for _ in range(50):
            next(it)
        paths[0].write_bytes(CONTENTS[0].replace(b"0", b"9"))
        changed_later(paths[0])
        state = it.state_dict()
    with pytest.raises(ResumeMismatchError, match="part-00000"):
        loaded(TextLineDataset(paths), state)
    paths = write_files(tmp_path, CONTENTS)
    with iter(TextLineDataset(paths).with_options(Options(identity="content"))) as it:
        for _ in range(50):
            next(it)
        paths[0].write_bytes(CONTENTS[0].replace(b"0", b"9"))
        changed_later(paths[0])
        with pytest.raises(SourceChangedError, match="part-00000"):
            it.state_dict()
        # It goes on, as files that it has read may do what they like.
        assert plain(next(it)) == b"2.10"


def test_files_behind_the_place_may_change(tmp_path):
    paths = write_files(tmp_path, CONTENTS)
    for identity in ("stat", "content"):
        ds = TextLineDataset(paths).batch(1).with_options(Options(identity=identity))
        state, rest = saved(ds, 30)
        paths[4].write_bytes(b"new\n")
        assert loaded(ds, state) == rest[: -len(CONTENTS[4].splitlines())] + [[b"new"]]
        paths[4].write_bytes(CONTENTS[4])


def test_a_state_of_many_files(tmp_path):
    paths = write_files(tmp_path, [b"%d\n" % n for n in range(1000)])
    for make in (TextLineDataset, lambda paths: Dataset.zip((TextLineDataset(paths),))):
        for identity in ("stat", "content"):
            ds = make(paths).with_options(Options(identity=identity))
            state, rest = saved(ds, 990)
            assert len(json.dumps(state)) < 4000
            assert loaded(ds, state) == rest
            content = paths[500].read_bytes()
            paths[500].write_bytes(b"501\n")
            changed_later(paths[500])
            with pytest.raises(ResumeMismatchError) as caught:
                loaded(ds, state)
            named = [word for word in str(caught.value).split() if "part-" in word]
            first, last = [int(word.strip("'.bin,").rpartition("-")[2]) for word in named]
            assert first <= 500 <= last < first + 17
            paths[500].write_bytes(content)


@pytest.mark.parametrize("identity", ["stat", "content"])
@pytest.mark.parametrize("name", [b"a\nb", b"\xff\xfe", "ä €".encode()])
def test_a_state_of_odd_names(tmp_path, name, identity):
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(b"1\n2\n3\n4\n")
    ds = TextLineDataset([path]).with_options(Options(identity=identity))
    state, rest = saved(ds, 2)
    assert rest == [b"3", b"4"]
    state = json.loads(json.dumps(state))
    assert loaded(ds, state) == rest
    with open(path, "ab") as file:
        file.write(b"5\n")
    with pytest.raises(ResumeMismatchError) as caught:
        loaded(ds, state)
    assert os.fsencode(caught.value.path) == path


def checked(state):
    """A state with the check that it needs."""
    body = {key: value for key, value in state.items() if key != "check"}
    words = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return {**body, "check": hashlib.blake2b(words.encode("ascii"), digest_size=8).hexdigest()}


@pytest.mark.parametrize("kind", SOURCES)
def test_states_from_before_there_were_stamps(tmp_path, kind):
    paths = write_files(tmp_path, CONTENTS)
    state, rest = saved(by_name(kind)(paths), 40)
    old = copy.deepcopy(state)
    del old["stamps"]
    old = checked(old)
    assert loaded(by_name(kind)(paths), old) == rest
    changed_later(paths[1])
    if kind in ("fixed", "lines", "shuffle"):
        with pytest.raises(ResumeMismatchError):
            loaded(by_name(kind)(paths), old)


@pytest.mark.parametrize(
    "stamps",
    [
        None,
        {},
        {"by": "name"},
        {"files": 0},
        {"files": 4},
        {"files": 2**70},
        {"groups": []},
        {"groups": ["x"] * 3},
        {"more": 1},
    ],
)
def test_stamps_that_make_no_sense(tmp_path, stamps):
    paths = write_files(tmp_path, CONTENTS)
    state, _ = saved(TextLineDataset(paths).batch(1), 50)
    assert state["stamps"]["files"] == 3
    state["stamps"] = None if stamps is None else {**state["stamps"], **stamps} if stamps else {}
    with pytest.raises(ResumeMismatchError, match="damaged"):
        loaded(TextLineDataset(paths).batch(1), checked(state))


@pytest.mark.parametrize("identity", ["name", "", 1, b"stat", True])
def test_an_identity_that_there_is_not(identity):
    with pytest.raises(InvalidArgumentError, match="identity"):
        Options(identity=identity)


def test_the_later_identity_wins():
    assert Options(identity="stat").merged(Options(identity="content")) == Options(identity="content")
    assert repr(Options(identity="content")) == "Options(identity='content')"


# Files that say that they are empty

PROC = "/proc/version"


def version():
    with open(PROC, "rb") as file:
        return file.read()


def test_what_is_in_proc_is_read_by_readers():
    assert os.stat(PROC).st_size == 0
    for reader, expected in (
        (qc.WholeFileReader(), [version()]),
        (qc.TextLineReader(), version().splitlines()),
        (qc.FixedLengthRecordReader(5), [version()[at : at + 5] for at in range(0, len(version()) - 4, 5)]),
    ):
        got = []
        with pytest.raises(qc.errors.OutOfRangeError):
            work = [PROC]
            while True:
                got.append(reader.read(work)[1])
        assert got == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda path: dataset(path, 1),
        lambda path: dataset(path, 1).shuffle(10, 1),
        TextLineDataset,
        TFRecordDataset,
        lambda path: CsvDataset(path, [b""]),
        lambda path: TextLineDataset(path, "GZIP"),
        lambda path: Dataset.list_files([path]).interleave(TextLineDataset, 2),
    ],
)
def test_what_is_in_proc_is_refused_by_datasets(make):
    for number in THREADS:
        got, error = run(threads(make(PROC), number))
        assert got == []
        assert isinstance(error, UnavailableError)
        assert error.path == PROC and "Copy it" in str(error)
        got, error = run(make(PROC).with_options(Options(on_error="skip", num_threads=number)))
        assert (got, error) == ([], None)


def test_what_is_in_proc_is_not_counted():
    with pytest.raises(UnavailableError, match="Copy it"):
        len(dataset(PROC, 1))


def test_files_that_are_empty_stay_so(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"")
    for kind in ("fixed", "lines", "tfrecord", "gzip"):
        make = KINDS[kind][1]
        assert run(make(path)) == ([], None)
        assert run(make([path, path]).repeat(3)) == ([], None)
    assert qc.WholeFileReader().read([path])[1] == b""
    for reader in (qc.TextLineReader(), qc.TFRecordReader(), qc.FixedLengthRecordReader(3)):
        with pytest.raises(qc.errors.OutOfRangeError):
            reader.read([path])
