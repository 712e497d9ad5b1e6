"""``slim.tfexample_decoder``: items of Examples."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from queuecore.tf1._graph.values import as_dtype, uint8
from queuecore.tf1._ops.arrays import concat, expand_dims, reshape, stack, transpose
from queuecore.tf1._ops.control import cond
from queuecore.tf1._ops.decoders import FixedLenFeature, decode_image, decode_raw, parse_single_example
from queuecore.tf1._ops.loops import map_fn
from queuecore.tf1._ops.math import cast, equal, logical_or, reduce_sum
from queuecore.tf1._ops.sparse import SparseTensor as _Sparse, sparse_tensor_to_dense
from queuecore.tf1.contrib.slim.data_decoder import DataDecoder

__all__ = [
    "BackupHandler",
    "BoundingBox",
    "Image",
    "ItemHandler",
    "ItemHandlerCallback",
    "LookupTensor",
    "SparseTensor",
    "TFExampleDecoder",
    "Tensor",
]


class ItemHandler(abc.ABC):
    """Makes an item of the features with some keys. Derive from it for an item of your own.

    Parameters
    ----------
    keys : str or list of str
    """

    def __init__(self, keys: str | Sequence[str]) -> None:
        self._keys = [keys] if isinstance(keys, str) else list(keys)

    @property
    def keys(self) -> list[str]:
        """The keys of its features."""
        return self._keys

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the item of features.

        Parameters
        ----------
        keys_to_tensors : dict of str to Tensor or SparseTensor
        """


class ItemHandlerCallback(ItemHandler):
    """An item that a function makes.

    Parameters
    ----------
    keys : str or list of str
    func : callable
        Takes a dict of the features with these keys.
    """

    def __init__(self, keys: str | Sequence[str], func: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return what the function returns."""
        return self._func(dict(keys_to_tensors))


class BackupHandler(ItemHandler):
    """An item of one handler if it has values, else of another one.

    Parameters
    ----------
    handler, backup : ItemHandler

    Raises
    ------
    ValueError
        If one of them is none.
    """

    def __init__(self, handler: ItemHandler, backup: ItemHandler) -> None:
        for what, one in (("Primary", handler), ("Backup", backup)):
            if not isinstance(one, ItemHandler):
                raise ValueError(f"{what} handler is of type {type(one)} instead of ItemHandler")
        super().__init__([*handler.keys, *(one for one in backup.keys if one not in handler.keys)])
        self._handler = handler
        self._backup = backup

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the first handler's item if the sum of its values isn't 0, else the second one's."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return cond(
            equal(cast(reduce_sum(item), as_dtype("float32")), 0.0),
            lambda: self._backup.tensors_to_item(keys_to_tensors),
            lambda: item,
        )


class BoundingBox(ItemHandler):
    """Boxes: their four sides, each a list of numbers from 0 to 1, as an item of shape (boxes, 4).

    Parameters
    ----------
    keys : list of str, default ["ymin", "xmin", "ymax", "xmax"]
    prefix : str, default ""
        Before each of the keys.

    Raises
    ------
    ValueError
        If there are other than four keys.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = "") -> None:
        chosen = ["ymin", "xmin", "ymax", "xmax"] if keys is None else list(keys)
        if len(chosen) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(chosen)}")
        self._prefix = prefix
        super().__init__([prefix + one for one in chosen])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the boxes."""
        sides = []
        for key in self.keys:
            side = keys_to_tensors[key]
            sides.append(expand_dims(side.values if isinstance(side, _Sparse) else side, 0))
        return transpose(concat(sides, 0))


class Tensor(ItemHandler):
    """One feature.

    Parameters
    ----------
    tensor_key : str
    shape_keys : str or list of str, optional
        The keys of features that say its shape: one, of all sides, or one for each side.
    shape : list of int, optional
        Its shape. Not together with `shape_keys`.
    default_value : optional
        Fills up a sparse feature. Default: 0.

    Raises
    ------
    ValueError
        If there are both kinds of shapes.
    """

    def __init__(
        self, tensor_key: str, shape_keys: str | Sequence[str] | None = None, shape: Any = None, default_value: Any = 0
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        self._tensor_key = tensor_key
        self._shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or ())
        self._shape = shape
        self._default_value = default_value
        super().__init__([tensor_key, *self._shape_keys])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the feature, dense, in its shape."""
        made = _dense(keys_to_tensors[self._tensor_key], self._default_value)
        shape = self._shape
        if self._shape_keys:
            shape = reshape(stack([_dense(keys_to_tensors[one], 0) for one in self._shape_keys]), [-1])
        return made if shape is None else reshape(made, shape)


def _dense(feature: Any, default: Any) -> Any:
    if not isinstance(feature, _Sparse):
        return feature
    return sparse_tensor_to_dense(feature, b"" if feature.dtype.kind == "S" and default == 0 else default)


