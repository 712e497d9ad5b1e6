"""Dtypes that NumPy lacks: bfloat16, from the package `ml_dtypes`, which only its users need."""

from __future__ import annotations

from typing import Any

import numpy as np

from queuecore.errors import UnimplementedError

__all__ = ["as_dtype", "is_bfloat16", "kind_of"]


def as_dtype(value: Any) -> np.dtype[Any]:
    """Return what `numpy.dtype` returns; the word ``"bfloat16"`` imports the package that makes it one.

    Raises
    ------
    TypeError, ValueError
        As `numpy.dtype`.
    UnimplementedError
        If the package is missing.
    """
    if isinstance(value, str) and value == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise UnimplementedError(
                "bfloat16 is a dtype of the ml_dtypes package, which isn't here: pip install ml_dtypes"
            ) from error
        value = ml_dtypes.bfloat16
    dtype: np.dtype[Any] = np.dtype(value)
    return dtype


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is bfloat16. To NumPy it is one of raw bytes, so the name decides."""
    return dtype.kind == "V" and dtype.itemsize == 2 and dtype.type.__name__ == "bfloat16"


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return NumPy's letter for the kind of a dtype; bfloat16 has the letter of floats."""
    return "f" if is_bfloat16(dtype) else dtype.kind
