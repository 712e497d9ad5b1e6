"""``slim.dataset``: facts about records."""

from __future__ import annotations

from typing import Any

__all__ = ["Dataset"]


class Dataset:
    """Facts about records, for a `DatasetDataProvider`.

    Parameters
    ----------
    data_sources : str or list of str
        Names of files, or patterns of them.
    reader : class
        That of a reader, such as `tf.TFRecordReader`.
    decoder : DataDecoder
        Makes items of a record.
    num_samples : int
        How many records there are.
    items_to_descriptions : dict of str to str
    **kwargs
        Further attributes, such as ``num_classes``.
    """

    def __init__(
        self, data_sources: Any, reader: Any, decoder: Any, num_samples: Any, items_to_descriptions: Any, **kwargs: Any
    ) -> None:
        kwargs.update(
            data_sources=data_sources, reader=reader, decoder=decoder, num_samples=num_samples,
            items_to_descriptions=items_to_descriptions,
        )  # fmt: skip
        self.__dict__.update(kwargs)

    def __getattr__(self, name: str) -> Any:
        """Raise: it was given no such attribute."""
        raise AttributeError(f"this Dataset was made without {name!r}")
