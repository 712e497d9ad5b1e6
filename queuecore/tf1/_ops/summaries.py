"""Operations that tell of a run: each returns a serialized `Summary`, which a `FileWriter` takes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import (
    GraphKeys,
    Tensor,
    add_to_collections,
    apply_op,
    convert_to_tensor,
    get_collection,
    get_default_graph,
)
from queuecore.tf1._graph.values import float32, name_of, string, uint8
from queuecore.tf1._ops.encoders import png_of, wav_of
from queuecore.tf1._protos.summaries import Summary, SummaryMetadata, TensorProto, histogram as histogram_of

__all__ = ["audio", "histogram", "image", "merge", "merge_all", "scalar", "tensor_summary", "text"]

_FORBIDDEN = re.compile(r"[^-/\w.]", re.ASCII)


def _clean(name: str) -> str:
    return _FORBIDDEN.sub("_", name).lstrip("/")


@contextlib.contextmanager
def _scope(name: str, family: str | None) -> Iterator[tuple[str, str]]:
    # The tag under which a summary is shown, and the name of its operation.
    above = None if family is None else _clean(family)
    with get_default_graph().name_scope(_clean(name) if above is None else f"{above}/{_clean(name)}") as scope:
        tag = scope.rstrip("/")
        yield (tag if above is None else f"{above}/{tag}"), scope


def _collected(made: Tensor, collections: Any, default: Sequence[str] = (GraphKeys.SUMMARIES,)) -> Tensor:
    add_to_collections(list(default) if collections is None else collections, made)
    return made


def _numbers(what: str, value: Any) -> Tensor:
    given = convert_to_tensor(value)
    if given.dtype.kind not in "iufbV" or given.dtype.is_bool:
        raise TypeError(f"summary.{what}: a summary is of numbers, not of {name_of(given.dtype)}")
    return given


def _told(**fields: Any) -> bytes:
    return Summary(value=[Summary.Value(**fields)]).SerializeToString()


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """Return the summary of one number.

    Parameters
    ----------
    name : str
        That of the operation, and the tag under which the number is shown.
    tensor : Tensor of numbers, scalar
    collections : list of str, optional
        Those that hold it. Default: that of `merge_all`.
    family : str, optional
        A prefix of the tag.

    Returns
    -------
    Tensor of a string
        A serialized `Summary`.

    Raises
    ------
    TypeError
        If it is no number.
    InvalidArgumentError
        In a run, if it is no scalar.
    """
    with _scope(name, family) as (tag, scope):
        number = _numbers("scalar", tensor)

        def kernel(value: Any) -> bytes:
            if np.ndim(value):
                raise InvalidArgumentError(
                    f"tags and values are not the same shape: [] != {list(np.shape(value))} (tag '{tag}')"
                )
            return _told(tag=tag, simple_value=float(value))

        return _collected(apply_op("ScalarSummary", [number], string, (), kernel, scope), collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """Return the summary of how numbers are spread; parameters as of `scalar`, but of any shape.

    Raises
    ------
    TypeError
        If they are no numbers.
    InvalidArgumentError
        In a run, if one isn't finite.
    """
    with _scope(name, family) as (tag, scope):
        numbers = _numbers("histogram", values)

        def kernel(value: Any) -> bytes:
            try:
                return _told(tag=tag, histo=histogram_of(value))
            except ValueError as error:
                raise InvalidArgumentError(f"Nan in summary histogram for: {scope.rstrip('/')}: {error}") from error

        return _collected(apply_op("HistogramSummary", [numbers], string, (), kernel, scope), collections)


def _several(tag: str, kind: str, most: int) -> Iterator[str]:
    for at in range(most):
        yield f"{tag}/{kind}" if most == 1 else f"{tag}/{kind}/{at}"


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Return the summary of pictures.

    Parameters
    ----------
    name : str
    tensor : Tensor of uint8 or floats, shape (pictures, height, width, channels)
        With 1, 3 or 4 channels. Floats are scaled: 0 is black, or, if there are numbers below 0, grey.
    max_outputs : int, default 3
        The largest number of pictures.
    collections, family
        As of `scalar`.

    Raises
    ------
    TypeError, ValueError
        If they are no pictures.
    InvalidArgumentError
        In a run, if they have another rank or number of channels.
    """
    if max_outputs < 1:
        raise ValueError(f"max_outputs must be 1 or more, not {max_outputs}")
    with _scope(name, family) as (tag, scope):
        batch = _numbers("image", tensor)
        if batch.dtype.is_integer and batch.dtype != uint8 and not isinstance(tensor, Tensor):
            batch = convert_to_tensor(np.asarray(tensor, np.float32))
        if batch.dtype != uint8 and not batch.dtype.is_floating:
            raise TypeError(f"summary.image: pictures are of uint8 or floats, not of {name_of(batch.dtype)}")

        def kernel(pictures: Any) -> bytes:
            if np.ndim(pictures) != 4 or pictures.shape[3] not in (1, 3, 4):
                raise InvalidArgumentError(
                    f"Tensor must be 4-D with last dim 1, 3, or 4, not {list(np.shape(pictures))} (tag '{tag}')"
                )
            summary = Summary()
            for one, picture in zip(_several(tag, "image", max_outputs), pictures, strict=False):
                height, width, channels = picture.shape
                shown = picture if picture.dtype == np.uint8 else _normalized(picture.astype(np.float32))
                file = {"height": height, "width": width, "colorspace": channels, "encoded_image_string": png_of(shown)}
                summary.value.add(tag=one, image=file)
            return summary.SerializeToString()

        return _collected(apply_op("ImageSummary", [batch], string, (), kernel, scope), collections)


