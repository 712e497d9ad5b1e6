"""The experiment of the queue tutorials: feed a training loop by hand, or through a queue, and compare.

    python benchmarks/e2e/feed_vs_queue.py --plot timeline.png

A network of 1,024 inputs, 1,024 ReLU units and one output learns whether the sum of a row is above 0, from batches of
128 rows of float32 out of N(0, 1), with sigmoid cross-entropy and Adam. Four ways to get the batches to it:

feed
    The loop makes a batch, sends it to the device, and takes the step: one after the other.
queue
    One runner makes batches and puts them into a `FIFOQueue` of 5; the loop only takes them out.
files
    The same batches, from a file of float32 rows, read by the native threads of `queuecore.data`.
uint8
    Again, but the file has a byte for each number. The bytes are sent, and made float32 where they are used.

Everything runs on CuPy if there is a GPU, else on NumPy: there "device" means the step's own computations, which take
one core, unless ``OMP_NUM_THREADS`` says otherwise, and leave the others to whatever makes the batches.

As ``Session.run`` did, every step waits until the device has finished it, in each of the four ways. *Busy* is the
share of the whole time in which the device was at a step: on a GPU from one event before its kernels to one after them,
so that gaps between the kernels count as busy.

The tutorials published, each for a machine of its own: 18 s fed and 11.5 s queued, with the device busy for 31% and 43%
of the time; and 7.46 s and 4.12 s. Those are other machines' numbers, so only the ratios compare: 1.57 and 1.81.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Read when NumPy is imported: its products would take all cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import numpy.random  # noqa: F401 - left alone it comes with its first use, where its compiled modules swallow a Ctrl-C

import queuecore as qc

CAPACITY = 5
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-2, 0.9, 0.999, 1e-8  # of Adam; all but the first are TensorFlow's defaults
HELD_OUT_BATCHES = 8
WARM_UP_STEPS = 3

# A byte b stands for (b - 128) / 32, exact in float32: from -4 to 3.97, beyond which there is one number in 16,000.
BYTE_SCALE, BYTE_ZERO = 32, 128

clock = time.perf_counter


@dataclass(frozen=True)
class Settings:
    """What is trained, and for how long."""

    steps: int = 5_000
    batch: int = 128
    inputs: int = 1024
    hidden: int = 1024
    seed: int = 1
    report_every: int = 500
    file_batches: int = 500


@dataclass
class Plane:
    """Where the arrays are: CuPy and a GPU, or NumPy."""

    xp: Any
    device: str
    name: str
    why: str = ""  # there is no GPU, if one was looked for

    @property
    def on_gpu(self) -> bool:
        """Whether arrays are in the memory of a GPU."""
        return self.xp is not np


@dataclass
class Result:
    """What came of one way.

    Attributes
    ----------
    seconds : float
        From before the first thread is started until the last step is over.
    busy : float
        Seconds that the device spent in steps.
    losses : dict of int to float
        By the number of the step, from 1.
    accuracy : tuple of float
        On rows that are in no batch, before and after.
    spans : dict of str to list
        What each side did and when, on one clock: ``(what, begin, end)`` in seconds. The consumer waits and steps; the
        producer makes (and, fed by the loop, sends) and waits; where it is native threads, it has no spans.
    """

    arm: str
    seconds: float = 0.0
    busy: float = 0.0
    losses: dict[int, float] = field(default_factory=dict)
    accuracy: tuple[float, float] = (0.0, 0.0)
    spans: dict[str, list[tuple[str, float, float]]] = field(default_factory=lambda: {"producer": [], "consumer": []})

    @property
    def busy_share(self) -> float:
        """The share of the time in which the device was at a step."""
        return self.busy / self.seconds

    @property
    def step_ms(self) -> float:
        """Milliseconds from one step to the next."""
        return 1e3 * self.seconds / max(self.losses)


# ---- the model -------------------------------------------------------------------------------------------------------


class Network:
    """One hidden layer of ReLU units, one output, and Adam, in whatever array module it is given."""

    def __init__(self, xp: Any, settings: Settings) -> None:
        self._xp = xp
        shapes = [(settings.inputs, settings.hidden), (settings.hidden,), (settings.hidden, 1), (1,)]
        generator = np.random.default_rng([settings.seed, 1])
        initial = [
            generator.normal(0, 0.1, shape) if len(shape) == 2 else np.full(shape, 0.1)  # weights and biases
            for shape in shapes
        ]
        # All parameters in one array, with views for the layers: Adam takes the same few operations for all of them.
        self._parameters = xp.asarray(np.concatenate([one.ravel() for one in initial]).astype(np.float32))
        self._slopes, self._mean, self._square, self._scratch = (xp.zeros_like(self._parameters) for _ in range(4))
        self._layers = self._views(self._parameters, shapes)
        self._layer_slopes = self._views(self._slopes, shapes)
        self._step = 0

    @staticmethod
    def _views(flat: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        ends = np.cumsum([np.prod(shape) for shape in shapes]).tolist()
        starts = [0, *ends[:-1]]
        return [flat[start:end].reshape(shape) for start, end, shape in zip(starts, ends, shapes, strict=True)]

    def _labels(self, x: Any) -> Any:
        return (x.sum(axis=1) > 0).astype(np.int32)

    def _forward(self, x: Any) -> tuple[Any, Any]:
        w1, b1, w2, b2 = self._layers
        hidden = self._xp.maximum(x @ w1 + b1, 0)
        return hidden, (hidden @ w2 + b2)[:, 0]

    def train(self, x: Any) -> Any:
        """Derive the labels of a batch, take one step, and return the mean loss before it (on the device)."""
        xp = self._xp
        y = self._labels(x).astype(np.float32)
        hidden, z = self._forward(x)
        small = xp.exp(-abs(z))  # never overflows, for whatever z
        loss = (xp.maximum(z, 0) - z * y + xp.log1p(small)).mean()
        slope = ((xp.exp(xp.minimum(z, 0)) / (1 + small) - y) / len(x))[:, None]  # sigmoid(z) - y
        hidden_slope = (slope @ self._layers[2].T) * (hidden > 0)
        w1, b1, w2, b2 = self._layer_slopes
        xp.matmul(x.T, hidden_slope, out=w1)
        xp.sum(hidden_slope, axis=0, out=b1)
        xp.matmul(hidden.T, slope, out=w2)
        xp.sum(slope, axis=0, out=b2)
        self._adam()
        return loss

    def _adam(self) -> None:
        xp, slopes, mean, square, scratch = self._xp, self._slopes, self._mean, self._square, self._scratch
        self._step += 1
        rate = LEARNING_RATE * (1 - BETA2**self._step) ** 0.5 / (1 - BETA1**self._step)
        mean *= BETA1
        mean += xp.multiply(slopes, 1 - BETA1, out=scratch)
        square *= BETA2
        xp.multiply(slopes, slopes, out=scratch)
        scratch *= 1 - BETA2
        square += scratch
        xp.sqrt(square, out=scratch)
        scratch += EPSILON
        xp.divide(mean, scratch, out=scratch)
        scratch *= rate
        self._parameters -= scratch

    def accuracy(self, x: Any) -> float:
        """Return the share of rows whose label is guessed."""
        return float(((self._forward(x)[1] > 0) == (self._labels(x) == 1)).mean())


class HostTimer:
    """Times a step that has ended when its call returns."""

    def begin(self) -> None:
        """Note the time."""
        self._begun = clock()

    def end(self) -> float:
        """Return the seconds since then."""
        return clock() - self._begun


class DeviceTimer:
    """Times a step by events before and after it on the current stream of a GPU."""

    def __init__(self, cupy: Any) -> None:
        self._elapsed = cupy.cuda.get_elapsed_time
        self._before, self._after = cupy.cuda.Event(), cupy.cuda.Event()

    def begin(self) -> None:
        """Put an event before the step."""
        self._before.record()

    def end(self) -> float:
        """Put one behind it, wait for it, and return the seconds from one to the other."""
        self._after.record()
        self._after.synchronize()
        return float(self._elapsed(self._before, self._after)) / 1e3


# ---- the four ways ---------------------------------------------------------------------------------------------------

# Each is a context in which a function gives one batch after the other, on the device.
Take = Callable[[], Any]


def maker(settings: Settings) -> Callable[[], np.ndarray]:
    """Return a function that makes batches: for one seed always the same ones, one after the other."""
    generator = np.random.default_rng([settings.seed, 2])
    return lambda: generator.standard_normal((settings.batch, settings.inputs), dtype=np.float32)


@contextlib.contextmanager
def feed(settings: Settings, plane: Plane, result: Result, folder: Path) -> Iterator[Take]:
    """Make each batch in the loop, and send it."""
    make = maker(settings)
    producer = result.spans["producer"]

    def take() -> Any:
        begun = clock()
        if producer:
            producer.append(("wait", producer[-1][2], begun))
        x = plane.xp.asarray(make())
        if plane.on_gpu:
            plane.xp.cuda.get_current_stream().synchronize()
        producer.append(("make", begun, clock()))
        return x

    yield take


@contextlib.contextmanager
def queue(settings: Settings, plane: Plane, result: Result, folder: Path) -> Iterator[Take]:
    """Let a thread make whole batches and put them into a queue."""
    make = maker(settings)
    producer = result.spans["producer"]
    q = qc.FIFOQueue(CAPACITY, dtypes=[np.float32], shapes=[(settings.batch, settings.inputs)])

    def make_and_enqueue() -> None:
        begun = clock()
        x = make()
        made = clock()
        q.enqueue(x)
        producer.extend([("make", begun, made), ("wait", made, clock())])

    coord = qc.Coordinator()
    threads = qc.QueueRunner(q, [make_and_enqueue]).create_threads(coord, start=True)
    to_device = getattr(q, "to_device", None) if plane.on_gpu else None
    try:
        if to_device is not None:
            with contextlib.closing(iter(to_device(plane.device))) as batches:
                yield batches.__next__
        else:
            yield lambda: plane.xp.asarray(q.dequeue())
    finally:
        coord.request_stop()
        coord.join(threads)


@contextlib.contextmanager
def files(settings: Settings, plane: Plane, result: Result, folder: Path) -> Iterator[Take]:
    """Read the batches from a file of float32 numbers."""
    name = written(folder, "float32", settings, lambda x: x)
    with streamed(name, np.float32, settings, plane) as take:
        yield take


@contextlib.contextmanager
def uint8(settings: Settings, plane: Plane, result: Result, folder: Path) -> Iterator[Take]:
    """Read the batches from a file of bytes, and widen them on the device."""

    def narrowed(x: np.ndarray) -> np.ndarray:
        bytes_: np.ndarray = np.clip(np.rint(x * BYTE_SCALE) + BYTE_ZERO, 0, 255).astype(np.uint8)
        return bytes_

    name = written(folder, "uint8", settings, narrowed)
    widen = qc.ops.scale(a=1 / BYTE_SCALE, b=-BYTE_ZERO / BYTE_SCALE)
    with streamed(name, np.uint8, settings, plane, widen) as take:
        yield take


ARMS = {"feed": feed, "queue": queue, "files": files, "uint8": uint8}


def written(folder: Path, kind: str, settings: Settings, convert: Callable[[np.ndarray], np.ndarray]) -> Path:
    """Write the first batches to a file, unless it is there."""
    count = min(settings.file_batches, settings.steps)
    path = folder / f"{kind}-{count}x{settings.batch}x{settings.inputs}-{settings.seed}.bin"
    if not path.exists():
        make = maker(settings)
        partial = path.with_suffix(".part")
        with open(partial, "wb") as file:
            for _ in range(count):
                file.write(convert(make()).data)
        partial.rename(path)
    return path


@contextlib.contextmanager
def streamed(path: Path, dtype: Any, settings: Settings, plane: Plane, widen: Any = None) -> Iterator[Take]:
    """Stream a file's rows, over and over, in batches; `widen` is a stage for each batch."""
    row = np.dtype((dtype, (settings.inputs,)))
    rows = qc.data.FixedLengthRecordDataset([path], record=row)
    dataset = on_device(rows.repeat().batch(settings.batch, drop_remainder=True), plane, widen)
    with contextlib.closing(iter(dataset)) as batches:
        yield lambda: plane.xp.asarray(next(batches))


