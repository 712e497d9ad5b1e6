"""``slim.parallel_reader``: several readers that fill one queue."""

from __future__ import annotations

from typing import Any

from queuecore.tf1 import gfile
from queuecore.tf1._graph.graph import Tensor, get_default_graph
from queuecore.tf1._graph.values import string
from queuecore.tf1._input.producers import string_input_producer
from queuecore.tf1._input.queues import FIFOQueue, QueueBase, RandomShuffleQueue
from queuecore.tf1._input.runners import fill
from queuecore.tf1._ops.math import add_n

__all__ = ["ParallelReader", "get_data_files", "parallel_read", "single_pass_read"]


class ParallelReader:
    """Several readers that take files from one queue, and put records into another one.

    Parameters
    ----------
    reader_class : class
        That of the readers, such as `tf.TFRecordReader`.
    common_queue : QueueBase
        For keys and values.
    num_readers : int, default 4
    reader_kwargs : dict, optional
        Arguments of the readers.

    Raises
    ------
    TypeError
        If `common_queue` is no queue.
    """

    def __init__(
        self, reader_class: Any, common_queue: QueueBase, num_readers: int = 4, reader_kwargs: Any = None
    ) -> None:
        if not isinstance(common_queue, QueueBase):
            raise TypeError(f"common_queue must be a queue, not {common_queue!r}")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    @property
    def common_queue(self) -> QueueBase:
        """The queue of records."""
        return self._common_queue

    def _configure(self, queue: Any) -> None:
        fill(self._common_queue, [self._common_queue.enqueue(one.read(queue)) for one in self._readers])

    def read(self, queue: Any, name: str | None = None) -> Any:
        """Return the next record's key and value. A runner has the readers read.

        Parameters
        ----------
        queue : QueueBase
            Of files' names.
        name : str, optional
        """
        self._configure(queue)
        return self._common_queue.dequeue(name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """Return keys and values of the next records: `num_records`, or fewer at the end."""
        self._configure(queue)
        return self._common_queue.dequeue_up_to(num_records, name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of all readers' records."""
        return add_n([one.num_records_produced() for one in self._readers], name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of files that readers are through with."""
        return add_n([one.num_work_units_completed() for one in self._readers], name)


def parallel_read(
    data_sources: Any, reader_class: Any, num_epochs: int | None = None, num_readers: int = 4,
    reader_kwargs: Any = None, shuffle: bool = True, dtypes: Any = None, capacity: int = 256,
    min_after_dequeue: int = 128, seed: int | None = None, scope: str | None = None,
) -> Any:  # fmt: skip
    """Return the key and the value of the next record of files.

    Parameters
    ----------
    data_sources : str or list of str
        Names of files, or patterns of them.
    reader_class : class
    num_epochs : int, optional
        Default: without end.
    num_readers : int, default 4
    reader_kwargs : dict, optional
        Arguments of the readers.
    shuffle : bool, default True
        Whether files and records come in random order.
    dtypes : list of dtype, optional
        Default: strings.
    capacity, min_after_dequeue : int, default 256 and 128
        How many records the queue holds, and at least holds to choose from.
    seed : int, optional
    scope : str, optional

    Raises
    ------
    ValueError
        If there are no files.
    """
    files = get_data_files(data_sources)
    with get_default_graph().name_scope(scope or "parallel_read"):
        names = string_input_producer(files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames")
        kinds = dtypes or [string, string]
        common: QueueBase
        if shuffle:
            common = RandomShuffleQueue(
                capacity, min_after_dequeue, kinds, [()] * len(kinds), seed=seed, name="common_queue"
            )
        else:
            common = FIFOQueue(capacity, kinds, [()] * len(kinds), name="common_queue")
        return ParallelReader(reader_class, common, num_readers, reader_kwargs).read(names)


def single_pass_read(data_sources: Any, reader_class: Any, reader_kwargs: Any = None, scope: str | None = None) -> Any:
    """Return the key and the value of the next record of files, each of which is read once, in order.

    Parameters and errors are those of `parallel_read`.
    """
    files = get_data_files(data_sources)
    with get_default_graph().name_scope(scope or "single_pass_read"):
        names = string_input_producer(files, num_epochs=1, shuffle=False, capacity=1, name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names)


def get_data_files(data_sources: Any) -> list[str]:
    """Return the names of files that names and patterns stand for.

    Parameters
    ----------
    data_sources : str or list of str
        With ``*``, ``?`` or ``[`` it is a pattern.

    Raises
    ------
    ValueError
        If there are none.
    """
    if isinstance(data_sources, (list, tuple)):
        files = [name for one in data_sources for name in get_data_files(one)]
    elif any(one in data_sources for one in "*?["):
        files = gfile.Glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files