def _normalized(picture: Any) -> Any:
    # Pixels that aren't finite are red.
    channels = picture.shape[2]
    is_finite = np.isfinite(picture).all(2)
    low = picture[is_finite].min(initial=np.inf)
    high = picture[is_finite].max(initial=-np.inf)
    grey = low < 0
    most = max(abs(low), abs(high)) if grey else high
    scale = np.float32(0) if most < 1e-6 else np.float32(127 if grey else 255) / np.float32(most)
    made = np.empty(picture.shape, np.uint8)
    made[...] = np.array([255, 0, 0, 255], np.uint8)[:channels]
    made[is_finite] = (picture[is_finite] * scale + np.float32(128 if grey else 0)).astype(np.uint8)
    return made


def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> Tensor:
    """Return the summary of sounds.

    Parameters
    ----------
    name : str
    tensor : Tensor of floats from -1 to 1, shape (sounds, frames, channels) or (sounds, frames)
    sample_rate : Tensor of a number
        Frames per second.
    max_outputs : int, default 3
        The largest number of sounds.
    collections, family
        As of `scalar`.

    Raises
    ------
    InvalidArgumentError
        In a run, if they have another rank.
    """
    if max_outputs < 1:
        raise ValueError(f"max_outputs must be 1 or more, not {max_outputs}")
    with _scope(name, family) as (tag, scope):
        inputs = [convert_to_tensor(tensor, float32), convert_to_tensor(sample_rate, float32)]

        def kernel(sounds: Any, rate: Any) -> bytes:
            if np.ndim(sounds) not in (2, 3):
                raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, not {list(np.shape(sounds))} (tag '{tag}')")
            summary = Summary()
            for one, sound in zip(_several(tag, "audio", max_outputs), sounds, strict=False):
                samples = sound.reshape(len(sound), -1)
                summary.value.add(tag=one, audio={
                    "sample_rate": float(rate), "num_channels": samples.shape[1], "length_frames": len(samples),
                    "encoded_audio_string": wav_of(samples, int(round(float(rate)))), "content_type": "audio/wav",
                })  # fmt: skip
            return summary.SerializeToString()

        return _collected(apply_op("AudioSummaryV2", inputs, string, (), kernel, scope), collections)


def tensor_summary(
    name: str, tensor: Any, summary_description: str | None = None, collections: Any = None,
    summary_metadata: Any = None, family: str | None = None, display_name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the summary of any tensor.

    Parameters
    ----------
    name : str
    tensor : Tensor
    summary_description, display_name : str, optional
        What is shown beside it.
    collections, family
        As of `scalar`.
    summary_metadata : SummaryMetadata, optional
        For example the part of TensorBoard that shows it.
    """
    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    with _scope(name, family) as (tag, scope):
        operand = convert_to_tensor(tensor)

        def kernel(value: Any) -> bytes:
            summary = Summary()
            one = summary.value.add(tag=tag, tensor=TensorProto.of(value))
            one.metadata.SetInParent()
            one.metadata.CopyFrom(metadata)
            return summary.SerializeToString()

        return _collected(apply_op("TensorSummaryV2", [operand], string, (), kernel, scope), collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Return the summary of strings, which TensorBoard shows as text; parameters as of `scalar`.

    Raises
    ------
    ValueError
        If they are no strings.
    """
    strings = convert_to_tensor(tensor)
    if strings.dtype != string:
        raise ValueError(f"Expected tensor {strings.name} to have dtype string, got {name_of(strings.dtype)}")
    metadata = SummaryMetadata(plugin_data={"plugin_name": "text"})
    return tensor_summary(name, strings, collections=collections, summary_metadata=metadata)


def merge(inputs: Sequence[Any], collections: Any = None, name: str | None = None) -> Tensor:
    """Return several summaries as one.

    Parameters
    ----------
    inputs : list of Tensor of strings
        Serialized summaries.
    collections : list of str, optional
        Those that hold it. Default: none.
    name : str, optional

    Raises
    ------
    ValueError
        If there are none.
    InvalidArgumentError
        In a run, if one is no summary, or two have a value of the same tag.
    """
    summaries = [convert_to_tensor(one, string) for one in inputs]
    if not summaries:
        raise ValueError("merge: no summaries are given")

    def kernel(*parts: Any) -> bytes:
        summary = Summary()
        tags: set[str] = set()
        for part in parts:
            for data in [part] if isinstance(part, bytes) else np.ravel(part):
                try:
                    read = Summary.FromString(data)
                except ValueError as error:
                    raise InvalidArgumentError(f"Could not parse one of the summary inputs: {error}") from error
                for value in read.value:
                    if value.tag and value.tag in tags:
                        raise InvalidArgumentError(f"Duplicate tag {value.tag} found in summary inputs")
                    tags.add(value.tag)
                    summary.value.append(value)
        return summary.SerializeToString()

    with get_default_graph().name_scope(name or "Merge"):
        merged = apply_op("MergeSummary", summaries, string, (), kernel, name or "MergeSummary")
    return _collected(merged, collections, ())


def merge_all(key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Return all summaries of the default graph as one, or `None` if there are none.

    Parameters
    ----------
    key : str
        The collection that holds them.
    scope : str, optional
        Only those whose names begin with it.
    name : str, optional
    """
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None