def on_device(dataset: Any, plane: Plane, widen: Any) -> Any:
    """Bring a dataset's batches to the device ahead of time, where this version of queuecore can do that."""
    if hasattr(dataset, "prefetch_to_device"):
        dataset = dataset.prefetch_to_device(plane.device)  # what is mapped from here on is mapped on the device
    return dataset if widen is None else dataset.map(widen)


# ---- the run ---------------------------------------------------------------------------------------------------------


def find_plane(device: str = "auto") -> Plane:
    """Find the array module: CuPy for a GPU, else NumPy.

    Parameters
    ----------
    device : str
        ``"cpu"``: NumPy, and CuPy isn't imported. ``"cuda"`` or ``"cuda:1"``: that GPU. ``"auto"``: a GPU if there is
        one.

    Raises
    ------
    DeviceUnavailableError
        If a GPU was asked for by name, and it can't be used.
    """
    on_host = Plane(np, "cpu", f"NumPy {np.__version__}")
    if device == "cpu":
        return on_host
    number = int(device.partition(":")[2] or 0) if device != "auto" else 0
    try:
        cupy = importlib.import_module("cupy")
        cupy.cuda.Device(number).use()
        cupy.arange(4).sum()  # a driver that is too old only shows here
        name = cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
    except Exception as error:  # CuPy missing, a driver missing or too old, no such device: each has a class of its own
        why = " ".join(str(error).split()) or type(error).__name__
        if device != "auto":
            raise qc.errors.DeviceUnavailableError(f"{device} can't be used: {why}") from error
        on_host.why = why
        return on_host
    return Plane(cupy, f"cuda:{number}", f"CuPy {cupy.__version__} on {name}")


