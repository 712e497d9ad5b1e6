"""``tf.contrib.training``: what of it feeds a training loop."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._input.batches import bucket, bucket_by_sequence_length
from queuecore.tf1._input.sampling import rejection_sample, stratified_sample
from queuecore.tf1._input.sequences import (
    NextQueuedSequenceBatch,
    SequenceQueueingStateSaver,
    batch_sequences_with_states,
)
from queuecore.tf1._ops.resampling import resample_at_rate, weighted_resample

__all__ = [
    "HParams",
    "NextQueuedSequenceBatch",
    "SequenceQueueingStateSaver",
    "batch_sequences_with_states",
    "bucket",
    "bucket_by_sequence_length",
    "rejection_sample",
    "resample_at_rate",
    "stratified_sample",
    "weighted_resample",
]

_ASSIGNMENT = re.compile(r"\s*(\w+)(?:\[(\d+)\])?\s*=\s*(\[[^\]]*\]|[^,]*)\s*(?:,|$)")


class HParams:
    """Numbers and words that a program's caller may change, as attributes.

    Parameters
    ----------
    **kwargs
        Their first values, which decide their types. A list's items have one type.

    Raises
    ------
    ValueError
        If a list is empty.

    Examples
    --------
    >>> import queuecore.tf1 as tf
    >>> hparams = tf.contrib.training.HParams(batch_size=32, rates=[0.1, 0.2])
    >>> hparams.parse("batch_size=64,rates=[1,2]").values()
    {'batch_size': 64, 'rates': [1.0, 2.0]}
    """

    def __init__(self, **kwargs: Any) -> None:
        self._types: dict[str, tuple[type, bool]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add one. `ValueError`: the name is taken, or the value is an empty list."""
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        several = isinstance(value, (list, tuple))
        if several and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._types[name] = (type(value[0]) if several else type(value), several)
        setattr(self, name, list(value) if several else value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Set one that is there.

        Raises
        ------
        KeyError
            If it isn't there.
        ValueError
            If the value has another type, or is a list instead of one value, or one value instead of a list.
        """
        kind, several = self._types[name]
        if isinstance(value, (list, tuple)) != several:
            wanted = "pass a list for multi-valued" if several else "not pass a list for single-valued"
            raise ValueError(f"Must {wanted} parameter: {name}")
        cast = [_cast(name, kind, one) for one in value] if several else _cast(name, kind, value)
        setattr(self, name, cast)

    def del_hparam(self, name: str) -> None:
        """Remove one, if it is there."""
        if self._types.pop(name, None) is not None:
            delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Set several, of a text such as ``"a=1,b=[2,3],c[0]=4"``; return itself.

        Raises
        ------
        ValueError
            If one isn't there, comes twice, or has another type.
        """
        position = 0
        pairs = set()
        while position < len(values):
            found = _ASSIGNMENT.match(values, position)
            if found is None or found.end() == position:
                raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
            position = found.end()
            name, index, text = found[1], found[2], found[3].strip()
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            if (name, index) in pairs:
                raise ValueError(f"Multiple assignments to variable {name!r} in {values}")
            pairs.add((name, index))
            kind, several = self._types[name]
            if index is not None:
                items = list(getattr(self, name)) if several else []
                if int(index) >= len(items):
                    raise ValueError(f"{name}[{index}] isn't there: {values}")
                items[int(index)] = _read(name, kind, text)
                setattr(self, name, items)
            elif text.startswith("["):
                self.set_hparam(name, [_read(name, kind, one.strip()) for one in text[1:-1].split(",") if one.strip()])
            else:
                self.set_hparam(name, _read(name, kind, text))
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Set several that are there; return itself. Errors are those of `set_hparam`."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Set several, of a JSON object; return itself. Errors are those of `set_hparam`."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Return all as a JSON object, without functions."""
        kept = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(kept, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Return one, or the default if it isn't there."""
        return getattr(self, key) if key in self._types else default

    def __contains__(self, key: str) -> bool:
        """Return whether it is there."""
        return key in self._types

    def __repr__(self) -> str:
        """Return all values."""
        return f"HParams({', '.join(f'{name}={value!r}' for name, value in sorted(self.values().items()))})"


def _read(name: str, kind: type, text: str) -> Any:
    if kind is bool:
        words = {"true": True, "1": True, "false": False, "0": False}
        if text.lower() not in words:
            raise ValueError(f"Could not parse hparam {name}: {text!r} is no boolean")
        return words[text.lower()]
    try:
        return text if kind in (str, type(None)) else kind(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Could not parse hparam of type {kind.__name__!r} with value {text!r}: {name}") from error


def _cast(name: str, kind: type, value: Any) -> Any:
    if value is None or kind is type(None) or isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"Could not cast hparam {name!r} of type {kind.__name__!r} from value {value!r}")


__getattr__ = _refusing("tf.contrib.training")
