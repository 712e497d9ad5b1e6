"""The command line, run as a user runs it, and the examples of the README and of the users' pages."""

from __future__ import annotations

import importlib.util
import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import termios
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.formats.example_messages import example, feature
from PIL import Image

import queuecore as qc
from queuecore import __version__
from queuecore.cli import measure
from queuecore.cli.main import parse_dtype
from queuecore.cli.measure import MeasuredSource, floor_pass, plain_batches
from queuecore.cli.progress import Progress, human_count, human_seconds

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-P", "-m", "queuecore.cli"]
IMAGE = np.dtype([("label", "u1"), ("image", "u1", (3, 32, 32))])
DEADLINE = 50

# Separable classes in the shape of scikit-learn's digits, so that the training runs where that isn't installed.
FAKE_SKLEARN = """
import types
import numpy as np
def load_digits():
    generator = np.random.default_rng(7)
    target = generator.integers(0, 10, 1797)
    centers = generator.integers(0, 17, (10, 8, 8))
    images = np.clip(centers[target] + generator.normal(0, 1, (1797, 8, 8)), 0, 16)
    return types.SimpleNamespace(target=target, images=images)
"""


def run(*args, env=None, **options):
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env={**os.environ, **(env or {})},
        **options,
    )


def start(*args, **options):
    # The default dispositions: a test runner in the background ignores SIGINT, one under nohup SIGHUP, and so would its
    # children.
    return subprocess.Popen(
        [*COMMAND, *map(str, args)],
        text=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)],
        **options,
    )


def wait_for_line(process, text):
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"the process ended without {text!r}")


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(3)
    names = []
    for index in range(3):
        records = np.frombuffer(generator.bytes(50 * IMAGE.itemsize), IMAGE)
        names.append(tmp_path / f"part-{index}.bin")
        records.tofile(names[-1])
    return names


@pytest.fixture
def endless(tmp_path):
    """A file that takes practically for ever when it is read in a million epochs."""
    name = tmp_path / "long.bin"
    name.write_bytes(bytes(1_000_000))
    return [name, "--record-bytes", "10", "--batch", "1000", "--epochs", "1000000", "--rounds", "0"]


