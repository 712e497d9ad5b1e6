"""The experiment ``benchmarks/e2e/feed_vs_queue.py``: its model, four ways to feed it, its picture, its commands."""

from __future__ import annotations

import importlib.util
import itertools
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from helpers.process import PATIENCE, soon, thread_ids
from hypothesis import given, strategies as st
from PIL import Image

import queuecore as qc
from queuecore.errors import DeviceUnavailableError

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "e2e" / "feed_vs_queue.py"
if not PATH.exists():
    pytest.skip("the benchmarks are in no sdist", allow_module_level=True)


def load():
    spec = importlib.util.spec_from_file_location(PATH.stem, PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[PATH.stem] = module  # where dataclasses look up the module of their annotations
    spec.loader.exec_module(module)
    return module


example = load()
SMALL = example.Settings(steps=90, batch=32, inputs=64, hidden=64, report_every=30)
HOST = example.find_plane("cpu")


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = thread_ids()
    yield
    assert soon(lambda: thread_ids() <= before, PATIENCE)


@pytest.fixture(scope="module", autouse=True)
def threads_of_the_library():
    """NumPy's products make threads once, and they stay."""
    np.ones((512, 512), np.float32) @ np.ones((512, 512), np.float32)


class FakeEvent:
    """An event whose times come from a counter: each is 2 ms after the one before it."""

    times = itertools.count()
    waits = 0

    def record(self):
        self.time = 2.0 * next(self.times)

    def synchronize(self):
        type(self).waits += 1


class FakeCupy(types.ModuleType):
    """NumPy, with the parts of ``cupy.cuda`` that the example uses."""

    def __init__(self):
        super().__init__("cupy")
        self.syncs = 0
        self.cuda = types.SimpleNamespace(
            Event=FakeEvent,
            get_elapsed_time=lambda before, after: after.time - before.time,
            get_current_stream=lambda: types.SimpleNamespace(synchronize=self._sync),
        )

    def _sync(self):
        self.syncs += 1

    def __getattr__(self, name):
        return getattr(np, name)


# ---- the model -------------------------------------------------------------------------------------------------------


class Textbook:
    """The same network in float64: the cross-entropy as textbooks have it, slopes by differences, plain Adam."""

    def __init__(self, settings):
        generator = np.random.default_rng([settings.seed, 1])
        self.inputs, self.hidden = settings.inputs, settings.hidden
        w1 = generator.normal(0, 0.1, (self.inputs, self.hidden))
        w2 = generator.normal(0, 0.1, (self.hidden, 1))
        self.p = np.concatenate([w1.ravel(), np.full(self.hidden, 0.1), w2.ravel(), [0.1]])
        self.m, self.v, self.t = np.zeros_like(self.p), np.zeros_like(self.p), 0

    def loss(self, p, x):
        w1, b1, w2, b2 = np.split(p, np.cumsum([self.inputs * self.hidden, self.hidden, self.hidden]))
        total = 0.0
        for row in x.astype(np.float64):
            hidden = np.maximum(row @ w1.reshape(self.inputs, self.hidden) + b1, 0)
            sigmoid = 1 / (1 + np.exp(-(hidden @ w2 + b2[0])))
            total -= np.log(sigmoid if row.sum() > 0 else 1 - sigmoid)
        return total / len(x)

    def train(self, x):
        loss = self.loss(self.p, x)
        steps = np.eye(len(self.p)) * 1e-6
        g = np.array([(self.loss(self.p + one, x) - self.loss(self.p - one, x)) / 2e-6 for one in steps])
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        self.p = self.p - 0.01 * np.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t) * self.m / (np.sqrt(self.v) + 1e-8)
        return loss


@pytest.mark.parametrize("seed", range(3))
def test_the_network_learns_as_the_textbook_says(seed):
    settings = example.Settings(batch=6, inputs=5, hidden=4, seed=seed)
    ours, theirs, make = example.Network(np, settings), Textbook(settings), example.maker(settings)
    for _ in range(12):
        x = make()
        assert float(ours.train(x)) == pytest.approx(theirs.train(x), rel=1e-3, abs=1e-5)


def test_large_outputs_overflow_nothing():
    network = example.Network(np, SMALL)
    x = example.maker(SMALL)() * np.float32(1e8)
    assert 1e5 < float(network.train(x)) < np.inf  # a warning would be an error here
    assert np.isfinite(float(network.train(x)))


def test_labels_are_int32_of_a_sum_above_0():
    labels = example.Network(np, SMALL)._labels(np.array([[1, -1], [1, -0.5], [-3, 1]], np.float32))
    assert labels.dtype == np.int32
    assert labels.tolist() == [0, 1, 0]