def run_arm(
    arm: str, settings: Settings, plane: Plane, folder: Path, report: Callable[[str], object] = lambda line: None
) -> Result:
    """Train a new network in one of the ways.

    Parameters
    ----------
    arm : {"feed", "queue", "files", "uint8"}
        The way.
    settings : Settings
        What is trained. All ways get the same batches, but `uint8` gets them rounded, and a file that has fewer than
        there are steps begins anew when it ends.
    plane : Plane
        Where.
    folder : pathlib.Path
        Where the files are made.
    report : callable
        Gets a line of text every so many steps.
    """
    result = Result(arm)
    held_out = np.random.default_rng([settings.seed, 3]).standard_normal(
        (HELD_OUT_BATCHES * settings.batch, settings.inputs), dtype=np.float32
    )
    held_out = plane.xp.asarray(held_out)
    timer = DeviceTimer(plane.xp) if plane.on_gpu else HostTimer()
    # What only the first time takes, comes before the clock starts: files are written, kernels compiled, threads of
    # libraries made, by a few steps of a network that is thrown away.
    spare = Network(plane.xp, settings)
    with ARMS[arm](settings, plane, Result(arm), folder) as take:
        for _ in range(WARM_UP_STEPS):
            timer.begin()
            spare.train(take())
            timer.end()
    network = Network(plane.xp, settings)
    before = network.accuracy(held_out)

    consumer = result.spans["consumer"]
    x = None
    begun = clock()
    with ARMS[arm](settings, plane, result, folder) as take:
        for step in range(1, settings.steps + 1):
            asked_at = clock()
            x = take()
            got = clock()
            timer.begin()
            loss = network.train(x)
            result.busy += timer.end()
            consumer.extend([("wait", asked_at, got), ("step", got, clock())])
            if step % settings.report_every == 0 or step == settings.steps:
                result.losses[step] = float(loss)
                report(f"  step {step:6,}   loss {result.losses[step]:.4f}")
        result.seconds = clock() - begun
        x = None  # nothing holds a batch when its way ends
    result.accuracy = before, network.accuracy(held_out)
    report(f"  accuracy {100 * before:.1f}% before, {100 * result.accuracy[1]:.1f}% after")
    return result


