"""Datasets of pictures in folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, SupportsIndex

from queuecore._checks.checks import check_bool
from queuecore._io import remote
from queuecore._io.names import Filename, name_to_read
from queuecore._ops.texts import split, table
from queuecore.data.dataset import Dataset
from queuecore.data.files import WholeFileDataset
from queuecore.errors import DtypeError, InvalidArgumentError, os_error

__all__ = ["ImageFolderDataset"]

# What torchvision takes for pictures.
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_FOLDERS_AT_A_TIME = 64
# Files that are read side by side where their order is drawn.
_SIDE_BY_SIDE = 16


class ImageFolderDataset(Dataset):
    r"""Pictures in folders, one folder for each class: their bytes, and the numbers of their classes.

    Parameters
    ----------
    root : str, bytes or os.PathLike
        A folder, whose folders are the classes: ``root/class/name.jpg``. Below a class's folder all folders are gone
        through; of a URL, only files right in it are taken.
    shuffle : bool, default False
        Whether the order of all files is drawn, anew for each pass, without a buffer for their contents.
    seed : int, optional
        Of the order. Default: one that is drawn.
    extensions : sequence of str
        The ends of the names of pictures, in small letters; capital letters are taken too. Default: torchvision's, of
        JPEG, PNG, PPM, BMP, PGM, TIFF and WebP.
    allow_empty : bool, default False
        Whether a class may have no pictures.
    num_parallel_reads : int, optional
        Native worker threads, where `Options.num_threads` isn't set. It doesn't change the order.
    storage_options : dict, optional
        As of `FixedLengthRecordDataset`.

    Attributes
    ----------
    class_names : list of str
        The classes; the number of a class is its place.
    class_to_idx : dict of str to int
        The numbers of classes.
    file_paths : list of str
        The files, in their order without `shuffle`.
    targets : list of int
        The numbers of their classes.

    Raises
    ------
    NotFoundError
        If there is no such folder.
    InvalidArgumentError
        If it has no folders, or a class no pictures.

    Notes
    -----
    An element is a tuple of the encoded picture (bytes) and its class (int64): ``map`` decodes it, natively, together
    with what follows (`queuecore.ops.decode_jpeg`). Classes and files are found as by torchvision's ``ImageFolder``, in
    the same order: sorted by name, folder by folder, links followed. A file that isn't there any more, or can't be
    read, is an error in its place, as in `WholeFileDataset`.

    Examples
    --------
    >>> import pathlib
    >>> import queuecore as qc
    >>> from PIL import Image
    >>> for name, colour in [("cat/0", "red"), ("cat/1", "blue"), ("dog/0", "white")]:
    ...     path = pathlib.Path("pets", name + ".jpg")
    ...     path.parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (40, 30), colour).save(path)
    >>> ds = qc.data.ImageFolderDataset("pets")
    >>> ds.class_names, len(ds)
    (['cat', 'dog'], 3)
    >>> def vision(data, label):
    ...     image = qc.ops.decode_jpeg(data, channels=3)
    ...     return qc.ops.random_resized_crop(image, 16, seed=1), label
    >>> for images, labels in ds.map(vision).batch(3):
    ...     print(images.shape, labels)
    (3, 16, 16, 3) [0 0 1]
    """

    def __init__(
        self,
        root: Filename,
        *,
        shuffle: bool = False,
        seed: SupportsIndex | None = None,
        extensions: Sequence[str] = _EXTENSIONS,
        allow_empty: bool = False,
        num_parallel_reads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        is_shuffled = check_bool(shuffle, "shuffle")
        ends = tuple(os.fsencode(end.lower()) for end in _checked(extensions))
        folder = _root(root)
        store = remote.store_of(storage_options)
        is_url = remote.is_url(folder)
        classes = _classes_of_url(folder, ends, store) if is_url else _classes(folder, ends)
        if not classes:
            raise InvalidArgumentError(f"ImageFolderDataset: {os.fsdecode(folder)!r} has no folders", path=folder)
        empty = [os.fsdecode(name) for name, files in classes if not files]
        if empty and (not allow_empty or len(empty) == len(classes)):
            raise InvalidArgumentError(
                f"ImageFolderDataset: no file in {', '.join(map(repr, empty))} ends in {', '.join(extensions)}",
                path=folder,
            )
        files = [file for _, found in classes for file in found]
        self.class_names = [os.fsdecode(name) for name, _ in classes]
        self.class_to_idx = {name: number for number, name in enumerate(self.class_names)}
        self.file_paths = [os.fsdecode(file) for file in files]
        self.targets = [label for label, (_, found) in enumerate(classes) for _ in found]
        # A store may write what stands before the class in another way.
        numbers, depth = table([name for name, _ in classes]), -2 if is_url else folder.count(b"/")

        def labelled(name: Any, contents: Any) -> Any:
            pieces: Any = split(name, "/")
            return contents, numbers[pieces[depth]]

        def whole(names: Any) -> WholeFileDataset:
            return WholeFileDataset(names, None, num_parallel_reads, storage_options=storage_options)

        contents: Dataset = whole(files)
        if is_shuffled:
            names = Dataset.from_tensor_slices(files).shuffle(len(files), seed)
            contents = names.interleave(whole, cycle_length=_SIDE_BY_SIDE).assert_cardinality(len(files))
        self._chain = contents.map(labelled)._chain


def _checked(extensions: Any) -> list[str]:
    ends = [extensions] if isinstance(extensions, str) else list(extensions)
    if not ends or not all(isinstance(end, str) and end for end in ends):
        raise InvalidArgumentError(f"ImageFolderDataset: extensions must be ends of names, not {extensions!r}")
    return ends


def _root(root: Any) -> bytes:
    """Return the folder's name, with a slash at its end."""
    try:
        folder = name_to_read(os.fsencode(root))
    except TypeError:
        raise DtypeError(f"ImageFolderDataset: root must be str, bytes or os.PathLike, not {root!r}") from None
    if not folder or b"\0" in folder:
        raise InvalidArgumentError(f"ImageFolderDataset: root is no name: {root!r}")
    return folder if folder.endswith(b"/") else folder + b"/"