def test_all_arrays_are_float32():
    network = example.Network(np, SMALL)
    loss = network.train(example.maker(SMALL)())
    assert loss.dtype == network._parameters.dtype == network._slopes.dtype == np.float32


# ---- the four ways ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("arm", example.ARMS)
def test_each_way_learns(arm, tmp_path):
    lines = []
    result = example.run_arm(arm, SMALL, HOST, tmp_path, lines.append)
    losses = list(result.losses.values())
    assert list(result.losses) == [30, 60, 90]
    assert losses[-1] < losses[0] < 1
    before, after = result.accuracy
    assert before < 0.7 < 0.9 < after
    assert len(lines) == 4
    assert 0 < result.busy < result.seconds


@pytest.mark.parametrize("arm", example.ARMS)
def test_a_way_gives_the_batches_that_the_seed_says(arm, tmp_path):
    generator = np.random.default_rng([7, 2])
    settings = example.Settings(steps=9, batch=8, inputs=24, seed=7)
    with example.ARMS[arm](settings, HOST, example.Result(arm), tmp_path) as take:
        for _ in range(9):
            expected = generator.standard_normal((8, 24), dtype=np.float32)
            if arm == "uint8":
                expected = (np.clip(np.round(expected * 32) + 128, 0, 255) - 128) / 32
            x = take()
            assert x.dtype == np.float32
            assert np.array_equal(x, expected)


@pytest.mark.parametrize("arm", ["files", "uint8"])
def test_a_short_file_begins_anew(arm, tmp_path):
    settings = example.Settings(steps=7, batch=4, inputs=8, file_batches=3)
    with example.ARMS[arm](settings, HOST, example.Result(arm), tmp_path) as take:
        taken = [take().copy() for _ in range(7)]
    assert [np.array_equal(taken[0], one) for one in taken] == [True, False, False, True, False, False, True]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 3 * 4 * 8 * (4 if arm == "files" else 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings", [SMALL, example.Settings(steps=5, report_every=1)], ids=["small", "of the tutorials"]
)
def test_the_same_batches_end_with_the_same_loss(settings, tmp_path):
    results = [example.run_arm(arm, settings, HOST, tmp_path) for arm in ("feed", "queue", "files")]
    assert results[0].losses == results[1].losses == results[2].losses
    assert results[0].accuracy == results[1].accuracy == results[2].accuracy
    rounded = example.run_arm("uint8", settings, HOST, tmp_path)
    assert rounded.losses != results[0].losses
    assert list(rounded.losses.values()) == pytest.approx(list(results[0].losses.values()), rel=0.2, abs=0.1)


@pytest.mark.parametrize("arm", example.ARMS)
def test_spans_are_in_order_and_fill_the_run(arm, tmp_path):
    result = example.run_arm(arm, SMALL, HOST, tmp_path)
    consumer, producer = result.spans["consumer"], result.spans["producer"]
    assert [what for what, _, _ in consumer] == ["wait", "step"] * SMALL.steps
    for spans in (consumer, producer):
        times = [time for _, begin, end in spans for time in (begin, end)]
        assert times == sorted(times)
    inside = sum(end - begin for _, begin, end in consumer)
    assert inside <= result.seconds
    if arm == "feed":
        made = [span[1:] for span in producer if span[0] == "make"]
        waited = [span[1:] for span in consumer if span[0] == "wait"]
        assert all(w[0] <= m[0] <= m[1] <= w[1] for m, w in zip(made, waited, strict=True))
    if arm == "queue":
        assert len(producer) // 2 >= SMALL.steps
        assert {what for what, _, _ in producer} == {"make", "wait"}
    assert bool(producer) == (arm in ("feed", "queue"))


def test_the_runner_stays_at_most_a_queue_ahead(tmp_path):
    result = example.Result("queue")
    with example.ARMS["queue"](SMALL, HOST, result, tmp_path) as take:
        take()
        made = result.spans["producer"]
        # One is taken and five lie in the queue; the next is made but not in.
        assert soon(lambda: len(made) == 2 * 6, PATIENCE)
        take()
        assert soon(lambda: len(made) == 2 * 7, PATIENCE)


def test_what_fails_in_the_runner_is_what_the_run_raises(tmp_path, monkeypatch):
    def broken(settings):
        left = iter(range(20))
        return lambda: np.full((settings.batch, settings.inputs), 1 / (19 - next(left)), np.float32)

    monkeypatch.setattr(example, "maker", broken)
    with pytest.raises(ZeroDivisionError):
        example.run_arm("queue", SMALL, HOST, tmp_path)


