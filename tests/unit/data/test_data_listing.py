"""Files of a pattern with several folders are read while later folders are still listed."""

import gzip
import itertools
import os
import textwrap
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.formats.tfrecords import stream
from helpers.process import run_python

from queuecore._io import names
from queuecore.data import FixedLengthRecordDataset, Options, TextLineDataset, TFRecordDataset, WholeFileDataset
from queuecore.errors import InvalidArgumentError, NotFoundError

# By bytes of whole names "a-b/…" and "a.b/…" come before "a/…", and "empty" has no file that matches.
FOLDERS = ["a", "a.b", "a-b", "b", "empty", "z"]
ORDER = ["a-b", "a.b", "a", "b", "z"]
FILES = 7
SIZE = 8


def content(folder, number):
    return [f"{folder:4}{number:02}{record:02}".encode() for record in range(number % 4 + 1)]


FORMATS = {
    "lines": (lambda records: b"".join(record + b"\n" for record in records), TextLineDataset),
    "compressed": (
        lambda records: gzip.compress(b"".join(record + b"\n" for record in records)),
        lambda path: TextLineDataset(path, compression_type="GZIP"),
    ),
    "TFRecords": (stream, TFRecordDataset),
    "fixed": (b"".join, lambda path: FixedLengthRecordDataset(path, SIZE)),
    "whole": (b"".join, lambda path: WholeFileDataset(path).map(lambda name, contents: contents)),
}


def as_bytes(element):
    return element.tobytes() if isinstance(element, np.ndarray) else element


class Gate:
    """Lists a folder once it is opened."""

    def __init__(self):
        self.opened = {folder: threading.Event() for folder in FOLDERS}

    def open(self, *folders):
        for folder in folders or FOLDERS:
            self.opened[folder].set()

    def close(self):
        for opened in self.opened.values():
            opened.clear()

    def glob(self, path, **options):
        for folder in FOLDERS:
            if isinstance(path, bytes) and path.endswith(f"/{folder}/*.bin".encode()):
                assert self.opened[folder].wait(30)
        return GLOB.glob(path, **options)


GLOB = names.glob


@pytest.fixture
def gate(monkeypatch):
    gate = Gate()
    own = SimpleNamespace(glob=gate.glob, escape=GLOB.escape, has_magic=GLOB.has_magic)
    monkeypatch.setattr(names, "glob", own)
    yield gate
    gate.open()


@pytest.fixture(params=FORMATS)
def kind(request, tmp_path):
    """Return a maker of the dataset, and the records of each folder."""
    write, make = FORMATS[request.param]
    records = {}
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        records[folder] = []
        for number in range(FILES if folder != "empty" else 0):
            own = content(folder, number)
            (tmp_path / folder / f"{number}.bin").write_bytes(write(own))
            records[folder] += [b"".join(own)] if request.param == "whole" else own
    (tmp_path / "empty/other").write_bytes(b"")
    return lambda: make(f"{tmp_path}/*/*.bin"), records


def all_of(records):
    return [record for folder in ORDER for record in records[folder]]


@pytest.mark.parametrize("threads", [1, 3])
def test_files_are_read_before_later_folders_are_listed(gate, kind, threads):
    make, records = kind
    gate.open("a-b")
    with iter(make().with_options(Options(num_threads=threads, on_hold="copy"))) as it:
        results = []
        for folder, later in itertools.zip_longest(ORDER, ORDER[1:]):
            results += [as_bytes(element) for element in itertools.islice(it, len(records[folder]))]
            assert results == all_of(records)[: len(results)]
            if later is not None:
                gate.open(later, "empty")
        assert next(it, None) is None
    assert results == all_of(records)


STEPS = {
    "batches": lambda ds: ds.batch(5).unbatch(),
    "repeat": lambda ds: ds.repeat(2),
    "take": lambda ds: ds.take(20),
    "skip": lambda ds: ds.skip(30),
    "shard": lambda ds: ds.shard(3, 1),
    "shuffle": lambda ds: ds.shuffle(10, 3),
    "function": lambda ds: ds.filter(lambda record: record.endswith(b"0") if isinstance(record, bytes) else True),
}


@pytest.mark.parametrize("steps", STEPS)
def test_elements_are_those_of_all_files(gate, kind, steps):
    make, _ = kind
    gate.open()
    expected = [as_bytes(element) for element in STEPS[steps](make())]
    gate.close()
    gate.open("a-b")
    ds = STEPS[steps](make()).with_options(Options(num_threads=2, on_hold="copy"))
    with iter(ds) as it:
        opener = threading.Thread(target=gate.open)
        opener.start()
        assert [as_bytes(element) for element in it] == expected
        opener.join()


def test_a_place_is_that_of_all_files(gate, kind):
    make, records = kind
    expected = all_of(records)
    gate.open("a-b")
    with iter(make()) as it:
        for _ in range(5):
            next(it)
        gate.open()
        state = it.state_dict()
        assert [as_bytes(element) for element in it] == expected[5:]
    gate.close()
    gate.open("a-b")
    with iter(make()) as it:
        opener = threading.Thread(target=gate.open)
        opener.start()
        it.load_state_dict(state)
        assert [as_bytes(element) for element in it] == expected[5:]
        opener.join()


