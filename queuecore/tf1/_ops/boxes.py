"""Boxes in pictures: drawn, and chosen at random around objects. The random numbers are TensorFlow's for a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from queuecore._checks.seeds import Pair, draw_pair
from queuecore._core.atoms import draws
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import DrawnPair, Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import float32, name_of
from queuecore.tf1._ops.random import RandomStream

__all__ = ["draw_bounding_boxes", "sample_distorted_bounding_box"]

_COLOURS = np.array(
    [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
     [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]], np.float32,
)  # fmt: skip


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Return pictures with the edges of boxes drawn into them.

    Parameters
    ----------
    images : Tensor of floats, shape (pictures, height, width, 1, 3 or 4)
    boxes : Tensor of float32, shape (pictures, boxes, 4)
        Top, left, bottom and right, as parts of the height and the width.
    name : str, optional
    colors : Tensor of float32, shape (n, 4), optional
        Red, green, blue and opacity of each box, again from the first one on. Default: ten colours of TensorFlow's.

    Returns
    -------
    Tensor
        Of the shape of `images`.

    Raises
    ------
    TypeError, ValueError
        If these are no such pictures and boxes.
    InvalidArgumentError
        In a run, if they aren't.
    """
    batch, corners = convert_to_tensor(images), convert_to_tensor(boxes, float32)
    if batch.dtype.name not in ("float16", "float32"):
        raise TypeError(
            f"Value passed to parameter 'images' has DataType {name_of(batch.dtype)} not in list of allowed values: "
            "float16, float32"
        )
    batch.shape.ranked(4)
    corners.shape.ranked(3)
    colour_table = convert_to_tensor(np.zeros((0, 4), np.float32) if colors is None else colors, float32)

    def kernel(pictures: Any, places: Any, table: Any) -> Any:
        depth = pictures.shape[3]
        if len(pictures) != len(places):
            raise InvalidArgumentError("The batch sizes should be the same")
        if depth not in (1, 3, 4):
            raise InvalidArgumentError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
        colours = table if len(table) else _COLOURS
        if depth == 1 and not len(table):
            colours = np.ones_like(_COLOURS)
        made = pictures.copy()
        for picture, own in zip(made, places, strict=True):
            for at, box in enumerate(own):
                _draw(picture, box, colours[at % len(colours)][:depth])
        return made

    return apply_op("DrawBoundingBoxes", [batch, corners, colour_table], batch.dtype, batch.shape, kernel, name)


def _draw(picture: Any, box: Any, colour: Any) -> None:
    height, width = picture.shape[:2]
    top, left, bottom, right = (
        int(np.float32(one) * np.float32(side - 1)) for one, side in zip(box, (height, width) * 2, strict=True)
    )
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            picture[row, columns] = colour
    for column in (left, right):
        if 0 <= column < width:
            picture[rows, column] = colour