class LookupTensor(Tensor):
    """One feature, looked up in a table.

    Parameters
    ----------
    tensor_key, shape_keys, shape, default_value
        As of `Tensor`.
    table : HashTable or its like
    """

    def __init__(
        self, tensor_key: str, table: Any, shape_keys: str | Sequence[str] | None = None, shape: Any = None,
        default_value: Any = "",
    ) -> None:  # fmt: skip
        self._table = table
        super().__init__(tensor_key, shape_keys, shape, default_value)

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return what the table has for the feature."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class SparseTensor(ItemHandler):
    """A sparse vector or matrix of two features: the places of values, and the values.

    Parameters
    ----------
    indices_key, values_key : str, default "indices" and "values"
    shape_key : str, optional
        The key of a feature that says how long it is.
    shape : list of int, optional
        Its shape, of one dimension. Without any shape it has the length that the values have.
    densify : bool, default False
        Whether the item is dense.
    default_value : default 0
        Fills up a dense one.
    """

    def __init__(
        self, indices_key: str | None = None, values_key: str | None = None, shape_key: str | None = None,
        shape: Any = None, densify: bool = False, default_value: Any = 0,
    ) -> None:  # fmt: skip
        self._indices_key = indices_key or "indices"
        self._values_key = values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default_value = default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the sparse tensor, or the dense one."""
        places = _dense(keys_to_tensors[self._indices_key], 0)
        values = keys_to_tensors[self._values_key]
        shape = self._shape
        if self._shape_key:
            shape = _dense(keys_to_tensors[self._shape_key], 0)
        elif shape is None:
            shape = values.dense_shape
        shape = cast(reshape(shape, [-1]), as_dtype("int64"))
        made = _Sparse(
            expand_dims(cast(places, as_dtype("int64")), -1),
            values.values if isinstance(values, _Sparse) else values,
            shape,
        )
        return sparse_tensor_to_dense(made, self._default_value) if self._densify else made


class Image(ItemHandler):
    """A picture: a file of it, or its pixels.

    Parameters
    ----------
    image_key : str, default "image/encoded"
    format_key : str, default "image/format"
        The feature that says which: ``"raw"`` (or ``"RAW"``) means pixels; files are told apart by what is in them.
    shape : list of int, optional
        The picture's shape: needed of pixels.
    channels : int, default 3
    dtype : dtype, default uint8
    repeated : bool, default False
        Whether the feature has several pictures, of one size.
    dct_method : str, default ""
        Accepted.
    """

    def __init__(
        self, image_key: str | None = None, format_key: str | None = None, shape: Any = None, channels: int = 3,
        dtype: Any = uint8, repeated: bool = False, dct_method: str = "",
    ) -> None:  # fmt: skip
        del dct_method
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape = shape
        self._channels = channels
        self._dtype = as_dtype(dtype)
        self._repeated = repeated

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """Return the picture, or the pictures."""
        given, kind = keys_to_tensors[self._image_key], keys_to_tensors[self._format_key]
        if self._repeated:
            return map_fn(lambda one: self._decode(one, kind), _dense(given, b""), dtype=self._dtype)
        return self._decode(given, kind)

    def _decode(self, data: Any, kind: Any) -> Any:
        raw = logical_or(equal(kind, "raw"), equal(kind, "RAW"))
        image = cond(
            raw, lambda: decode_raw(data, self._dtype),
            lambda: cast(decode_image(data, channels=self._channels), self._dtype),
        )  # fmt: skip
        if self._shape is not None:
            return reshape(image, self._shape)
        image.set_shape([None, None, self._channels])
        return image


class TFExampleDecoder(DataDecoder):
    """Makes items of serialized Examples.

    Parameters
    ----------
    keys_to_features : dict of str to FixedLenFeature, VarLenFeature, ...
        As of `tf.parse_single_example`.
    items_to_handlers : dict of str to ItemHandler
    """

    def __init__(self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]) -> None:
        self._keys_to_features = dict(keys_to_features)
        self._items_to_handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """Return the names of all items."""
        return list(self._items_to_handlers)

    def decode(self, data: Any, items: Sequence[str] | None = None) -> list[Any]:
        """Return the tensors of items.

        Parameters
        ----------
        data : Tensor of a string
            A serialized Example.
        items : list of str, optional
            Default: all.
        """
        example = parse_single_example(data, self._keys_to_features)
        for key, feature in self._keys_to_features.items():
            if isinstance(feature, FixedLenFeature):
                example[key] = reshape(example[key], feature.shape)
        made = []
        for item in self._items_to_handlers if items is None else items:
            handler = self._items_to_handlers[item]
            made.append(handler.tensors_to_item({key: example[key] for key in handler.keys}))
        return made