@pytest.mark.parametrize("cycle", [2, 100])
def test_interleaved_files(gate, tmp_path, cycle):
    for folder in ORDER:
        (tmp_path / folder).mkdir()
        for number in range(FILES):
            (tmp_path / folder / f"{number}.bin").write_bytes(b"".join(r + b"\n" for r in content(folder, number)))
    pattern = f"{tmp_path}/*/*.bin"
    gate.open()
    paths = sorted(GLOB.glob(os.fsencode(pattern)))
    expected = list(TextLineDataset(paths, num_parallel_reads=cycle))
    gate.close()
    gate.open("a-b")
    ds = TextLineDataset(pattern, num_parallel_reads=cycle)
    opener = threading.Timer(0.01, gate.open)
    opener.start()
    assert list(ds) == expected
    opener.join()


def test_the_last_folder_is_listed_while_an_iterator_is_made(gate, kind, monkeypatch):
    make, records = kind
    gate.open("a-b")
    followed = []
    with monkeypatch.context() as held_back:
        held_back.setattr(names.Listing, "follow", lambda listing, files, stream: followed.append((files, stream)))
        it = iter(make())
    [(files, stream)] = followed
    gate.open()
    assert len(files) == FILES * len(ORDER) and files.whole
    files.follow(stream)
    with it:
        assert [as_bytes(element) for element in it] == all_of(records)


def test_what_needs_all_names_waits(gate, kind):
    make, records = kind
    gate.open("a-b")
    ds = make()
    files = next(ds._chain.file_lists())
    assert files.known == FILES
    assert not files.whole
    assert "and more" in ds.plan()
    opener = threading.Timer(0.01, gate.open)
    opener.start()
    assert len(files) == FILES * len(ORDER)
    assert files.whole
    assert "and more" not in ds.plan()
    assert [as_bytes(element) for element in ds] == all_of(records)
    opener.join()


def test_nothing_matches(tmp_path):
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
    with pytest.raises(InvalidArgumentError, match="no file matches"):
        TextLineDataset(f"{tmp_path}/*/*.bin")


def test_a_file_that_is_gone_is_an_error_in_its_place(monkeypatch, tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
    (tmp_path / "a/0.bin").write_bytes(b"a\n")
    gone = os.fsencode(tmp_path / "b/0.bin")
    own = SimpleNamespace(
        glob=lambda path, **options: [gone] if path.endswith(b"/b/*.bin") else GLOB.glob(path, **options),
        escape=GLOB.escape,
        has_magic=GLOB.has_magic,
    )
    monkeypatch.setattr(names, "glob", own)
    with iter(TextLineDataset(f"{tmp_path}/*/*.bin")) as it:
        assert next(it) == b"a"
        with pytest.raises(NotFoundError, match="b/0.bin"):
            next(it)


def test_an_iterator_that_is_closed_waits_for_no_listing(gate, kind):
    make, records = kind
    gate.open("a-b")
    it = iter(make())
    assert as_bytes(next(it)) == records["a-b"][0]
    it.close()
    del it
    gate.open()


def run_with_a_folder_held_back(tmp_path, folders, program):
    """Run a program, in which the last folder isn't listed in this process before the gate is set."""
    for folder in folders:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.bin").write_bytes(folder.encode() + b"\n")
    gated = """
        import os, signal, sys, threading, time
        from types import SimpleNamespace
        from queuecore._io import names
        from queuecore.data import TextLineDataset
        real, gate, main, parent = names.glob, threading.Event(), threading.get_ident(), os.getpid()
        def listed(path, **options):
            if path.endswith(f"/{sys.argv[2]}/*.bin".encode()) and os.getpid() == parent:
                gate.wait()
            return real.glob(path, **options)
        names.glob = SimpleNamespace(glob=listed, escape=real.escape, has_magic=real.has_magic)
        ds = TextLineDataset(sys.argv[1] + "/*/*.bin")
        """
    return run_python(textwrap.dedent(gated) + textwrap.dedent(program), tmp_path, folders[-1])


def test_a_forked_child_lists_itself(tmp_path):
    done = run_with_a_folder_held_back(
        tmp_path,
        "abc",
        """
        child = os.fork()
        if child == 0:
            os._exit(0 if list(ds) == [b"a", b"b", b"c"] and len(next(ds._chain.file_lists())) == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
        gate.set()
        assert list(ds) == [b"a", b"b", b"c"]
        """,
    )
    assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_the_wait_for_a_listing(tmp_path):
    done = run_with_a_folder_held_back(
        tmp_path,
        "ab",
        """
        files = next(ds._chain.file_lists())
        def waits():
            frame = sys._current_frames()[main]
            return frame.f_back is not None and frame.f_back.f_code is names.Listing.wait.__code__
        def interrupt():
            while not waits():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            len(files)
        except KeyboardInterrupt:
            gate.set()
            print(len(files))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2"]