class Sampled(NamedTuple):
    """A part of a picture: where it begins and its size, for `tf.slice`, and the box for `draw_bounding_boxes`."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


def sample_distorted_bounding_box(
    image_size: Any, bounding_boxes: Any, seed: int | None = None, seed2: int | None = None,
    min_object_covered: Any = 0.1, aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None, max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None, name: str | None = None,
) -> Sampled:  # fmt: skip
    """Return a random part of a picture that covers at least some part of one of its objects.

    Parameters
    ----------
    image_size : Tensor of integers, shape (3,)
        Height, width and channels.
    bounding_boxes : Tensor of float32, shape (1, boxes, 4)
        Top, left, bottom and right of objects, as parts of the height and the width.
    seed, seed2 : int, optional
        If either is not 0, the parts are TensorFlow's for them, run by run.
    min_object_covered : float or Tensor, default 0.1
        How much of an object must be inside.
    aspect_ratio_range : (float, float), default (0.75, 1.33)
        Of width to height.
    area_range : (float, float), default (0.05, 1)
        How much of the picture it has.
    max_attempts : int, default 100
        After so many tries the part is the whole picture.
    use_image_if_no_bounding_boxes : bool, default False
        Whether the whole picture is the object where there are no boxes; else that is an error.
    name : str, optional

    Returns
    -------
    begin, size : Tensor, shape (3,)
        Of the type of `image_size`; for `tf.slice`.
    bboxes : Tensor of float32, shape (1, 1, 4)

    Raises
    ------
    ValueError
        If a range is none, or a shape is another one.
    InvalidArgumentError
        In a run, if there are no boxes, or one isn't inside of the picture.
    """
    sides, objects = convert_to_tensor(image_size), convert_to_tensor(bounding_boxes, float32)
    covered = convert_to_tensor(min_object_covered, float32)
    sides.shape.ranked(1).assert_is_compatible_with([3])
    objects.shape.ranked(3)
    covered.shape.ranked(0)
    limits = _Limits(
        _range("aspect_ratio_range", aspect_ratio_range or (0.75, 1.33)),
        _range("area_range", area_range or (0.05, 1.0)),
        100 if max_attempts is None else int(max_attempts), bool(use_image_if_no_bounding_boxes),
    )  # fmt: skip
    if limits.area[1] > 1:
        raise ValueError(f"area_range must be within (0, 1], got {list(limits.area)}")
    if limits.tries <= 0:
        raise ValueError(f"max_attempts must be positive, got {limits.tries}")
    pair: Pair = Pair((seed or 0, seed2 or 0)) if seed or seed2 else DrawnPair(draw_pair())

    def kernel(run: Any, size: Any, boxes: Any, least: Any) -> tuple[Any, Any, Any]:
        height, width = (int(one) for one in size[:2])
        first = run.session.resource(("random", op), RandomStream).take(limits.tries)
        objects = _rectangles(boxes, height, width, limits.whole)
        crop = _sampled(_Words(pair, first), height, width, objects, least, limits)
        top, left, bottom, right = crop
        begin = np.array([top, left, 0], size.dtype)
        extent = np.array([bottom - top, right - left, -1], size.dtype)
        parts = np.array(crop, np.float32) / np.array([height, width] * 2, np.float32)
        return begin, extent, parts.reshape(1, 1, 4)

    op = sides.graph.create_op(
        "SampleDistortedBoundingBoxV2", [sides, objects, covered],
        [(sides.dtype, (3,)), (sides.dtype, (3,)), (float32, (1, 1, 4))], kernel,
        name or "sample_distorted_bounding_box",
    )  # fmt: skip
    return Sampled(*op.outputs)


class _Limits(NamedTuple):
    aspect: tuple[float, float]
    area: tuple[float, float]
    tries: int
    whole: bool


Box = tuple[int, int, int, int]  # top, left, bottom, right


def _range(what: str, given: Sequence[float]) -> tuple[float, float]:
    if len(given) != 2 or not 0 < given[0] <= given[1]:
        raise ValueError(f"{what} must be two positive numbers, the smaller one first, got {list(given)}")
    return float(given[0]), float(given[1])


def _rectangles(boxes: Any, height: int, width: int, use_image: bool) -> list[Box]:
    flat = boxes.reshape(-1, boxes.shape[-1]) if boxes.size else boxes.reshape(0, 4)
    outside = flat[(flat < 0) | (flat > 1)]
    if len(outside):
        raise InvalidArgumentError(f"All bounding box coordinates must be in [0.0, 1.0]: {outside[0]:g}")
    if not len(flat):
        if not use_image:
            raise InvalidArgumentError(
                "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to "
                "not provide any bounding boxes."
            )
        return [(0, 0, height, width)]
    scaled = (flat.astype(np.float32) * np.array([height, width] * 2, np.float32)).astype(np.int64)
    return [(int(a), int(b), int(c), int(d)) for a, b, c, d in scaled]


class _Words:
    # The words of a generator, one after the other, as TensorFlow's kernel takes them.
    def __init__(self, pair: Pair, block: int) -> None:
        self._words = self._read(pair, block)

    @staticmethod
    def _read(pair: Pair, block: int) -> Iterator[int]:
        words = np.empty(64, np.uint32)
        while True:
            draws.bits(*pair, block, words)
            yield from map(int, words)
            block = (block + len(words) // 4) % 2**64

    def part(self) -> np.float32:
        """Return a number from 0 to below 1."""
        bits = np.uint32(next(self._words) & 0x7FFFFF | 127 << 23)
        return bits.view(np.float32) - np.float32(1)

    def below(self, count: int) -> int:
        """Return a whole number from 0 to below `count`."""
        if not count & (count - 1):
            return next(self._words) & (count - 1)
        unequal = (2**32 - 1) % count + 1  # of so many words no multiple of `count` is left
        word = next(self._words)
        while word < unequal:
            word = next(self._words)
        return word % count


def _sampled(words: _Words, height: int, width: int, objects: list[Box], least: Any, limits: _Limits) -> Box:
    low, high = (np.float32(one) for one in limits.aspect)
    for _ in range(limits.tries):
        crop = _crop(words, height, width, words.part() * (high - low) + low, limits.area)
        if crop is not None and any(_covers(crop, one, least) for one in objects):
            return crop
    return 0, 0, height, width


def _nearest(value: Any) -> int:
    return int(np.rint(np.float32(value)))


def _crop(words: _Words, height: int, width: int, aspect: Any, area: tuple[float, float]) -> Box | None:
    # A part of this aspect, in single precision as there; `None`: none has such an area.
    if aspect <= 0 or height <= 0 or width <= 0:
        return None
    smallest, largest = (np.float32(one) * np.float32(width) * np.float32(height) for one in area)
    rows, limit = (_nearest(np.sqrt(one / aspect)) for one in (smallest, largest))
    if _nearest(limit * aspect) > width:
        limit = int((width + 0.5 - 1e-7) / float(aspect))
        if _nearest(limit * aspect) > width:
            limit -= 1
    limit = min(limit, height)
    rows = min(rows, limit)
    if rows < limit:
        rows += words.below(limit - rows + 1)
    columns = _nearest(rows * aspect)
    if columns * rows < smallest:
        rows += 1
        columns = _nearest(rows * aspect)
    if columns * rows > largest:
        rows -= 1
        columns = _nearest(rows * aspect)
    if not smallest <= columns * rows <= largest or not 0 < columns <= width or not 0 < rows <= height:
        return None
    top = words.below(height - rows) if rows < height else 0
    left = words.below(width - columns) if columns < width else 0
    return top, left, top + rows, left + columns


def _covers(crop: Box, other: Box, least: Any) -> bool:
    def area(box: Sequence[int]) -> int:
        return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)

    if area(crop) < 1 or area(other) < 1:
        return False
    common = (*map(max, crop[:2], other[:2]), *map(min, crop[2:], other[2:]))
    return bool(np.float32(area(common)) / np.float32(area(other)) >= least)
