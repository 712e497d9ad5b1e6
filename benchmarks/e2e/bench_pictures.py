"""Photographs for a training step, beside other loaders: decoded, cut at random, resized, mirrored and normalised.

The pictures are crops and scalings of the photographs that scikit-image and scikit-learn carry, of about 500 x 400
pixels, in JPEG of quality 90 to 95, in folders of classes, read from the page cache. Each contender makes batches of 64
of float32 with the channels first, on two cores with two threads (PyTorch: two processes), set up as its documentation
advises; each goes on from epoch to epoch as it does in training. What isn't installed is left out. A ratio compares two
runs of the same round.

The new size is also made alone, by one thread, of decoded pictures: queuecore's result is TensorFlow's, of float32,
OpenCV's of bytes is bytes.

queuecore and DALI run once more beside two busy processes on the same cores: a share is the rate there, of that alone.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import consume  # noqa: E402

BATCH = 64
SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AREAS, RATIOS = (0.08, 1.0), (3 / 4, 4 / 3)
CROP, SIZE = "random crop", "new size"
BUSY = "random crop, beside two busy processes"
ALONE = "new size alone"

Pass = Callable[[], tuple[int, float]]


def write_pictures(folder: Path, count: int) -> None:
    """Write photographs of several sizes into four folders."""
    from PIL import Image

    samples = importlib.import_module("skimage.data")
    photos = [getattr(samples, name)() for name in ("astronaut", "coffee", "chelsea", "rocket")]
    photos += importlib.import_module("sklearn.datasets").load_sample_images().images
    random = np.random.default_rng(0)
    for number in range(count):
        picture = Image.fromarray(photos[number % len(photos)])
        width, height = (int(side * random.uniform(0.7, 1)) for side in picture.size)
        left, top = (
            int(random.integers(0, most - side + 1)) for most, side in zip(picture.size, (width, height), strict=True)
        )
        picture = picture.crop((left, top, left + width, top + height))
        picture = picture.resize((int(random.integers(400, 620)), int(random.integers(320, 500))), Image.LANCZOS)
        path = folder / str(number % 4) / f"{number:05}.jpg"
        path.parent.mkdir(exist_ok=True)
        picture.save(path, quality=int(random.integers(90, 96)))


def ours(folder: Path, task: str) -> Pass:
    """Return a pass of queuecore's."""
    import queuecore as qc

    ops = qc.ops

    def vision(contents: Any, label: Any) -> Any:
        image = ops.decode_jpeg(contents, channels=3)
        if task == CROP:
            image = ops.random_flip_left_right(ops.random_resized_crop(image, SIDE, seed=1), seed=2)
        else:
            image = ops.resize(image, (SIDE, SIDE))
        return ops.normalize(image, MEAN, STD, channels_first=True), label

    files = qc.data.ImageFolderDataset(folder)
    dataset = files.map(vision).repeat().batch(BATCH).with_options(qc.data.Options(num_threads=2))
    batches = iter(dataset)
    return lambda: consume(itertools.islice(batches, len(files) // BATCH))


def parts_of(paths: list[str]) -> list[tuple[int, int, int, int, int]]:
    """Return the parts that the random crop takes of each picture, and by how much a JPEG may be divided for them."""
    from PIL import Image

    import queuecore as qc

    parts = []
    for element, path in enumerate(paths):
        with Image.open(path) as picture:
            columns, rows = picture.size
        # A picture whose pixels say where they are: two targets a side lie at a quarter and at three quarters.
        ramp = np.stack(np.mgrid[0:rows, 0:columns].astype(np.float32), -1)
        corners = qc.ops.random_resized_crop(ramp, 2, antialias=False, seed=1, element=element)
        height, width = (corners[1, 0, 0] - corners[0, 0, 0]) * 2, (corners[0, 1, 1] - corners[0, 0, 1]) * 2
        top, left = corners[0, 0, 0] + 0.5 - height / 4, corners[0, 0, 1] + 0.5 - width / 4
        sides = [round(float(number)) for number in (top, left, height, width)]
        by = 1
        while by < 8 and min(sides[2:]) // (2 * by) >= SIDE:
            by *= 2
        parts.append((*sides, by))
    return parts


def beyond_libjpeg(folder: Path) -> Callable[[], float]:
    """Return what measures the time of the random crop's step, of that of libjpeg's own calls for the same parts.

    One thread does both, file after file in memory. It needs the core's test hooks (``QUEUECORE_TESTING=1``).
    """
    import queuecore as qc
    from queuecore._core.testing import steps

    paths = sorted(map(str, folder.glob("*/*.jpg")))
    files, parts = [Path(path).read_bytes() for path in paths], parts_of(paths)
    ops = qc.ops
    chain = ops.compose(
        ops.decode_jpeg(channels=3),
        ops.random_resized_crop(size=SIDE, seed=1),
        ops.random_flip_left_right(seed=2),
        ops.normalize(mean=MEAN, std=STD, channels_first=True),
    )
    step = chain.bind([ops.Component(np.dtype("S"), ())])
    return lambda: steps.decode_pictures(files, step)[0] / steps.decode_pictures(files, None, parts)[0]


def resizing(folder: Path) -> dict[str, Callable[[], float]]:
    """Return what measures pictures a second that get a new size, by queuecore and by OpenCV of bytes and of floats."""
    import queuecore as qc

    paths = sorted(map(str, folder.glob("*/*.jpg")))[:128]
    pictures = [qc.ops.decode_jpeg(Path(path).read_bytes()) for path in paths]

    def rate(resize: Callable[[Any], Any], given: list[Any]) -> float:
        begun = time.perf_counter()
        for picture in given:
            resize(picture)
        return len(given) / (time.perf_counter() - begun)

    ways = {"queuecore": lambda: rate(lambda picture: qc.ops.resize(picture, (SIDE, SIDE)), pictures)}
    with contextlib.suppress(ImportError):
        cv2 = importlib.import_module("cv2")
        cv2.setNumThreads(0)  # none but the caller
        floats = [picture.astype(np.float32) for picture in pictures]
        for numbers, given in (("bytes", pictures), ("floats", floats)):
            ways[f"OpenCV, {numbers}"] = lambda given=given: rate(
                lambda picture: cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR), given
            )
    return ways


def dali(folder: Path, task: str) -> Pass:
    """Return a pass of DALI's operators on the CPU."""
    dali_fn, types = (importlib.import_module(f"nvidia.dali.{name}") for name in ("fn", "types"))
    pipeline_def = importlib.import_module("nvidia.dali").pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, prefetch_queue_depth=2)
    def pipeline() -> Any:
        contents, labels = dali_fn.readers.file(file_root=str(folder), name="files")
        mirror = 0
        if task == CROP:
            images = dali_fn.decoders.image_random_crop(
                contents, device="cpu", output_type=types.RGB, random_area=list(AREAS), random_aspect_ratio=list(RATIOS)
            )
            mirror = dali_fn.random.coin_flip()
        else:
            images = dali_fn.decoders.image(contents, device="cpu", output_type=types.RGB)
        images = dali_fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=task == CROP)
        scaled = [[255 * number for number in numbers] for numbers in (MEAN, STD)]
        images = dali_fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=scaled[0], std=scaled[1], mirror=mirror
        )
        return images, labels

    loader = pipeline()
    loader.build()
    count = loader.epoch_size("files") // BATCH

    def run() -> tuple[int, float]:
        begun = time.perf_counter()
        for _ in range(count):
            loader.run()
        return count * BATCH, time.perf_counter() - begun

    run()
    return run


