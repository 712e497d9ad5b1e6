"""JAX: elements as JAX arrays, and an iterator that puts them on devices ahead of the loop.

It needs the package ``jax``, and nothing else in queuecore imports it.

Examples
--------
>>> import numpy as np, queuecore as qc
>>> from queuecore.jax import device_iterator
>>> ds = qc.data.Dataset.from_tensor_slices({"x": np.arange(6, dtype=np.float32).reshape(3, 2), "y": [1, 0, 1]})
>>> for batch in device_iterator(ds.batch(2)):
...     print(batch["x"].shape, batch["y"].tolist())
(2, 2) [1, 0]
(1, 2) [1]
"""

from __future__ import annotations

import importlib
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, SupportsIndex

import numpy as np

from queuecore._checks.checks import check_int
from queuecore.errors import DtypeError
from queuecore.ragged import Ragged, Sparse

try:
    # Not by an import statement: type checkers would take this file for the package.
    jax: Any = importlib.import_module("jax")
except ModuleNotFoundError as _error:
    if _error.name != "jax":
        raise
    raise ImportError("queuecore.jax needs JAX, which isn't here: pip install jax", name="jax") from _error

__all__ = ["DeviceIterator", "RaggedArrays", "arrays", "device_iterator"]


class RaggedArrays(NamedTuple):
    """Rows of different lengths, as JAX arrays: row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``.

    `arrays` makes it from a `queuecore.Ragged`. To JAX it is a tree of arrays, like other tuples.

    Attributes
    ----------
    values : jax.Array or RaggedArrays
        The values of all rows, one after the other.
    row_splits : jax.Array
        The bounds of rows among the values: one more than there are rows.
    """

    values: Any
    row_splits: Any


def arrays(element: Any, sharding: Any = None) -> Any:
    """Return an element with copies of its arrays as JAX arrays.

    Parameters
    ----------
    element : array, `Ragged`, `Sparse`, or a dict or tuple of them, nested
        An element of a dataset's iterator, a queue's ``dequeue`` or a lease, with arrays of NumPy or CuPy.
    sharding : jax.Device or jax.sharding.Sharding, optional
        The place of the JAX arrays. Default: JAX's default device; arrays on a device stay there. With a sharding over
        the devices of several processes, an array is this process's part of the whole.

    Returns
    -------
    structure of jax.Array
        Dicts stay dicts, tuples stay tuples, also named ones. Numbers become arrays of no dimensions, a `Ragged`
        becomes `RaggedArrays`, a `Sparse` a ``jax.experimental.sparse.BCOO``. JAX has no strings: they become `bytes`
        in lists, and one string is `bytes`. All other objects stay as they are.

    Raises
    ------
    TypeError
        If JAX has no such dtype (structured arrays, times, float128).
    DtypeError
        If the values of a `Sparse` are strings.
    ValueError
        From JAX, if an array can't be divided as `sharding` says. ``batch(..., drop_remainder=True)`` makes all batches
        of one size.

    Notes
    -----
    JAX takes arrays for constant and may go on using a NumPy array's memory as its own, on a CPU for good, even if
    asked not to. The memory of a batch is used again for another one. So JAX always gets a copy: of a NumPy array in
    host memory of its own, which JAX then copies to the device while Python goes on; of an array on a device, a copy on
    that device, for which this function waits. The element may be dropped as soon as the function returns.

    Unless ``jax_enable_x64`` is set, 64-bit numbers become 32-bit ones, as everywhere in JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from queuecore.jax import arrays
    >>> arrays({"x": np.zeros(2, np.float32), "name": (b"a", np.int32(3))})
    {'x': Array([0., 0.], dtype=float32), 'name': (b'a', Array(3, dtype=int32))}
    """
    if isinstance(element, dict):
        return {name: arrays(part, sharding) for name, part in element.items()}
    if isinstance(element, tuple):
        parts = [arrays(part, sharding) for part in element]
        kind: Any = type(element)
        return kind(*parts) if hasattr(element, "_fields") else tuple(parts)
    if isinstance(element, np.ndarray | np.generic):
        return _array(element, sharding)
    if isinstance(element, Ragged):
        if element.dtype.kind == "S":
            return element.to_list()
        return RaggedArrays(arrays(element.values, sharding), _array(element.row_splits, sharding))
    if isinstance(element, Sparse):
        if isinstance(element.values, Ragged):
            raise DtypeError("a Sparse of strings has no JAX array: take its values and indices one by one")
        sparse = importlib.import_module("jax.experimental.sparse")
        parts = [_array(element.values, sharding), _array(element.indices, sharding)]
        return sparse.BCOO(tuple(parts), shape=tuple(element.dense_shape.tolist()))
    if hasattr(element, "__dlpack__") and not isinstance(element, jax.Array):
        # Waits for the copy: until it is done, the source may not be written to.
        made = jax.numpy.array(jax.dlpack.from_dlpack(element), copy=True).block_until_ready()
        return made if sharding is None else jax.device_put(made, sharding)
    return element