# ---- stream ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "kind",
    [
        ["--record-bytes", "3073"],
        ["--dtype", "u1,(3,32,32)u1"],
        ["--dtype", "[('label','u1'),('image','u1',(3,32,32))]"],
        ["--dtype", "[('head','>u2'),('rest','u1',(3071,))]"],
    ],
)
@pytest.mark.parametrize(
    "how",
    [[], ["--shuffle", "40", "--seed", "1"], ["--threads", "1", "--epochs", "2"]],
    ids=["plain", "shuffle", "one"],
)
def test_stream_prints_three_rates(files, kind, how):
    done = run("stream", files[0].parent / "part-*.bin", *kind, "--batch", 32, "--rounds", 1, *how)
    assert done.returncode == 0, done.stderr
    epochs = 2 if "--epochs" in how else 1
    assert f"streamed {150 * epochs} records" in done.stdout
    assert "150 records of 3,073 bytes in 3 files" in done.stdout
    for contender in ("preadv floor", "plain Python", "queuecore"):
        row = re.search(rf"^ +{contender}.* +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
        assert row, done.stdout
        assert float(row[1].replace(",", "")) > 0
    assert done.stderr.startswith("stream: 0 of ")


def test_stream_takes_names_as_well_as_a_pattern(files):
    done = run("stream", files[2], files[0], "--record-bytes", 3073, "--batch", 7, "--rounds", 0)
    assert done.returncode == 0, done.stderr
    assert "streamed 100 records" in done.stdout
    assert "floor" not in done.stdout


def test_stream_leaves_headers_and_footers_out(tmp_path):
    (tmp_path / "one.bin").write_bytes(b"HH" + bytes(40) + b"FFF")
    done = run(
        "stream", tmp_path / "one.bin", "--record-bytes", 4, "--batch", 4, "--rounds", 1, "--header-bytes", 2,
        "--footer-bytes", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "streamed 10 records" in done.stdout


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"queuecore {__version__}\n")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ([], 2, ["COMMAND"]),
        (["rain"], 2, ["rain"]),
        (["stream", "x"], 2, ["--batch"]),
        (["stream", "x", "--batch", "4"], 2, ["--record-bytes", "--dtype"]),
        (["stream", "x", "--batch", "4", "--record-bytes", "2", "--dtype", "u1"], 2, ["not allowed with"]),
        (["stream", "x", "--batch", "0", "--record-bytes", "2"], 2, ["--batch", "1 or more"]),
        (["stream", "x", "--batch", "many", "--record-bytes", "2"], 2, ["--batch", "many"]),
        (["stream", "x", "--batch", "4", "--record-bytes", "-2"], 2, ["--record-bytes"]),
        (["stream", "x", "--batch", "4", "--dtype", "[('a', open('f'))]"], 2, ["--dtype", "not a dtype"]),
        (["stream", "x", "--batch", "4", "--dtype", "u9"], 2, ["--dtype", "u9"]),
        (["stream", "x", "--batch", "4", "--dtype", "O"], 2, ["--dtype", "objects"]),
        (["stream", "x", "--batch", "4", "--dtype", "S0"], 2, ["--dtype", "0 bytes"]),
        (["demo", "--dir", "no/such/folder"], 2, ["no/such/folder"]),
        (["stream", "no-such.bin", "--batch", "4", "--record-bytes", "2"], 1, ["no-such.bin", "check"]),
        (["stream", "no-such-*.bin", "--batch", "4", "--record-bytes", "2"], 1, ["no-such-*.bin", "check"]),
        (["stream", ".", "--batch", "4", "--record-bytes", "2"], 1, ["is a folder", "name the files"]),
        (["stream", "empty.bin", "--batch", "4", "--record-bytes", "2"], 1, ["empty.bin", "check the record size"]),
    ],
)
def test_wrong_input_gives_one_line(tmp_path, args, code, words):
    (tmp_path / "empty.bin").touch()
    done = run(*args, cwd=tmp_path)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_a_cut_file_is_named_with_the_remedy_and_can_be_dropped(files):
    files[1].write_bytes(files[1].read_bytes()[:-5])
    args = ["stream", *files, "--record-bytes", 3073, "--batch", 10, "--rounds", 1]
    done = run(*args)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("queuecore: error: ")
    assert str(files[1]) in last
    assert last.count("--tail drop") == 1 and "tail='drop'" not in last
    assert "Traceback" not in done.stderr
    dropped = run(*args, "--tail", "drop")
    assert dropped.returncode == 0, dropped.stderr
    assert "streamed 149 records" in dropped.stdout


def test_an_unreadable_file_is_named(files):
    files[0].chmod(0)
    if os.access(files[0], os.R_OK):
        pytest.skip("this user may read everything: make test")
    done = run("stream", files[0], "--record-bytes", 3073, "--batch", 10)
    assert done.returncode == 1
    assert str(files[0]) in done.stderr
    assert "permission denied" in done.stderr.lower()