def part_of(height: int, width: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a part, by torchvision's rule."""
    for _ in range(10):
        area = height * width * random.uniform(*AREAS)
        ratio = np.exp(random.uniform(*np.log(RATIOS)))
        rows, columns = round(np.sqrt(area / ratio)), round(np.sqrt(area * ratio))
        if rows <= height and columns <= width:
            return int(random.integers(height - rows + 1)), int(random.integers(width - columns + 1)), rows, columns
    return 0, 0, height, width


def in_threads(folder: Path, make: Callable[[str, np.random.Generator], np.ndarray]) -> Pass:
    """Return a pass of two threads that make pictures by a function of the file's name."""
    paths = sorted(map(str, folder.glob("*/*.jpg")))

    def run() -> tuple[int, float]:
        random = np.random.default_rng(0)
        begun = time.perf_counter()
        with ThreadPoolExecutor(2) as threads:
            images = threads.map(lambda path: make(path, random), paths)
            made = 0
            while group := list(itertools.islice(images, BATCH)):
                made += len(np.stack(group))
        return made, time.perf_counter() - begun

    return run


def opencv(folder: Path, task: str) -> Pass:
    """Return a pass of OpenCV's in two threads."""
    cv2 = importlib.import_module("cv2")
    cv2.setNumThreads(0)
    factors = np.float32(1 / (255 * np.array(STD))).reshape(3, 1, 1)
    shifts = np.float32(-np.array(MEAN) / np.array(STD)).reshape(3, 1, 1)

    def make(path: str, random: np.random.Generator) -> np.ndarray:
        image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
        if task == CROP:
            top, left, rows, columns = part_of(*image.shape[:2], random)
            image = image[top : top + rows, left : left + columns]
        image = cv2.cvtColor(cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR), cv2.COLOR_BGR2RGB)
        if task == CROP and random.random() < 0.5:
            image = cv2.flip(image, 1)
        return image.transpose(2, 0, 1) * factors + shifts

    return in_threads(folder, make)