def test_a_gpu_s_own_clock_says_how_busy_it_is(tmp_path):
    cupy = FakeCupy()
    plane = example.Plane(cupy, "cpu", "a GPU that isn't one")
    for arm in example.ARMS:
        FakeEvent.waits, cupy.syncs = 0, 0
        result = example.run_arm(arm, SMALL, plane, tmp_path)
        assert result.busy == pytest.approx(SMALL.steps * 2e-3)
        assert FakeEvent.waits == SMALL.steps + example.WARM_UP_STEPS
        assert cupy.syncs == (FakeEvent.waits if arm == "feed" else 0)
        assert result.losses == example.run_arm(arm, SMALL, HOST, tmp_path).losses


def test_batches_from_files_go_through_the_device_plane(tmp_path, monkeypatch):
    asked = []

    def prefetch_to_device(dataset, device):
        asked.append((device, dataset.element_spec.dtype))
        return dataset

    monkeypatch.setattr(qc.data.Dataset, "prefetch_to_device", prefetch_to_device, raising=False)
    plane = example.Plane(np, "cuda:3", "")
    for arm in ("files", "uint8"):
        with example.ARMS[arm](SMALL, plane, example.Result(arm), tmp_path) as take:
            assert take().dtype == np.float32
    assert asked == [("cuda:3", np.float32), ("cuda:3", np.uint8)]  # narrow as long as it is on the host


def test_the_queue_goes_through_the_device_plane(tmp_path, monkeypatch):
    asked = []

    def to_device(queue, device):
        asked.append(device)
        yield from queue

    monkeypatch.setattr(qc.FIFOQueue, "to_device", to_device, raising=False)
    plane = example.Plane(FakeCupy(), "cuda:3", "")
    expected = example.maker(SMALL)
    with example.ARMS["queue"](SMALL, plane, example.Result("queue"), tmp_path) as take:
        for _ in range(20):
            assert np.array_equal(take(), expected())
    assert asked == ["cuda:3"]


# ---- the device ------------------------------------------------------------------------------------------------------


def test_without_cupy_it_runs_on_numpy_and_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    plane = example.find_plane("auto")
    assert plane.xp is np
    assert plane.device == "cpu"
    assert "cupy" in plane.why
    assert example.find_plane("cpu").why == ""
    with pytest.raises(DeviceUnavailableError, match="cuda:1 can't be used.*cupy") as caught:
        example.find_plane("cuda:1")
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize(("device", "number"), [("auto", 0), ("cuda", 0), ("cuda:2", 2)])
def test_a_gpu_is_found_by_its_number(device, number, monkeypatch):
    used = []
    cupy = FakeCupy()
    cupy.__version__ = "14"
    cupy.cuda.Device = lambda number: types.SimpleNamespace(use=lambda: used.append(number))
    cupy.cuda.runtime = types.SimpleNamespace(getDeviceProperties=lambda number: {"name": b"GPU %d" % number})
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    plane = example.find_plane(device)
    assert used == [number]
    assert plane.on_gpu
    assert plane.device == f"cuda:{number}"
    assert plane.name == f"CuPy 14 on GPU {number}"


# ---- the picture -----------------------------------------------------------------------------------------------------