def _classes(folder: bytes, ends: tuple[bytes, ...]) -> list[tuple[bytes, list[bytes]]]:
    """Return the classes and their files, in torchvision's order."""

    def pictures(name: bytes) -> list[bytes]:
        folders = sorted(_folders(folder + name, ()), key=lambda one: os.fsdecode(one[0]))
        return [
            path + b"/" + file
            for path, files in folders
            for file in sorted(files, key=os.fsdecode)
            if file.lower().endswith(ends)
        ]

    try:
        with os.scandir(folder) as entries:
            names = sorted((entry.name for entry in entries if entry.is_dir()), key=os.fsdecode)
        with ThreadPoolExecutor(_FOLDERS_AT_A_TIME, "qc-list") as threads:
            return list(zip(names, threads.map(pictures, names), strict=True))
    except OSError as error:
        path = folder if error.filename is None else os.fsencode(error.filename)
        raise os_error(error.errno, f"cannot list {os.fsdecode(path)!r}: ", path=path, stage="open") from error


def _folders(folder: bytes, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield a folder with its files, and those below it. `above`: those on the way, where no link may lead."""
    status = os.stat(folder)
    place = status.st_dev, status.st_ino
    if place in above:
        return
    with os.scandir(folder) as entries:
        inside = [(entry.name, entry.is_dir()) for entry in entries]
    yield folder, [name for name, is_folder in inside if not is_folder]
    for name, is_folder in inside:
        if is_folder:
            yield from _folders(folder + b"/" + name, (*above, place))


def _classes_of_url(
    folder: bytes, ends: tuple[bytes, ...], store: remote.RemoteStore | None
) -> list[tuple[bytes, list[bytes]]]:
    """Return the same of a URL."""
    classes: dict[bytes, list[bytes]] = {}
    for file in remote.listed(folder + b"*/*", store):
        classes.setdefault(file.split(b"/")[-2], []).append(file)
    return [
        (name, sorted(file for file in files if file.lower().endswith(ends))) for name, files in sorted(classes.items())
    ]