def pillow(folder: Path, task: str) -> Pass:
    """Return a pass of Pillow's in two threads."""
    from PIL import Image

    factors = np.float32(1 / (255 * np.array(STD))).reshape(3, 1, 1)
    shifts = np.float32(-np.array(MEAN) / np.array(STD)).reshape(3, 1, 1)

    def make(path: str, random: np.random.Generator) -> np.ndarray:
        with Image.open(path) as file:
            image = file.convert("RGB")
        box = None
        if task == CROP:
            top, left, rows, columns = part_of(image.height, image.width, random)
            box = (left, top, left + columns, top + rows)
        image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
        if task == CROP and random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return np.asarray(image).transpose(2, 0, 1) * factors + shifts

    return in_threads(folder, make)


def tf_data(folder: Path, task: str) -> Pass:
    """Return a pass of tf.data's."""
    tf = importlib.import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    mean, std = (tf.constant(numbers, tf.float32) * 255 for numbers in (MEAN, STD))

    def vision(path: Any) -> Any:
        contents = tf.io.read_file(path)
        if task == CROP:
            begin, size, _ = tf.image.sample_distorted_bounding_box(
                tf.image.extract_jpeg_shape(contents),
                tf.zeros([0, 0, 4], tf.float32),
                area_range=AREAS,
                aspect_ratio_range=RATIOS,
                use_image_if_no_bounding_boxes=True,
            )
            window = tf.stack([begin[0], begin[1], size[0], size[1]])
            image = tf.image.decode_and_crop_jpeg(contents, window, channels=3)
        else:
            image = tf.image.decode_jpeg(contents, channels=3)
        image = tf.image.resize(image, [SIDE, SIDE])
        if task == CROP:
            image = tf.image.random_flip_left_right(image)
        return tf.transpose((image - mean) / std, [2, 0, 1])

    dataset = tf.data.Dataset.list_files(str(folder / "*/*.jpg"), shuffle=False)
    dataset = dataset.map(vision, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    dataset = dataset.with_options(options)

    def run() -> tuple[int, float]:
        begun = time.perf_counter()
        made = sum(int(batch.shape[0]) for batch in dataset)
        return made, time.perf_counter() - begun

    run()
    return run


def torchvision(folder: Path, task: str, loaders: str = "torch.utils.data") -> Pass:
    """Return a pass of PyTorch's loader over torchvision's pictures, with two processes; or of that of another module.

    `queuecore.torch` is the same script with one import changed: then the workers are two native threads.
    """
    torch_data = importlib.import_module(loaders)
    transforms, datasets = (importlib.import_module(f"torchvision.{name}") for name in ("transforms", "datasets"))
    first = (
        [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip()]
        if task == CROP
        else [transforms.Resize((SIDE, SIDE))]
    )
    chain = transforms.Compose([*first, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    loader = torch_data.DataLoader(
        datasets.ImageFolder(str(folder), chain), BATCH, num_workers=2, persistent_workers=True
    )

    def run() -> tuple[int, float]:
        begun = time.perf_counter()
        made = sum(len(labels) for _, labels in loader)
        return made, time.perf_counter() - begun

    run()
    return run


# Name: what must be there, how a pass is made; at least how many times its rate, of a random crop and of a new size.
PEERS: dict[str, tuple[str, Callable[[Path, str], Pass], float | None, float | None]] = {
    "DALI": ("nvidia.dali", dali, 2.5, None),
    "OpenCV": ("cv2", opencv, 2.0, 1.1),
    "tf.data": ("tensorflow", tf_data, 3.0, None),
    "torchvision": ("torchvision", torchvision, 2.0, None),
    "Pillow": ("PIL", pillow, None, None),
}


# The script of torchvision's with our loader, and at least how many times its rate.
SCRIPT, SCRIPT_TARGET = "torchvision, one import changed", 2.0
BEYOND = "random crop: time of one thread"


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Let so many processes of Python compute on the same cores."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def ratios_of(rates: list[float], others: list[float]) -> list[float]:
    """Return the ratio of the rates of each round."""
    return [rate / other for rate, other in zip(rates, others, strict=True)]


def run(options: harness.Options) -> dict[str, Any]:
    """Measure whole passes of each contender, for a random crop and for a new size."""
    count, rounds = (128, 2) if options.quick else (1024, 7)
    absences: dict[str, str] = {}
    with harness.scratch(options) as folder:
        write_pictures(folder, count)
        contenders: list[tuple[str, Callable[[], float]]] = []

        def add(name: str, one_pass: Pass, beside: int = 0) -> None:
            def rate() -> float:
                with busy(beside):
                    made, seconds = one_pass()
                if made != count:
                    raise SystemExit(f"{name}: {made} pictures came, of {count}")
                return made / seconds

            contenders.append((name, rate))

        add(f"{BUSY}: queuecore", ours(folder, CROP), 2)
        for task in (CROP, SIZE):
            add(f"{task}: queuecore", ours(folder, task))
            for peer, (module, make, *_) in PEERS.items():
                if not options.peers:
                    continue
                try:
                    importlib.import_module(module)
                    add(f"{task}: {peer}", make(folder, task))
                    if peer == "torchvision":
                        add(f"{task}: {SCRIPT}", torchvision(folder, task, "queuecore.torch"))
                    if task == CROP and peer == "DALI":
                        add(f"{BUSY}: {peer}", dali(folder, task), 2)
                except (ImportError, RuntimeError) as error:
                    absences[peer] = str(error)
        contenders += [(f"{ALONE}: {name}", rate) for name, rate in resizing(folder).items()]
        contenders.append((BEYOND, beyond_libjpeg(folder)))
        raw = harness.rotate(contenders, rounds)
    findings = [harness.finding(name, "pictures/s", rates) for name, rates in raw.items() if name != BEYOND]
    findings.append(harness.finding(BEYOND, "of libjpeg's own", raw[BEYOND], at_most=1.25))
    for peer, (_, _, *targets) in PEERS.items():
        for task, target in zip((CROP, SIZE), targets, strict=True):
            if f"{task}: {peer}" in raw:
                ratios = ratios_of(raw[f"{task}: queuecore"], raw[f"{task}: {peer}"])
                findings.append(harness.finding(f"{task}: rate", f"of {peer}'s", ratios, at_least=target))
    for numbers, at_most in (("bytes", 1.1), ("floats", None)):
        if f"{ALONE}: OpenCV, {numbers}" in raw:
            ratios = ratios_of(raw[f"{ALONE}: OpenCV, {numbers}"], raw[f"{ALONE}: queuecore"])
            findings.append(harness.finding(f"{ALONE}: time", f"of OpenCV's of {numbers}", ratios, at_most=at_most))
    for task in (CROP, SIZE):
        if f"{task}: {SCRIPT}" in raw:
            ratios = ratios_of(raw[f"{task}: {SCRIPT}"], raw[f"{task}: torchvision"])
            target = SCRIPT_TARGET if task == CROP else None
            name = f"{task}: one import changed"
            findings.append(harness.finding(name, "of the rate before", ratios, at_least=target))
    shares = {
        name: ratios_of(raw[f"{BUSY}: {name}"], raw[f"{CROP}: {name}"])
        for name in ("queuecore", "DALI")
        if f"{BUSY}: {name}" in raw
    }
    findings += [harness.finding(f"{BUSY}: {name}", "of the rate alone", runs) for name, runs in shares.items()]
    if "DALI" in shares:
        ratios = ratios_of(shares["queuecore"], shares["DALI"])
        findings.append(harness.finding(f"{BUSY}: share", "of DALI's", ratios, at_least=1))
    return harness.report(
        "pictures",
        "photographs decoded, cut at random, resized and normalised, beside other loaders",
        findings,
        raw,
        parameters={"pictures": count, "batch": BATCH, "side": SIDE, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