def table(results: Sequence[Result]) -> str:
    """Lay out the times, beside those of the first way."""
    first = results[0]
    lines = [f"{'':8}{'seconds':>10}{'ms a step':>12}{'busy':>8}   speed, of {first.arm}'s"]
    for one in results:
        speed = first.seconds / one.seconds
        lines.append(f"{one.arm:8}{one.seconds:10.3f}{one.step_ms:12.3f}{100 * one.busy_share:7.0f}%   {speed:.2f}")
    times = {one.arm: one.seconds for one in results}
    if "feed" in times and "queue" in times:
        fed, queued = times["feed"], times["queue"]
        lines.append(
            f"feed to queue: {fed:.2f} s -> {queued:.2f} s, {fed / queued:.2f} times as fast "
            "(the tutorials, on other machines: 1.57 and 1.81)"
        )
    return "\n".join(lines)


# ---- the picture -----------------------------------------------------------------------------------------------------

# Told apart also by who sees few colours.
COLOURS = {"make": "#e69f00", "step": "#0072b2", "wait": "#dcdcdc"}
INK, FAINT, PAPER = "#222222", "#eeeeee", "#ffffff"
SMALLEST_PLOT = (640, 360)


class PlotError(Exception):
    """No picture can be drawn; the message says what helps."""


