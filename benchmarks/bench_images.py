"""JPEG pictures into arrays, beside libjpeg alone: the same calls of the same library, made by a loop without our step.

Both loops are native and live in the core's test hooks (``QUEUECORE_TESTING=1`` builds them). They decode the same
files in memory, one after the other, each into memory that is used again, with a decoder made for each picture. The
loop without the step trusts its files: it checks no size and has no way back from an error. A ratio compares two runs
of the same round.

Pictures of files that are taken one by one are compared with their decoding alone; those of a generator, which go into
rows and are decoded natively, with those of files.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

# Side in pixels: pictures a run. Those of a data set like ImageNet lie between the last two.
SIDES = {32: 8000, 256: 400, 512: 100, 1024: 24}
FILE_SIDE = 512


def files(side: int, count: int) -> list[bytes]:
    """Return pictures of smooth colours with some noise, of which eight differ."""
    import numpy as np
    from PIL import Image

    contents = []
    y, x = np.mgrid[0:side, 0:side] / side
    for seed in range(8):
        noise = np.random.default_rng(seed).normal(0, 6, (side, side, 3))
        waves = np.stack([np.sin(seed + 9 * x), np.cos(7 * y), np.sin(5 * x * y + seed)], -1)
        file = io.BytesIO()
        picture = np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(file, "JPEG", quality=85)
        contents.append(file.getvalue())
    return [contents[index % 8] for index in range(count)]


def sources(folder: Path, count: int) -> dict[str, Callable[[], float]]:
    """Return what measures pictures for each second of CPU time: from files, one by one, and from a generator."""
    import queuecore as qc

    paths = [str(folder / f"{number:04}.jpg") for number in range(count)]
    for path, content in zip(paths, files(FILE_SIDE, count), strict=True):
        Path(path).write_bytes(content)

    def read() -> Iterator[bytes]:
        for path in paths:
            with open(path, "rb") as file:
                yield file.read()

    def rate(elements: Iterable[Any], pictures: Callable[[Any], int] = len) -> float:
        begun = time.process_time()
        if sum(map(pictures, elements)) != count:
            raise AssertionError("pictures are missing")
        return count / (time.process_time() - begun)

    whole = qc.data.WholeFileDataset(paths).map(lambda _, content: qc.ops.decode_jpeg(content))
    made = qc.data.Dataset.from_generator(read, bytes, ()).map(lambda content: qc.ops.decode_jpeg(content))
    return {
        "pictures of files": lambda: rate(whole.batch(32)),
        "pictures one by one": lambda: rate(whole, lambda picture: 1),
        "pictures of a generator": lambda: rate(made.batch(32)),
    }


def run(options: harness.Options) -> dict[str, Any]:
    """Measure pictures of several sizes, after comparing what comes of them."""
    import numpy as np

    from queuecore import ops
    from queuecore._core.steps.images import library
    from queuecore._core.testing import steps

    if library(1) is None:
        raise SystemExit("there is no libjpeg here")
    rounds = 5 if options.quick else 31
    step = ops.decode_jpeg().bind([ops.Component(np.dtype("S"), ())])
    contenders: list[tuple[str, Callable[[], float]]] = []
    sizes = {}
    for side, count in SIDES.items():
        inputs = files(side, max(8, count // 20) if options.quick else count)
        sizes[side] = len(inputs[0])
        for content in inputs[:8]:
            ours, alone = (steps.decode_pictures([content], decoder)[1] for decoder in (step, None))
            if ours != alone or ours != ops.decode_jpeg(content).tobytes():
                raise AssertionError("the pictures differ")

        def rate(decoder: Any, inputs: list[bytes] = inputs) -> float:
            return len(inputs) / steps.decode_pictures(inputs, decoder)[0] * 1e9

        contenders.append((f"{side} x {side}: libjpeg alone", lambda rate=rate: rate(None)))
        contenders.append((f"{side} x {side}: decode_jpeg", lambda rate=rate: rate(step)))
    with tempfile.TemporaryDirectory(dir=options.data_dir) as folder:
        ways = sources(Path(folder), 100 if options.quick else 1000)
        raw = harness.rotate([*contenders, *ways.items()], rounds)
    findings = [harness.finding(name, "pictures/s", values) for name, values in raw.items()]
    for side in SIDES:
        alone, ours = (raw[f"{side} x {side}: {decoder}"] for decoder in ("libjpeg alone", "decode_jpeg"))
        ratios = [speed / other for speed, other in zip(alone, ours, strict=True)]
        findings.append(harness.finding(f"{side} x {side}: time", "of libjpeg's own", ratios, at_most=1.03))
    decoding = f"{FILE_SIDE} x {FILE_SIDE}: decode_jpeg"
    for name, base, of, most in (
        ("pictures one by one", decoding, "of decoding's", 1.15),
        ("pictures of a generator", "pictures of files", "of files'", 1.1),
    ):
        ratios = [speed / other for speed, other in zip(raw[base], raw[name], strict=True)]
        findings.append(harness.finding(f"{name}: CPU time", of, ratios, at_most=most))
    return harness.report(
        "images",
        "JPEG pictures decoded, beside libjpeg alone",
        findings,
        raw,
        parameters={"bytes_by_side": sizes, "pictures": SIDES, "rounds": rounds},
        notes=[f"libjpeg is {library(1)}"],
    )


if __name__ == "__main__":
    harness.main(run)