# ---- being stopped ---------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_stream_cleanly(endless):
    with start("stream", *endless, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for_line(process, "stream: 0 of")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, rest = process.communicate(timeout=DEADLINE)
    assert time.monotonic() - sent < 5
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "queuecore: interrupted"
    assert "Traceback" not in rest


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
@pytest.mark.parametrize("moment", ["write: 0 of", "measure: 0 of"], ids=["write", "measure"])
def test_a_stopped_demo_leaves_no_files(tmp_path, number, code, moment):
    megabytes = "300" if moment.startswith("write") else "3"
    args = ["demo", "--part", "stream", "--megabytes", megabytes, "--rounds", "1000000", "--dir", tmp_path]
    with start(*args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for_line(process, moment)
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        _, rest = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_went_away_gets_no_traceback(files):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [*COMMAND, "stream", str(files[0]), "--record-bytes", "3073", "--batch", "10", "--rounds", "1"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_closed_standard_streams_are_no_reason_to_stop(files):
    words = [*COMMAND, "stream", str(files[0]), "--record-bytes", "3073", "--batch", "10", "--rounds", "1"]
    command = f"{shlex.join(words)} >&- 2>&-"
    assert subprocess.run(command, shell=True, timeout=DEADLINE).returncode == 0


@pytest.mark.parametrize("size", [(24, 80), (0, 0)], ids=["sized", "unsized"])
def test_a_terminal_shows_progress(files, size):
    main, other = pty.openpty()
    termios.tcsetwinsize(other, size)
    args = [*files, "--record-bytes", 3073, "--batch", 10, "--rounds", 0]
    with start("stream", *args, stdout=other, stderr=other) as process:
        os.close(other)
        output = b""
        try:
            while part := os.read(main, 4096):
                output += part
        except OSError:
            pass  # Linux reports EIO when the other end is gone
        os.close(main)
    assert process.returncode == 0, output
    # A bar where tqdm is installed, lines elsewhere.
    expected = (
        rb"stream: .*150/150 .* records/s" if importlib.util.find_spec("tqdm") else rb"stream: 150 of 150 records"
    )
    assert re.search(expected, output), output


# ---- demo ------------------------------------------------------------------------------------------------------------


def test_demo_streams_and_compares(tmp_path):
    done = run("demo", "--part", "stream", "--megabytes", 3, "--rounds", 1, "--dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "976 records of 3,073 bytes (3.0 MB, 1 file, warm)" in done.stdout
    for contender in ("preadv floor", "plain Python loader", "queuecore, 1 thread", "queuecore, shuffled"):
        assert contender in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def digits(tmp_path):
    """An environment in which scikit-learn is a stand-in."""
    package = tmp_path / "fake" / "sklearn"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "datasets.py").write_text(FAKE_SKLEARN)
    paths = [str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def test_demo_trains_to_its_goal(tmp_path, digits):
    folder = tmp_path / "scratch"
    folder.mkdir()
    first, second = (run("demo", "--part", "train", "--steps", 300, "--dir", folder, env=digits) for _ in range(2))
    assert first.returncode == 0, first.stderr
    accuracies = [re.search(r"held-out digits: ([\d.]+)%", one.stdout) for one in (first, second)]
    assert all(accuracies)
    assert float(accuracies[0][1]) >= 95
    assert accuracies[0][1] == accuracies[1][1]
    assert "train: 300 of 300 batches (100%)" in first.stderr
    assert list(folder.iterdir()) == []


def test_demo_that_misses_its_goal_fails(tmp_path, digits):
    done = run("demo", "--part", "train", "--steps", 1, "--dir", tmp_path, env=digits)
    assert done.returncode == 1
    assert "is below 95%" in done.stderr.splitlines()[-1]


def test_demo_without_scikit_learn_says_what_to_install(tmp_path, digits):
    (tmp_path / "fake" / "sklearn" / "__init__.py").write_text("raise ImportError('not here')")
    done = run("demo", "--part", "train", env=digits)
    assert done.returncode == 1
    assert "pip install scikit-learn" in done.stderr
    assert "Traceback" not in done.stderr


# ---- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "dtype"),
    [
        ("<f4", np.dtype("<f4")),
        (" u1,(3,32,32)u1 ", np.dtype([("f0", "u1"), ("f1", "u1", (3, 32, 32))])),
        ("[('label','u1'),('image','u1',(3,32,32))]", IMAGE),
        ("{'names':['a'],'formats':['>i4'],'offsets':[4],'itemsize':16}",
         np.dtype({"names": ["a"], "formats": [">i4"], "offsets": [4], "itemsize": 16})),
    ],
)  # fmt: skip
def test_dtype_specs(spec, dtype):
    assert parse_dtype(spec) == dtype


@pytest.mark.parametrize(
    "spec",
    ["", "nonsense", "[('a'", "[1]", "{}", "(", "O", "V0", "[('a','O')]", "__import__('os')", "[" * 500, "{'a': 1}"],
)
def test_dtype_specs_that_are_none(spec):
    with pytest.raises(ValueError):
        parse_dtype(spec)


@pytest.mark.parametrize("batch", [1, 7, 50, 64, 1000])
def test_the_plain_loader_reads_everything_in_order(files, batch):
    source = MeasuredSource(tuple(map(str, files)), (50 * 3073,) * 3, IMAGE, 3073)
    batches = list(plain_batches(source, batch))
    assert [len(one["label"]) for one in batches[:-1]] == [batch] * (len(batches) - 1)
    expected = np.concatenate([np.fromfile(name, IMAGE) for name in files])
    for name in IMAGE.names:
        np.testing.assert_array_equal(np.concatenate([one[name] for one in batches]), expected[name])


def test_the_floor_counts_all_bytes(files):
    source = MeasuredSource(tuple(map(str, files)), (50 * 3073,) * 3, IMAGE, 3073)
    one = floor_pass(source, 8)
    assert (one.records, one.nbytes) == (150, 150 * 3073)


def test_progress_writes_lines_with_rate_and_eta():
    stream = io.StringIO()
    with Progress("read", 1000, "records", stream, interval=0) as progress:
        progress.update(250)
        progress.note("loss 0.5")
        progress.update(750)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "read: 0 of 1,000 records"
    assert re.fullmatch(r"read: 250 of 1,000 records \(25%\), .* records/s, ETA .*", lines[1])
    assert lines[-1].endswith("loss 0.5")
    assert ["(100%)" in line for line in lines] == [False, False, True]


def test_progress_survives_a_closed_stream():
    stream = io.StringIO()
    progress = Progress("read", None, "records", stream, interval=0)
    stream.close()
    progress.update(1)
    progress.close()
    assert progress.done == 1


def test_numbers_for_people():
    assert [human_count(x) for x in (7, 9999, 12_345, 4_123_456, 2e9)] == ["7", "9999", "12.3 k", "4.12 M", "2.00 G"]
    assert [human_seconds(x) for x in (0.26, 12.4, 75, 3700)] == ["0.3 s", "12 s", "1 min 15 s", "1 h 01 min"]


# ---- measuring -------------------------------------------------------------------------------------------------------


def test_a_source_in_parts():
    source = MeasuredSource(tuple("abcdef"), (30, 30, 50, 90, 10, 10), None, 10)
    assert [part.paths for part in source.parts(100)] == [("a", "b"), ("c",), ("d", "e"), ("f",)]
    assert [part.sizes for part in source.parts(1)] == [(30,), (30,), (50,), (90,), (10,), (10,)]
    assert [part.paths for part in source.parts(1000)] == [tuple("abcdef")]


def test_contenders_take_turns_over_the_parts(monkeypatch):
    parts = MeasuredSource(("a", "b"), (40, 40), None, 10).parts(40)
    calls = []
    monkeypatch.setattr(measure, "_machine_times", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(measure.os, "getloadavg", lambda: (0.0, 0.0, 0.0))

    def contender(name, seconds):
        def run(part):
            calls.append((name, part.paths[0]))
            # Twice as slow from the second round on: rates follow, their ratios and the processors' time don't.
            slow = 2 if len(calls) > 2 else 1
            return measure.Pass(4, 40, seconds * slow, 8e-6)

        return name, run

    compared = measure.compare([contender("floor", 1.0), contender("other", 4.0)], parts, 3)
    assert calls == [("floor", "a"), ("other", "a"), ("other", "b"), ("floor", "b"), ("floor", "a"), ("other", "a")]
    floor, other = compared.rows
    assert (floor.name, floor.ratio, other.ratio) == ("floor", 1.0, 0.25)
    assert other.median.records_per_s == 0.5
    assert floor.cpu_us == other.cpu_us == pytest.approx(2.0)
    assert "swung by a factor of 2.0" in compared.note


QUIET = {
    "times_before": (10.0, 0.0, 100.0),
    "times_after": (30.0, 0.0, 140.0),
    "own_cpu_s": 20.0,
    "load": 0.1,
    "floors": [1.0, 1.2, 1.1],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"own_cpu_s": 19.0}, None),
        ({"own_cpu_s": 10.0}, "other programs took 25% of its processors"),
        ({"times_after": (30.0, 4.0, 140.0)}, "10% away (steal)"),
        ({"load": 50.0}, "the load was 50.0"),
        ({"floors": [1.0, 1.3, 1.1]}, None),
        ({"floors": [1.0, 1.5, 1.1]}, "swung by a factor of 1.5"),
        ({"floors": [1.0] * 10 + [5.0]}, None),  # a round that stands out by itself
        ({"times_before": (0.0, 0.0, 0.0), "times_after": (0.0, 0.0, 0.0)}, None),  # the system doesn't say
    ],
)
def test_what_else_the_machine_did(change, words):
    note = measure.others_note(**{**QUIET, **change})
    assert note is None if words is None else words in note


# ---- README and docs -------------------------------------------------------------------------------------------------

# How many programs each page has.
PAGES = {
    "README.md": 1,
    "docs/guide.md": 5,
    "docs/data-sources.md": 6,
    "docs/pictures.md": 1,
    "docs/queues.md": 4,
    "docs/devices.md": 1,
}


def examples(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="runs where the README is")
def test_every_example_is_run():
    assert {page: len(examples(page)) for page in PAGES} == PAGES
    assert all(15 <= len(block.splitlines()) <= 32 for page in PAGES for block in examples(page))


@pytest.mark.sampled(3)
@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="runs where the README is")
@pytest.mark.parametrize(("page", "number"), [(page, number) for page, most in PAGES.items() for number in range(most)])
def test_the_examples_of_the_readme_and_the_docs_run(tmp_path, page, number):
    blocks = examples(page)
    for package in re.findall(r"^import (h5py|pyarrow)", blocks[number], re.MULTILINE):
        pytest.importorskip(package, reason=f"{package} is not installed: make doors")
    (tmp_path / "data").mkdir()
    for index in range(2):
        np.frombuffer(np.random.default_rng(index).bytes(2_000 * IMAGE.itemsize), IMAGE).tofile(
            tmp_path / "data" / f"part-{index}.bin"
        )
        with qc.TFRecordWriter(tmp_path / "data" / f"part-{index}.tfrecord") as writer:
            for label in range(150):
                writer.write(example(image=feature(bytes([label]) * 3072), label=feature(label)))
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x 1 2\ny one\n")
    (tmp_path / "table.csv").write_text("a,b,c\n1.5,2,x\n,,y\n")
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        (tmp_path / "images" / label / "1.jpg").write_bytes(label.encode() * 3)
    with tarfile.open(tmp_path / "data" / "images.tar", "w") as tar:
        tar.add(tmp_path / "images", "images")
    if "pyarrow" in blocks[number]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {"x": np.arange(5), "y": np.arange(5) / 2, "name": list("abcde")}
        pq.write_table(pa.table(columns), tmp_path / "data" / "table.parquet")
    if "h5py" in blocks[number]:
        import h5py

        with h5py.File(tmp_path / "data" / "arrays.h5", "w") as file:
            file["x"] = np.arange(300, dtype=np.float32).reshape(100, 3)
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "train" / name / "1.jpg")
    command = [sys.executable, "-P", "-W", "error", "-c", blocks[number]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