def pillow(font_size: int) -> tuple[Any, Any, Any]:
    """Import Pillow; return its modules Image and ImageDraw, and a font."""
    try:
        image, draw, fonts = (importlib.import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont"))
        font = fonts.load_default(size=font_size)
    except (ImportError, TypeError) as error:  # TypeError: before 10.1 that font had one size
        raise PlotError("--plot needs Pillow, 10.1 or newer; run: pip install --upgrade pillow") from error
    return image, draw, font


def middle(result: Result, steps: int) -> tuple[float, float]:
    """Return when so many steps in the middle of the run began and ended."""
    consumer = result.spans["consumer"]  # two spans a step
    count = len(consumer) // 2
    steps = min(steps, count)
    first = (count - steps) // 2
    return consumer[2 * first][1], consumer[2 * (first + steps) - 1][2]


def tick_distance(length: float, most: int) -> float:
    """Return 1, 2 or 5 times a power of ten that divides `length` into at most so many pieces."""
    distance = 10.0 ** np.floor(np.log10(length / most))
    return next(float(distance * factor) for factor in (1, 2, 5, 10) if distance * factor * most >= length)


def draw_timelines(
    results: Sequence[Result], place: str, path: str | Path, size: tuple[int, int] = (1600, 900), steps: int = 30
) -> None:
    """Draw what producer and consumer of each way did during some steps in the middle of the run.

    Parameters
    ----------
    results : sequence of Result
        One panel each, over the same axis of time.
    place : str
        On what they ran.
    path : path-like
        Of the PNG.
    size : tuple of int
        Width and height, in pixels.
    steps : int
        How many steps of each way.
    """
    width, height = size
    em = max(11, min(width // 80, height // (9 * len(results) + 6) * 2))
    image_module, draw_module, font = pillow(em)
    image = image_module.new("RGB", size, PAPER)
    draw = draw_module.Draw(image)
    left, right, top, bottom = 6 * em, width - 2 * em, 5 * em, height - 4 * em

    windows = [middle(result, steps) for result in results]
    longest = 1e3 * max(end - begin for begin, end in windows)
    scale = (right - left) / longest

    taken = max(results[0].losses)
    draw.text((left, em), f"{min(steps, taken)} steps from the middle of {taken:,}, on {place}", INK, font, "la")
    at = left
    for phase, meaning in (("make", "make a batch"), ("step", "step on the device"), ("wait", "wait")):
        draw.rectangle((at, 3 * em, at + em, 4 * em), COLOURS[phase])
        draw.text((at + 1.5 * em, 3 * em), meaning, INK, font, "la")
        at += int(draw.textlength(meaning, font)) + 3 * em

    distance = tick_distance(longest, max(4, (right - left) // (6 * em)))
    decimals = max(0, -int(np.floor(np.log10(distance))))
    for tick in np.arange(0, longest * (1 + 1e-9), distance):
        x = left + tick * scale
        draw.line((x, top, x, bottom + em // 3), FAINT, 1)
        draw.text((x, bottom + em // 2), f"{tick:.{decimals}f}", INK, font, "ma")
    draw.line((left, bottom, right, bottom), INK, 1)
    draw.text(((left + right) / 2, height - em // 2), "milliseconds", INK, font, "md")

    panel = (bottom - top) / len(results)
    for index, (result, (begin, end)) in enumerate(zip(results, windows, strict=True)):
        y = top + index * panel
        heading = (
            f"{result.arm}: {result.step_ms:.2f} ms a step, device busy for {100 * result.busy_share:.0f}% of the time"
        )
        draw.text((left, y + em // 2), heading, INK, font, "la")
        lane = (panel - 2.5 * em) / 2
        for number, side in enumerate(("producer", "consumer")):
            low = y + 2 * em + number * lane
            box = (low, low + lane - max(2, em // 4))
            draw.text((left - em // 2, sum(box) / 2), side, INK, font, "rm")
            if not result.spans[side]:
                draw.text((left + em // 2, sum(box) / 2), "native threads", INK, font, "lm")
            for phase, since, until in result.spans[side]:
                if until <= begin or since >= end:
                    continue
                x0 = left + round(1e3 * (max(since, begin) - begin) * scale)
                x1 = max(x0, left + round(1e3 * (min(until, end) - begin) * scale) - 1)
                draw.rectangle((x0, box[0], x1, box[1]), COLOURS[phase])
                if x1 - x0 > 3:  # where one ends and the next of its kind begins
                    draw.line((x0, box[0], x0, box[1]), PAPER, 1)
    image.save(path, "PNG")


# ---- the command line ------------------------------------------------------------------------------------------------


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


# argparse puts this name into its message for a ValueError.
_positive.__name__ = _seed.__name__ = "whole number"


def _device(text: str) -> str:
    kind, _, number = text.partition(":")
    if text in ("auto", "cpu", "cuda") or (kind == "cuda" and number.isascii() and number.isdecimal()):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of auto, cpu, cuda, cuda:0, cuda:1, ...")


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return Path(text)


def _png(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(f"{text} doesn't end in .png")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if not os.access(_folder(str(path.parent)), os.W_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written to {path.parent}")
    return path


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 1600x900")
    size = int(width), int(height)
    if not all(least <= given <= 10_000 for least, given in zip(SMALLEST_PLOT, size, strict=True)):
        raise argparse.ArgumentTypeError(f"{text} is not between {'x'.join(map(str, SMALLEST_PLOT))} and 10000x10000")
    return size


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="Without --arms, all four ways are run, one after the other.",
    )
    usual, small = Settings(), Settings(steps=60, batch=32, inputs=64, hidden=64, report_every=20)
    parser.add_argument("--arms", nargs="+", choices=tuple(ARMS), default=tuple(ARMS), help="which ways, in this order")
    parser.add_argument("--device", type=_device, default="auto", help="auto (default), cpu, cuda, or cuda:N")
    parser.add_argument("--quick", action="store_true", help="a small network and few steps: shows that it runs")
    for name, description in (
        ("steps", "batches to train on"),
        ("batch", "rows of a batch"),
        ("inputs", "numbers in a row"),
        ("hidden", "units of the hidden layer"),
        ("report-every", "steps from one printed loss to the next"),
        ("file-batches", "batches in a file, at most; then it begins anew"),
    ):
        default = getattr(usual, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=_positive, metavar="N", help=f"{description} (default: {default:,})")
    parser.add_argument("--seed", type=_seed, metavar="N", help=f"of weights and batches (default: {usual.seed})")
    parser.add_argument("--dir", type=_folder, metavar="FOLDER", help="where the files are made, and removed again")
    parser.add_argument("--plot", type=_png, metavar="FILE.png", help="draw the timelines (needs Pillow)")
    parser.add_argument("--plot-size", type=_size, default=(1600, 900), metavar="WxH", help="default: 1600x900")
    parser.add_argument("--plot-steps", type=_positive, default=30, metavar="N", help="steps to draw (default: 30)")
    args = parser.parse_args(argv)
    basis = small if args.quick else usual
    given = {name: getattr(args, name) for name in vars(usual)}
    args.settings = Settings(**{name: getattr(basis, name) if n is None else n for name, n in given.items()})
    return args


def run(args: argparse.Namespace) -> None:
    """Run the ways one after the other, and print what they took."""
    settings: Settings = args.settings
    if args.plot:
        pillow(12)  # not after minutes
    plane = find_plane(args.device)
    results = []
    with tempfile.TemporaryDirectory(prefix="queuecore-example-", dir=args.dir) as folder:
        print(
            f"{settings.inputs:,} -> {settings.hidden:,} ReLU -> 1, batches of {settings.batch}, "
            f"{settings.steps:,} steps, on {plane.name}{f' (no GPU: {plane.why})' if plane.why else ''}",
            flush=True,
        )
        for arm in dict.fromkeys(args.arms):
            again = arm in ("files", "uint8") and settings.steps > settings.file_batches
            print(f"{arm}{f' ({settings.file_batches:,} batches, over and over)' if again else ''}", flush=True)
            results.append(run_arm(arm, settings, plane, Path(folder), lambda line: print(line, flush=True)))
    print(table(results))
    if args.plot:
        draw_timelines(results, plane.name, args.plot, args.plot_size, args.plot_steps)
        print(f"timelines: {args.plot}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return 0, 1 if the machine or a file is at fault, or 130 after Ctrl-C."""
    args = parse(argv)
    try:
        run(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (PlotError, qc.errors.DeviceUnavailableError, OSError, MemoryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
