"""`queuecore.torch.DataLoader` over torchvision's folders of pictures: native threads against torchvision itself."""

from __future__ import annotations

import itertools
import logging
import re
import warnings
from typing import Any
from unittest import mock

import numpy as np
import pytest
from helpers.process import soon, thread_ids

pytestmark = pytest.mark.doors

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make doors")

from helpers.doors.vision import make_folders, torchvision  # noqa: E402

from queuecore.errors import DecodeError, NotFoundError  # noqa: E402
from queuecore.torch import DataLoader  # noqa: E402

vision = torchvision()
v1, v2 = vision.transforms, pytest.importorskip("torchvision.transforms.v2")
ImageFolder = vision.datasets.ImageFolder
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TO_FLOAT = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
TENSOR = [v1.Resize((8, 8)), v1.ToTensor()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pictures")
    make_folders(folder)
    return folder


def natively(dataset: Any, batch_size: int = 5, num_workers: int = 2, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size, num_workers=num_workers, worker_type="native", **options)


def training(root: Any) -> Any:
    steps = [v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor(), v1.Normalize(MEAN, STD)]
    return ImageFolder(root, v1.Compose(steps))


SAME = {
    "resize": [v1.Resize((30, 20)), v1.ToTensor()],
    "shorter side": [v1.Resize(33), v1.CenterCrop(20), v1.ToTensor(), v1.Normalize(MEAN, STD)],
    "odd rest": [v1.Resize(33), v1.CenterCrop((32, 30)), v1.ToTensor()],
    "larger": [v1.Resize((90, 100), interpolation=v1.InterpolationMode.BICUBIC), v1.ToTensor()],
    "bytes": [v1.Resize((31, 30)), v1.CenterCrop(29), v1.PILToTensor()],
    "bytes of floats": [v1.PILToTensor(), v1.Resize((31, 30)), v1.ConvertImageDtype(torch.float32)],
    "flips": [v1.Resize(24), v1.CenterCrop(24), v1.RandomHorizontalFlip(1), v1.RandomVerticalFlip(1.0), v1.ToTensor()],
    "never": [v1.Resize((24, 25)), v1.RandomHorizontalFlip(0), v1.RandomVerticalFlip(p=0.0), v1.ToTensor()],
    "floats first": [v1.ToTensor(), v1.Resize((24, 25)), v1.Normalize(0.5, 0.25)],
    "no antialias": [v1.ToTensor(), v1.Resize((24, 25), antialias=False)],
    "normalised first": [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.Resize([28]), v1.CenterCrop([27])],
    "v2": [*TO_FLOAT, v2.Resize((24, 25)), v2.Normalize(MEAN, STD)],
    "v2 bytes": [v2.RGB(), v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), v2.Resize(26), v2.CenterCrop(25)],
    "nested": [v2.Compose([v2.ToImage(), torch.nn.Identity()]), torch.nn.Sequential(v2.Resize((20, 21))), TO_FLOAT[1]],
    "whole": [v1.RandomResizedCrop(20, (1, 1), (1.3, 1.3)), v1.ToTensor()],
}


def far_from_torchvisions(dataset: Any) -> list[Any]:
    """Return the differences of both loaders' pictures, in steps of 255 before normalising; the rest is equal."""
    differences = []
    theirs = torch.utils.data.DataLoader(dataset, 5)
    for (images, labels), (their_images, their_labels) in zip(natively(dataset), theirs, strict=True):
        assert isinstance(images, torch.Tensor) and images.dtype == their_images.dtype
        assert images.shape == their_images.shape and images.is_contiguous()
        assert torch.equal(labels, their_labels) and labels.dtype == their_labels.dtype
        scale = 1 if images.dtype == torch.uint8 else 255 * min(STD)
        differences += list((images.double() - their_images.double()).abs() * scale)
    return differences


@pytest.mark.parametrize("steps", SAME.values(), ids=SAME)
def test_samples_are_torchvisions(root, steps):
    """Pixels differ by no more than rounding between the operations does."""
    dataset = ImageFolder(root, v1.Compose(steps))
    dataset.samples = [sample for sample in dataset.samples if sample[0].endswith(("png", "bmp"))]
    differences = far_from_torchvisions(dataset)
    assert len(differences) == 12
    assert max(difference.max() for difference in differences) <= 1.01