def rgb(colour):
    return tuple(bytes.fromhex(colour[1:]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arms", [["feed"], ["feed", "queue"], [*example.ARMS]], ids=len)
@pytest.mark.parametrize("size", [(1600, 900), example.SMALLEST_PLOT, (700, 2000)], ids=str)
def test_the_picture_is_a_png_of_that_size(arms, size, tmp_path):
    results = [example.run_arm(arm, SMALL, HOST, tmp_path) for arm in arms]
    example.draw_timelines(results, HOST.name, tmp_path / "a.png", size, steps=20)
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.format == "PNG"
        assert picture.size == size
        picture.load()
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert {rgb(colour) for colour in example.COLOURS.values()} <= colours


def test_the_picture_shows_what_was_recorded(tmp_path):
    # Steps of 6 ms after waits of 4 ms; batches are made in those 4 ms.
    result = example.Result("feed", seconds=1.0, busy=0.6, losses={100: 0.5})
    for step in range(100):
        at = step / 100
        result.spans["consumer"] += [("wait", at, at + 0.004), ("step", at + 0.004, at + 0.01)]
        result.spans["producer"] += [("make", at, at + 0.004), ("wait", at + 0.004, at + 0.01)]
    example.draw_timelines([result], "NumPy", tmp_path / "a.png", (1600, 900), steps=10)
    with Image.open(tmp_path / "a.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    shares = {}
    for what in ("make", "step"):
        found = (pixels == rgb(example.COLOURS[what])).all(axis=2)
        row = np.argmax(found.sum(axis=1))
        shares[what] = found[row].sum(), row
    across = shares["make"][0] / 0.4
    assert shares["step"][0] == pytest.approx(0.6 * across, rel=0.05)
    assert 1200 < across < 1600
    assert shares["make"][1] < shares["step"][1]  # the producer is above


@given(st.floats(1e-6, 1e9), st.integers(2, 40))
def test_ticks_are_round_and_not_too_many(length, most):
    distance = example.tick_distance(length, most)
    mantissa = float(f"{distance:.12e}".partition("e")[0])
    assert mantissa in (1, 2, 5)
    assert length / distance <= most * (1 + 1e-9)
    assert length / distance > most / 2.5 * (1 - 1e-9)


# ---- the command line ------------------------------------------------------------------------------------------------


def start(*args, **options):
    # The default disposition: children of what runs in the background would ignore SIGINT.
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", str(PATH), *map(str, args)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def test_a_quick_run_prints_everything(tmp_path):
    (tmp_path / "scratch").mkdir()
    args = ["--quick", "--device", "cpu", "--dir", tmp_path / "scratch", "--plot", tmp_path / "a.png"]
    with start(*args, "--plot-size", "800x450") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert err == ""
    assert out.startswith("64 -> 64 ReLU -> 1, batches of 32, 60 steps, on NumPy")
    for arm in example.ARMS:
        assert re.search(rf"^{arm}$\n(  step +\d+   loss [\d.]+\n){{3}}  accuracy [\d.]+% before", out, re.MULTILINE), (
            out
        )
        assert re.search(rf"^{arm} +[\d.]+ +[\d.]+ +\d+%   [\d.]+$", out, re.MULTILINE), out
    ratio = re.search(r"^feed to queue: [\d.]+ s -> [\d.]+ s, ([\d.]+) times as fast", out, re.MULTILINE)
    assert re.search(rf"^queue .* {re.escape(ratio[1])}$", out, re.MULTILINE), out
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (800, 450)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_is_given_beside_quick_counts(capsys, tmp_path):
    args = ["--quick", "--device", "cpu", "--dir", str(tmp_path), "--arms", "uint8", "queue", "uint8"]
    assert example.main([*args, "--steps", "7", "--batch", "3", "--inputs", "5", "--file-batches", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("5 -> 64 ReLU -> 1, batches of 3, 7 steps")
    assert "uint8 (2 batches, over and over)" in out
    assert "speed, of uint8's" in out
    assert out.count("accuracy") == 2


def test_without_arguments_it_is_the_tutorials_experiment():
    args = example.parse([])
    assert args.settings == example.Settings(5_000, 128, 1024, 1024, 1, 500, 500)
    assert args.arms == ("feed", "queue", "files", "uint8")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--steps", "0"], "--steps: 0 is not 1 or more"),
        (["--batch", "many"], "--batch: invalid whole number value: 'many'"),
        (["--seed", "-1"], "--seed: -1 is negative"),
        (["--arms", "feet"], "--arms: invalid choice: 'feet'"),
        (["--arms"], "--arms: expected at least one argument"),
        (["--device", "gpu"], "--device: 'gpu' is none of auto, cpu, cuda"),
        (["--device", "cuda:"], "--device: 'cuda:' is none of"),
        (["--device", "cpu:0"], "--device: 'cpu:0' is none of"),
        (["--dir", "/nowhere"], "--dir: there is no folder /nowhere"),
        (["--plot", "a.jpg"], "--plot: a.jpg doesn't end in .png"),
        (["--plot", "/nowhere/a.png"], "--plot: there is no folder /nowhere"),
        (["--plot-size", "800"], "--plot-size: '800' is not like 1600x900"),
        (["--plot-size", "10x10"], "--plot-size: 10x10 is not between 640x360"),
    ],
)
def test_wrong_arguments_are_named(args, message, capsys):
    with pytest.raises(SystemExit) as caught:
        example.main(args)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_help_says_what_it_is(capsys):
    with pytest.raises(SystemExit):
        example.main(["--help"])
    assert "feed a training loop by hand, or through a queue" in " ".join(capsys.readouterr().out.split())


def test_a_plot_without_pillow_fails_before_the_run(monkeypatch, capsys, tmp_path):
    for name in list(sys.modules):
        if name.partition(".")[0] == "PIL":
            monkeypatch.setitem(sys.modules, name, None)
    assert example.main(["--quick", "--plot", str(tmp_path / "a.png")]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "pip install --upgrade pillow" in streams.err


def test_a_gpu_that_isn_t_there_is_an_error(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert example.main(["--quick", "--device", "cuda"]) == 1
    assert capsys.readouterr().err.startswith("error: cuda can't be used: ")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("moment", ["ReLU", "loss"])
@pytest.mark.parametrize("arm", example.ARMS)
def test_ctrl_c_ends_it_cleanly(arm, moment, tmp_path):
    args = ["--quick", "--device", "cpu", "--steps", 10**9, "--file-batches", 10, "--dir", tmp_path, "--arms", arm]
    with start(*args) as process:
        for line in process.stdout:
            if moment in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
