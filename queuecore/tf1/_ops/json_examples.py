"""Examples as JSON: protobuf's text for messages, turned into the messages' bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.graph import Tensor, apply_op, convert_to_tensor
from queuecore.tf1._graph.values import as_value, string
from queuecore.tf1._protos.messages import Example

__all__ = ["decode_json_example"]


def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Return the bytes of ``tf.train.Example`` messages that are written as JSON.

    Parameters
    ----------
    json_examples : Tensor of strings
        Of any shape; each is one message in protobuf's JSON.
    name : str, optional

    Returns
    -------
    Tensor of strings
        Of the same shape, for `parse_example`.

    Raises
    ------
    InvalidArgumentError
        In a run, if a string is no JSON, or is not that of an Example.
    """
    strings = convert_to_tensor(json_examples, string)

    def kernel(value: Any) -> Any:
        texts = np.asarray(value, object)
        messages = np.empty(texts.size, object)
        messages[:] = [_message(one) for one in texts.ravel()]
        return as_value(messages.reshape(texts.shape))

    return apply_op("DecodeJSONExample", [strings], string, strings.shape, kernel, name)


def _message(text: bytes) -> bytes:
    try:
        told = json.loads(text)
        example = Example()
        for feature, lists in _fields(_fields(told, "features").get("features"), "feature").get("feature", {}).items():
            kind, values = _list(feature, lists)
            if kind:
                getattr(example.features.feature[feature], kind).value.extend(values)
            else:
                example.features.feature[feature].SetInParent()
        return example.SerializeToString()
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"Error while parsing JSON: {error}") from error


def _fields(message: Any, *field_names: str) -> Mapping[str, Any]:
    # The fields of an object that are there; `null` is none.
    if message is None:
        return {}
    if not isinstance(message, dict):
        raise ValueError(f"expected an object, got {message!r:.80}")
    strange = [one for one in message if one not in field_names]
    if strange:
        raise ValueError(f"no such field: {strange[0]!r}; there are {', '.join(field_names)}")
    return {key: one for key, one in message.items() if one is not None}


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bytesList": ("bytes_list", lambda one: _bytes(one)),
    "floatList": ("float_list", lambda one: _float(one)),
    "int64List": ("int64_list", lambda one: _integer(one)),
}
_KINDS |= {kind: (kind, check) for kind, check in _KINDS.values()}


def _list(feature: str, told: Any) -> tuple[str, list[Any]]:
    lists = _fields(told, *_KINDS)
    if len(lists) > 1:
        raise ValueError(f"feature {feature!r} has more than one list")
    for key, one in lists.items():
        kind, check = _KINDS[key]
        values = _fields(one, "value").get("value", [])
        if not isinstance(values, list):
            raise ValueError(f"feature {feature!r}: expected a list, got {values!r:.80}")
        return kind, [check(value) for value in values]
    return "", []


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"expected a string in base64, got {value!r:.80}")
    plain = value.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"expected a number, got {value!r:.80}")
    return float(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"expected a whole number, got {value!r:.80}")
    number = int(value)
    if number != (value if not isinstance(value, str) else number):
        raise ValueError(f"expected a whole number, got {value!r}")
    return number