def _array(array: Any, sharding: Any) -> Any:
    dtype = array.dtype
    if dtype.kind in "SUO":
        return array.tolist()
    own = np.array(array, dtype.newbyteorder("="), order="C")
    if isinstance(sharding, jax.sharding.Sharding) and not sharding.is_fully_addressable:
        return jax.make_array_from_process_local_data(sharding, own)
    return jax.device_put(own, sharding)


class DeviceIterator:
    """Elements as JAX arrays, put on their devices ahead of the loop. Made by `device_iterator`.

    Parameters
    ----------
    iterator : queuecore.data.Iterator
        The iterator whose elements are copied.
    sharding : jax.Device or jax.sharding.Sharding or None
        The place of the arrays, as in `arrays`.
    buffers : int
        The number of elements on devices at a time, 1 or more.

    Notes
    -----
    ``next()`` waits for elements of `iterator` without the GIL, and raises what that iterator raises. One thread at a
    time may use it. It is a context manager that closes itself.
    """

    def __init__(self, iterator: Any, sharding: Any, buffers: int) -> None:
        self._iterator = iterator
        self._sharding = sharding
        self._buffers = buffers
        # Elements on devices, each with the place after it.
        self._ahead: deque[tuple[Any, dict[str, Any]]] = deque()
        self._place: dict[str, Any] = iterator.state_dict()
        # The element that is being copied. It stays here until it is in `_ahead`, so Ctrl-C loses no element.
        self._taken: list[Any] = []
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        """Return this iterator."""
        return self

    def __next__(self) -> Any:
        """Return the next element; an error comes in its place, after all elements before it."""
        while self._error is None and len(self._ahead) < self._buffers:
            try:
                if not self._taken:
                    self._taken.extend(itertools.islice(self._iterator, 1))
                if not self._taken:
                    self._error = StopIteration()
                    break
                entry = arrays(self._taken[0], self._sharding), self._iterator.state_dict()
            except Exception as error:
                self._error = error
                self._taken = []
            else:
                self._taken = []
                self._ahead.append(entry)
        if not self._ahead:
            ended, self._error = self._error, None
            assert ended is not None
            raise ended
        element, self._place = self._ahead[0]
        del self._ahead[0]
        return element

    def state_dict(self) -> dict[str, Any]:
        """Return the place after the last element delivered: elements ahead on devices don't count."""
        return self._place

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place; see `queuecore.data.Iterator.load_state_dict`."""
        self._iterator.load_state_dict(state)
        self._ahead.clear()
        self._taken = []
        self._error = None
        self._place = self._iterator.state_dict()

    def stats(self) -> dict[str, int]:
        """Return counters of the iterator below; see `queuecore.data.Iterator.stats`."""
        made: dict[str, int] = self._iterator.stats()
        return made

    def close(self, timeout: float | None = 1.0) -> None:
        """Stop the threads of this iterator; see `queuecore.data.Iterator.close`."""
        self._ahead.clear()
        self._iterator.close(timeout)

    def __enter__(self) -> Self:
        """Return this iterator."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close this iterator."""
        self.close()


def device_iterator(dataset: Iterable[Any], sharding: Any = None, buffers: SupportsIndex = 2) -> DeviceIterator:
    """Iterate over a dataset with JAX arrays, some of which are put on their devices ahead of the loop.

    Parameters
    ----------
    dataset : queuecore.data.Dataset
        A dataset, or the result of its ``prefetch_to_device``: then a native thread copies to the device, and JAX gets
        copies from there.
    sharding : jax.Device or jax.sharding.Sharding, optional
        The place of the arrays, as in `arrays`: the same for all parts of an element.
        ``NamedSharding(mesh, PartitionSpec("batch"))`` divides batches among the devices of a mesh.
    buffers : int, default 2
        The number of elements on devices at a time, including the one that is delivered. JAX copies while the loop goes
        on; 1: no element is copied before it is asked for.

    Returns
    -------
    DeviceIterator
        An iterator with ``state_dict``, ``load_state_dict``, ``stats`` and ``close`` of `queuecore.data.Iterator`.

    Raises
    ------
    InvalidArgumentError
        If `buffers` is less than 1 or no integer.

    Notes
    -----
    Keeping the state takes some 20 microseconds an element. One thread at a time may use the iterator.

    Examples
    --------
    >>> import queuecore as qc
    >>> from queuecore.jax import device_iterator
    >>> with device_iterator(qc.data.Dataset.range(5).batch(2)) as it:
    ...     first, state = next(it), it.state_dict()
    >>> with device_iterator(qc.data.Dataset.range(5).batch(2)) as it:
    ...     it.load_state_dict(state)
    ...     print(first, *it)
    [0 1] [2 3] [4]
    """
    return DeviceIterator(iter(dataset), sharding, check_int(buffers, "buffers", 1))
