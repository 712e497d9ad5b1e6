"""Elements as PyTorch tensors, which share their memory."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from queuecore._core.device.lease import lease_at
from queuecore._core.stream.stream import Above, Refused
from queuecore._torch.package import torch
from queuecore.errors import DtypeError
from queuecore.ragged import Ragged, Sparse

__all__ = ["DeviceElements", "ElementTensors", "RaggedTensors", "tensors"]

# Dtypes of the package ml_dtypes that have the same names in PyTorch: their arrays are passed as raw bytes.
_NAMED = ("bfloat16", "float8_")
_RAW: dict[int, Any] = {1: np.uint8, 2: np.int16}


class RaggedTensors(NamedTuple):
    """Rows of different lengths, as tensors: row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``.

    `tensors` makes it from a `queuecore.Ragged`. ``torch.nested.nested_tensor_from_jagged(*rows)`` makes a nested
    tensor of it; that part of PyTorch is a prototype, so `tensors` doesn't call it.

    Attributes
    ----------
    values : Tensor or RaggedTensors
        The values of all rows, one after the other.
    row_splits : Tensor of int64 or int32
        The bounds of rows among the values: one more than there are rows.
    """

    values: Any
    row_splits: Any


def tensors(element: Any) -> Any:
    """Return an element with tensors in the place of arrays, which share their memory.

    Parameters
    ----------
    element : array, `Ragged`, `Sparse`, or a dict or tuple of them, nested
        An element of a dataset's iterator, a queue's ``dequeue`` or a lease, with arrays of NumPy or CuPy.

    Returns
    -------
    structure of Tensor
        Dicts stay dicts, tuples stay tuples, also named ones. For each part:

        - An array becomes a tensor of the same memory, shape and dtype. As long as the tensor or a view of it exists,
          so does the array: the memory of a batch is not used again before.
        - A NumPy scalar becomes a tensor of no dimensions, a copy.
        - Strings become `bytes` in lists, as of ``torch.utils.data.default_collate``; one string is `bytes`.
        - A `Ragged` becomes `RaggedTensors`; a `Sparse` a ``torch.sparse_coo_tensor``, whose indices are checked.
        - Arrays on a device are passed by DLPack, without a copy. PyTorch's current stream waits for the stream that
          they came in, and their memory is used again behind both.
        - All other objects, such as tensors, stay as they are.

    Raises
    ------
    TypeError
        If PyTorch has no such dtype (structured arrays, times, float128).
    DtypeError
        If the values of a `Sparse` are strings.

    Notes
    -----
    An array is copied if sharing it is wrong or impossible: an array that can't be written to, since a tensor always
    can (an operation in place must not change the arrays that a `cache` keeps); an array in another byte order; an
    array with strides that tensors can't have. All other NumPy arrays are shared. The dtypes uint16, uint32 and uint64
    stay, though PyTorch has few operations on them; dtypes of ``ml_dtypes`` become those of the same name.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.torch import tensors
    >>> batch = {"x": np.zeros(2, np.float32), "name": (b"a", np.int64(3))}
    >>> tensors(batch)
    {'x': tensor([0., 0.]), 'name': (b'a', tensor(3))}
    >>> tensors(batch)["x"].data_ptr() == batch["x"].ctypes.data
    True
    """
    if isinstance(element, np.ndarray):
        return _tensor(element)
    if isinstance(element, dict):
        return {name: tensors(part) for name, part in element.items()}
    if isinstance(element, tuple):
        parts = [tensors(part) for part in element]
        kind: Any = type(element)
        return kind(*parts) if hasattr(element, "_fields") else tuple(parts)
    if isinstance(element, np.generic):
        return element if element.dtype.kind in "SU" else _tensor(np.array(element))
    if isinstance(element, Ragged):
        if element.dtype.kind == "S":
            return element.to_list()
        return RaggedTensors(tensors(element.values), _tensor(element.row_splits))
    if isinstance(element, Sparse):
        if isinstance(element.values, Ragged):
            raise DtypeError("a Sparse of strings has no tensor: take its values and indices one by one")
        shape = tuple(element.dense_shape.tolist())
        return torch.sparse_coo_tensor(
            _tensor(element.indices).T, _tensor(element.values), shape, check_invariants=True
        )
    if hasattr(element, "__dlpack__") and not isinstance(element, torch.Tensor):
        return _shared(element)
    return element


def _shared(array: Any) -> Any:
    tensor = torch.from_dlpack(array)
    # From now on PyTorch's current stream, which waits for CuPy's, may read the memory of the batch.
    lease = lease_at(tensor.data_ptr()) if tensor.is_cuda and tensor.numel() else None
    if lease is not None:
        stream = torch.cuda.current_stream(tensor.device)
        lease.record_stream(stream, stream.cuda_stream)
    return tensor


def _tensors_or_not(element: Any) -> Any:
    """Return an element as tensors, or its refusal, after which the iterator goes on with the next element."""
    try:
        return tensors(element)
    except TypeError as error:
        return Refused(error)


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    dtype = array.dtype
    if dtype.kind in "SUO":
        return array.tolist()
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    if not array.flags.writeable:
        array = array.copy()
    if dtype.name.startswith(_NAMED) and hasattr(torch, dtype.name):
        return _tensor(array.view(_RAW[dtype.itemsize])).view(getattr(torch, dtype.name))
    try:
        return torch.from_numpy(array)
    except ValueError:  # strides
        return torch.from_numpy(array.copy(order="C"))


class ElementTensors(Above):
    """The elements of an iterator, as tensors.

    Parameters
    ----------
    iterator : queuecore.data.Iterator
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def _step(self) -> tuple[Any, Any]:
        return self._iterator, _tensors_or_not

    def __getattr__(self, name: str) -> Any:
        # state_dict, load_state_dict, stats, close: all methods of the iterator.
        if name == "_iterator":
            raise AttributeError(name)
        return getattr(self._iterator, name)


class DeviceElements(ElementTensors):
    """Elements on a device, handed over in PyTorch's current stream, which need not be CuPy's current one."""

    def __next__(self) -> Any:
        cupy = sys.modules.get("cupy")  # the maker of CuPy arrays has imported it; on the host plane there are none
        if cupy is None or not torch.cuda.is_available():
            return super().__next__()
        with cupy.cuda.Stream.from_external(torch.cuda.current_stream()):
            return super().__next__()