@pytest.mark.parametrize(("side", "most"), [(39, 1.5), (18, 40)])
def test_jpegs(root, side, most):
    """A JPEG may be decoded at half its size, if that isn't below the new one: only then its pixels differ by more."""
    dataset = ImageFolder(root, v1.Compose([v1.Resize((side, side)), v1.ToTensor()]))
    dataset.samples = [sample for sample in dataset.samples if sample[0].lower().endswith("jpg")]
    differences = far_from_torchvisions(dataset)
    assert max(difference.max() for difference in differences) <= most
    assert all((difference**2).mean() < 4 for difference in differences)


def test_no_python_makes_samples(root):
    dataset = training(root)
    with mock.patch("PIL.Image.open", None), mock.patch("PIL.Image.Image.resize", None):
        images, _ = next(iter(natively(dataset)))
    assert images.shape == (5, 3, 16, 16)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_order_is_pytorchs(root, shuffle, drop_last):
    loaders = []
    for kind in (torch.utils.data.DataLoader, DataLoader):
        generator = torch.Generator().manual_seed(5)
        loaders.append(kind(training(root), 7, shuffle, num_workers=2, drop_last=drop_last, generator=generator))
    theirs, ours = ([[labels.tolist() for _, labels in loader] for _ in range(2)] for loader in loaders)
    assert ours == theirs
    assert len(loaders[1]) == len(loaders[0]) == len(ours[0])


def pictures_of(loader: Any) -> list[Any]:
    return [images.clone() for images, _ in loader]


def same(batches: Any, others: Any) -> bool:
    return len(batches) == len(others) and all(map(torch.equal, batches, others))


def test_all_batches_may_be_kept(root):
    """In silence, as PyTorch's."""
    loaders = [natively(training(root), generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = [images for images, _ in list(loaders[0])]
    assert len(kept) > 4
    assert same(kept, pictures_of(loaders[1]))


def test_draws_follow_from_the_generator_alone(root):
    dataset = training(root)

    def epochs(workers: int, seed: int = 3, **options: Any) -> list[Any]:
        loader = natively(dataset, 5, workers, shuffle=True, generator=torch.Generator().manual_seed(seed), **options)
        return [pictures_of(loader), pictures_of(loader)]

    first, second = epochs(1)
    for others in (epochs(4), epochs(3, prefetch_factor=1), epochs(2, persistent_workers=True)):
        assert same(first, others[0]) and same(second, others[1])
    assert not same(first, second)
    assert not same(first, epochs(1, seed=4)[0])


@pytest.mark.parametrize("delivered", [0, 1, 3, 5])
def test_an_epoch_resumes(root, delivered):
    dataset = training(root)

    def made() -> DataLoader[Any]:
        return natively(dataset, 5, shuffle=True, generator=torch.Generator().manual_seed(3))

    whole = made()
    expected = pictures_of(whole), pictures_of(whole)
    loader = made()
    batches = iter(loader)
    begun = [next(batches)[0].clone() for _ in range(delivered)]
    resumed = natively(dataset, 5, 1, shuffle=True, generator=torch.Generator())
    resumed.load_state_dict(loader.state_dict())
    assert same([*begun, *pictures_of(resumed)], expected[0])
    assert same(pictures_of(resumed), expected[1])


def test_a_place_is_that_of_threads(root):
    """The kind of workers isn't part of a place: the order goes on."""
    dataset = training(root)
    loader = natively(dataset, 5, shuffle=True)
    batches = iter(loader)
    next(batches)
    threads = DataLoader(dataset, 5, shuffle=True, num_workers=2, worker_type="thread")
    threads.load_state_dict(loader.state_dict())
    assert [labels.tolist() for _, labels in threads] == [labels.tolist() for _, labels in batches]


def test_random_crops_and_flips_are_drawn_as_torchvisions(root):
    """The place of a part is spread evenly, and so are mirror images with their share."""
    size, samples = 40, 3000
    steps = [v1.Resize((48, 56)), v1.RandomCrop(size), v1.RandomHorizontalFlip(0.25), v1.PILToTensor()]
    dataset = ImageFolder(root, v1.Compose(steps))
    from PIL import Image

    across = np.broadcast_to(np.arange(56, dtype=np.uint8), (48, 56))
    down = np.broadcast_to(np.arange(48, dtype=np.uint8)[:, None], (48, 56))
    path = root.parent / "ramp.png"
    Image.fromarray(np.stack([across, down, across], -1)).save(path)
    dataset.samples = [(str(path), 0)] * samples
    corners = np.concatenate([images[:, :2, 0, [0, -1]].numpy().copy() for images, _ in natively(dataset, 500)])
    left, right, top = corners[:, 0, 0].astype(int), corners[:, 0, 1].astype(int), corners[:, 1, 0]
    flipped = left > right
    assert abs(flipped.mean() - 0.25) < 0.04
    for places, room in ((np.minimum(left, right), 56 - size), (top, 48 - size)):
        counts = np.bincount(places, minlength=room + 1)
        assert len(counts) == room + 1
        share = samples / (room + 1)
        assert np.all(np.abs(counts - share) < 6 * np.sqrt(share))


CHANGED = {
    "brightness": [v1.ColorJitter(brightness=(1.5, 1.5))],
    "contrast": [v1.ColorJitter(contrast=(0.5, 0.5))],
    "saturation": [v1.ColorJitter(saturation=(2, 2))],
    "v2": [v2.ColorJitter(brightness=(0.5, 0.5))],
    "grey": [v1.RandomGrayscale(1.0)],
    "blur": [v1.GaussianBlur(5, (1.2, 1.2))],
    "no policy": [v1.RandAugment(num_ops=0)],
}


@pytest.mark.parametrize("steps", CHANGED.values(), ids=CHANGED)
def test_colours_are_torchvisions(root, steps):
    """Of pictures that are bytes before, the same but for the last place of a share."""
    dataset = ImageFolder(root, v1.Compose([v1.Resize(36), v1.CenterCrop(30), *steps, v1.PILToTensor()]))
    dataset.samples = [sample for sample in dataset.samples if sample[0].endswith(("png", "bmp"))]
    # A pixel of the new size that is rounded another way is multiplied by a share.
    differences = far_from_torchvisions(dataset)
    assert max(difference.max() for difference in differences) <= 4
    assert all(difference.mean() < 0.8 for difference in differences), [float(d.mean()) for d in differences]


@pytest.mark.parametrize("compose", [v1, v2])
def test_a_training_recipe(root, compose):
    """All of it runs natively, and what is drawn is spread as torchvision's."""
    steps = [
        *(compose.RandomResizedCrop(32, (0.5, 1)), compose.RandomHorizontalFlip(), compose.TrivialAugmentWide(fill=9)),
        *(compose.RandAugment(2, 9), compose.ColorJitter(0.4, 0.4, 0.4, 0.1), compose.RandomGrayscale(0.2)),
        *(compose.GaussianBlur(5), *([compose.ToTensor()] if compose is v1 else TO_FLOAT)),
        *(compose.Normalize(MEAN, STD), compose.RandomErasing(0.5, value="random")),
    ]
    dataset = ImageFolder(root, compose.Compose(steps))
    dataset.samples = dataset.samples[:1] * 600
    torch.manual_seed(0)
    means = []
    for kind in (natively, torch.utils.data.DataLoader):
        means.append(torch.cat([images.mean((1, 2, 3)) for images, _ in kind(dataset, 50)]).numpy().copy())
    ours, theirs = means
    assert abs(ours.mean() - theirs.mean()) < 0.2 * theirs.std() and 0.85 < ours.std() / theirs.std() < 1.18
    erased = ImageFolder(root, v1.Compose([*TENSOR, v1.Normalize(0.5, 0.5), v1.RandomErasing(1, value=(7, 8, 9))]))
    images, _ = next(iter(natively(erased, 24)))
    parts = [(images[:, channel] == value).any((1, 2)) for channel, value in enumerate((7, 8, 9))]
    assert all(part.float().mean() > 0.6 for part in parts) and all(torch.equal(parts[0], part) for part in parts)


def test_subsets(root):
    dataset = training(root)
    half = torch.utils.data.Subset(torch.utils.data.Subset(dataset, range(20, 0, -1)), [3, 5, 7, 11, 2])
    labels = [label for _, labels in natively(half, 2) for label in labels.tolist()]
    assert labels == [dataset.targets[index] for index in (17, 15, 13, 9, 18)]
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, 3, 1, shuffle=True)
    sampler.set_epoch(4)
    labels = [label for _, labels in natively(dataset, 3, sampler=sampler) for label in labels.tolist()]
    assert labels == [dataset.targets[index] for index in sampler]


# ---- errors


def test_an_error_is_its_batchs_alone(tmp_path):
    make_folders(tmp_path)
    dataset = ImageFolder(tmp_path, v1.Compose([v1.Resize((8, 8)), v1.ToTensor()]))
    expected = [(images.clone(), labels) for images, labels in natively(dataset, 4)]
    broken, absent_name = dataset.samples[6][0], dataset.samples[12][0]
    with open(broken, "wb") as file:
        file.write(b"no picture")
    (tmp_path / absent_name).unlink()
    batches = iter(natively(dataset, 4))
    for number, (images, labels) in enumerate(expected):
        if number == 1:
            with pytest.raises(DecodeError, match=broken):
                next(batches)
        elif number == 3:
            with pytest.raises(NotFoundError, match=absent_name):
                next(batches)
        else:
            made = next(batches)
            assert torch.equal(made[0], images) and torch.equal(made[1], labels)
    with pytest.raises(StopIteration):
        next(batches)


def test_ctrl_c_loses_no_batch(root):
    loader = natively(training(root), 5, generator=torch.Generator().manual_seed(1))
    expected = pictures_of(loader)
    loader = natively(training(root), 5, generator=torch.Generator().manual_seed(1))
    batches = iter(loader)
    made = [next(batches)[0].clone()]
    native = batches._crew  # type: ignore[attr-defined]
    with mock.patch.object(native, "_batch", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        next(batches)
    made += [images.clone() for images, _ in batches]
    assert same(made, expected)


def test_threads_end_with_the_loop(root):
    before = thread_ids()
    dataset = training(root)
    dataset.samples *= 500
    for images, _ in natively(dataset):
        assert images.shape[0] == 5
        begun = thread_ids() - before
        assert begun
        break
    del images
    assert soon(lambda: not begun & thread_ids())
    loader = natively(dataset)
    batches = iter(loader)
    next(batches)
    stats = loader.stats()
    assert stats["batches"] == 1 and stats["threads"] == 2
    begun = thread_ids() - before
    batches._shutdown_workers()  # type: ignore[attr-defined]
    assert begun and soon(lambda: not begun & thread_ids())


# ---- what isn't native


class Own(ImageFolder):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


class OwnFlip(v1.RandomHorizontalFlip):
    pass


UNSUITED = {
    "lambda": ([v1.Lambda(lambda image: image), *TENSOR], {}, "transform Lambda"),
    "a class of the user's": ([OwnFlip(), *TENSOR], {}, "transform OwnFlip"),
    "random apply": ([v1.RandomApply([v1.RandomHorizontalFlip()]), *TENSOR], {}, "transform RandomApply"),
    "padding": ([v1.RandomCrop(8, padding=2), v1.ToTensor()], {}, "transform RandomCrop.* with padding"),
    "too small": ([v1.Resize(8), v1.CenterCrop(9), v1.ToTensor()], {}, "CenterCrop.*too small"),
    "filter": ([v1.Resize((8, 8), v1.InterpolationMode.NEAREST), v1.ToTensor()], {}, "Resize.*: its interpolation"),
    "twice": ([*TENSOR, v1.Normalize(0, 1), v1.Normalize(0, 1)], {}, "Normalize"),
    "max_size": ([v1.Resize(8, max_size=9), v1.CenterCrop(4), v1.ToTensor()], {}, "max_size"),
    "sizes": ([v1.Resize(8), v1.ToTensor()], {}, "one size"),
    "double": ([v2.Resize((8, 8)), v2.ToImage(), v2.ToDtype(torch.float64, scale=True)], {}, "ToDtype"),
    "not scaled": ([v2.Resize((8, 8)), v2.ToImage(), v2.ToDtype(torch.float32)], {}, "ToDtype"),
    "policy of floats": ([*TENSOR, v1.RandAugment(0)], {}, "RandAugment.* of a float32"),
    "policy between pixels": (
        [v1.Resize((8, 8)), v1.TrivialAugmentWide(interpolation=v1.InterpolationMode.BILINEAR), v1.ToTensor()],
        {},
        "TrivialAugmentWide.* with this interpolation",
    ),
    "colours of normalised": ([*TENSOR, v1.Normalize(0, 1), v1.ColorJitter(0.1)], {}, "ColorJitter.* behind Normalize"),
    "behind erasing": ([*TENSOR, v1.RandomErasing(), v1.RandomHorizontalFlip()], {}, "behind RandomErasing"),
    "oblong blur": ([v1.Resize((8, 8)), v1.GaussianBlur((3, 5)), v1.ToTensor()], {}, "GaussianBlur"),
    "wide blur": ([v1.Resize((8, 8)), v1.GaussianBlur(9), v1.ToTensor()], {}, "GaussianBlur"),
    "collate_fn": (TENSOR, {"collate_fn": lambda samples: torch.utils.data.default_collate(samples)}, "collate_fn"),
    "worker_init_fn": (TENSOR, {"worker_init_fn": int}, "worker_init_fn"),
    "sampler": (TENSOR, {"sampler": range(10)}, "the sampler is a range"),
    "batch_sampler": (TENSOR, {"batch_sampler": [[0, 1, 2], [3]]}, "not of one size"),
}


@pytest.mark.parametrize(("steps", "options", "reason"), UNSUITED.values(), ids=UNSUITED)
def test_what_is_not_native_runs_as_before_and_the_log_says_why(root, caplog, steps, options, reason):
    dataset = ImageFolder(root, v1.Compose(steps))
    size = {} if "batch_sampler" in options else {"batch_size": 1}
    with caplog.at_level(logging.INFO, "queuecore"):
        loader = DataLoader(dataset, num_workers=1, **size, **options)
    pytest.raises(ValueError, lambda: DataLoader(dataset, num_workers=1, worker_type="native", **size, **options))
    assert "pictures are not made natively" in caplog.text
    assert re.search(reason, caplog.text)
    expected = torch.utils.data.DataLoader(dataset, **size, **(options | {"worker_init_fn": None}))
    for (images, labels), (their_images, their_labels) in itertools.islice(zip(loader, expected, strict=True), 4):
        assert images.shape == their_images.shape and torch.equal(labels, their_labels)


def test_other_datasets_are_not_native(root):
    compose = v1.Compose(TENSOR)
    odd = ImageFolder(root, compose, target_transform=int)
    own = ImageFolder(root, compose, loader=lambda path: vision.datasets.folder.pil_loader(path))
    tiff = ImageFolder(root, compose)
    tiff.samples = [*tiff.samples, (str(root / "class0" / "000.tif"), 0)]
    for dataset, reason in (
        (odd, "target_transform"),
        (own, "loader is not torchvision's"),
        (tiff, r"native code doesn't decode '.*000.tif'"),
        (Own(root, compose), "Own has a __getitem__ of its own"),
        (ImageFolder(root), "no transform makes tensors"),
        ([1, 2, 3], "no ImageFolder"),
    ):
        with pytest.raises(ValueError, match=reason):
            natively(dataset)
    with pytest.raises(ValueError, match="num_workers is 0"):
        natively(ImageFolder(root, compose), 5, 0)
    loader = DataLoader(ImageFolder(root, compose), 5)  # the caller's own thread, as before
    assert loader.stats()["workers"] == 0 and next(iter(loader))[0].shape == (5, 3, 8, 8)
