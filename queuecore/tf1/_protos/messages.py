"""Example messages: programs fill them in, and write them into TFRecord files.

They have the attributes, methods and wire layout of protobuf's messages, but are independent of protobuf, which need
not be installed.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np

from queuecore.errors import ProtoError

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FieldsMessage",
    "FloatList",
    "Int64List",
    "Message",
    "MessageField",
    "SequenceExample",
]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MASK = (1 << 64) - 1
_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


# Wire


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _sized(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtoError("Error parsing message: a number is cut off, or too long")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, position
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    # The number, wire type and value of each field; a value that is no number is a view of its bytes.
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not number or tag >> 32:
            raise ProtoError("Error parsing message: a field has no number, or too large a one")
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ProtoError(f"Error parsing message: a field of the unknown type {kind}")
        if size > len(data) - position:
            raise ProtoError("Error parsing message: a field is cut off")
        yield number, kind, data[position : position + size]
        position += size


# Messages


class Message:
    """The base class of all messages. Make one of the classes below, not this one.

    Parameters
    ----------
    **fields
        The values of fields, by name: a message of the field's class or a mapping, a mapping for a map, or an iterable
        for a list. None leaves a field unset.

    Raises
    ------
    ValueError
        If the message has no field of a name.
    """

    __slots__ = ("_changed", "_set", "_values")

    # The number of each field, and the function that makes its value.
    _FIELDS: ClassVar[dict[str, tuple[int, Callable[[Callable[[], None]], Any]]]] = {}
    # The name of the oneof; empty if there is none.
    _ONEOF: ClassVar[str] = ""
    # The fields that are in the oneof; empty: all.
    _CHOICES: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **fields: Any) -> None:
        self._values: dict[str, Any] = {}
        self._set = False
        self._changed: Callable[[], None] | None = None
        for name, value in fields.items():
            if name not in self._FIELDS:
                raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
            if value is None:
                continue
            field = self._field(name)
            if isinstance(field, Message):
                if isinstance(value, Mapping):
                    value = type(field)(**value)
                field.CopyFrom(value)
                field._touch()
            else:
                field._fill(value)

    def _field(self, name: str) -> Any:
        found = self._values.get(name)
        if found is None:
            make = self._FIELDS[name][1]
            found = self._values[name] = make(lambda: self._touched(name))
        return found

    def _touched(self, name: str) -> None:
        # A field was set, so this message is set in its parent, and other fields of a oneof are unset.
        if self._ONEOF and self._chosen(name):
            for other in [one for one in self._values if one != name and self._chosen(one)]:
                self._values.pop(other)._drop()
        self._touch()

    def _chosen(self, name: str) -> bool:
        return not self._CHOICES or name in self._CHOICES

    def _touch(self) -> None:
        self._set = True
        if self._changed is not None:
            self._changed()

    def _drop(self) -> None:
        # It has no parent any more.
        self._changed = None

    @classmethod
    def _part(cls, changed: Callable[[], None]) -> Self:
        made = cls()
        made._changed = changed
        return made

    def _check_name(self, name: str) -> None:
        if name not in self._FIELDS:
            raise ValueError(f'Protocol message {type(self).__name__} has no field "{name}".')

    def _present(self) -> list[tuple[str, Any]]:
        found = [(name, self._values[name]) for name in self._FIELDS if name in self._values]
        return [(name, value) for name, value in found if (value._set if isinstance(value, Message) else len(value))]

    # Bytes

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:  # noqa: N802
        """Return its bytes. Entries of maps are sorted by key, with `deterministic` and without."""
        del deterministic
        return b"".join(
            _sized(self._FIELDS[name][0], value.SerializeToString())
            if isinstance(value, Message)
            else value._encoded(self._FIELDS[name][0])
            for name, value in self._present()
        )

    SerializePartialToString = SerializeToString

    def ByteSize(self) -> int:  # noqa: N802
        """Return how many bytes it has."""
        return len(self.SerializeToString())

    @classmethod
    def FromString(cls, s: bytes) -> Self:  # noqa: N802
        """Return the message that bytes stand for.

        Raises
        ------
        ProtoError
            If the bytes are no message. Fields of unknown numbers are left out.
        """
        made = cls()
        made.MergeFromString(s)
        return made

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Become the message that bytes stand for. Return their number; errors are those of `FromString`."""
        self.Clear()
        return self.MergeFromString(serialized)

    def MergeFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Merge the message that bytes stand for into this one. Return their number; errors as of `FromString`."""
        self._merge(memoryview(serialized).cast("B"))
        return len(serialized)

    def _merge(self, data: memoryview) -> None:
        names = {number: name for name, (number, _) in self._FIELDS.items()}
        for number, kind, value in _fields(data):
            name = names.get(number)
            if name is None:
                continue
            field = self._field(name)
            if not isinstance(field, Message):
                field._decode(kind, value)
            elif kind == _BYTES:
                field._touch()
                field._merge(value)

    # Fields

    def CopyFrom(self, other: Self) -> None:  # noqa: N802
        """Become a copy of another one."""
        if other is not self:
            self.Clear()
            self.MergeFrom(other)

    def MergeFrom(self, other: Self) -> None:  # noqa: N802
        """Add what is set in another one: lists grow, entries of maps are replaced."""
        if type(other) is not type(self):
            raise TypeError(f"Parameter must be an instance of {type(self).__name__}, not {type(other).__name__}")
        for name, value in other._present():
            field = self._field(name)
            if isinstance(field, Message):
                field._touch()
                field.MergeFrom(value)
            else:
                field._fill(value)

    def Clear(self) -> None:  # noqa: N802
        """Unset all fields."""
        for name in list(self._values):
            self.ClearField(name)

    def ClearField(self, field_name: str) -> None:  # noqa: N802
        """Unset a field."""
        self._check_name(field_name)
        found = self._values.pop(field_name, None)
        if found is not None:
            found._drop()
            self._touch()

    def HasField(self, field_name: str) -> bool:  # noqa: N802
        """Return whether a field that is a message is set; `ValueError` of lists and maps."""
        self._check_name(field_name)
        found = self._field(field_name)
        if isinstance(found, _Scalar) and found.explicit:
            return len(found) > 0
        if not isinstance(found, Message):
            raise ValueError(f"{type(self).__name__}.{field_name} is repeated: it is there always, and may be empty")
        return found._set

    def WhichOneof(self, oneof_group: str) -> str | None:  # noqa: N802
        """Return the name of the field of a oneof that is set."""
        if not self._ONEOF or oneof_group != self._ONEOF:
            raise ValueError(f'Protocol message {type(self).__name__} has no oneof "{oneof_group}" field.')
        return next((name for name, _ in self._present() if self._chosen(name)), None)

    def IsInitialized(self) -> bool:  # noqa: N802
        """Return `True`: no field is required."""
        return True

    def SetInParent(self) -> None:  # noqa: N802
        """Set it in the message that it is a field of, even if it is empty."""
        self._touch()

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class and the same is set, to equal values."""
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Message)
        return self._present() == other._present()

    def __reduce__(self) -> Any:
        """Support `pickle` and `copy`."""
        return type(self).FromString, (self.SerializeToString(),)

    def __str__(self) -> str:
        """Return it as text, as protobuf writes it."""
        return "".join(line + "\n" for line in self._lines())

    __repr__ = __str__

    def _lines(self) -> list[str]:
        made: list[str] = []
        for name, value in self._present():
            made += _nested(name, value) if isinstance(value, Message) else value._shown(name)
        return made


def _nested(name: str, value: Message) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in value._lines()), "}"]


# Lists and maps: they call the function given to them when they change


class _List(MutableSequence[Any]):
    def __init__(self, changed: Callable[[], None]) -> None:
        self._items: list[Any] = []
        self._changed: Callable[[], None] | None = changed

    def _touch(self) -> None:
        if self._changed is not None:
            self._changed()

    def _drop(self) -> None:
        self._changed = None

    def _checked(self, value: Any) -> Any:
        raise NotImplementedError

    def _fill(self, values: Iterable[Any]) -> None:
        if isinstance(values, _List) and type(values) is type(self) and not isinstance(self, _Messages):
            self._items += values._items  # already checked
            self._touch()
        else:
            self.extend(values)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._items[index] = [self._checked(one) for one in value]
        else:
            self._items[index] = self._checked(value)
        self._touch()

    def __delitem__(self, index: Any) -> None:
        del self._items[index]
        self._touch()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        self._items.insert(index, self._checked(value))
        self._touch()

    def append(self, value: Any) -> None:
        self._items.append(self._checked(value))
        self._touch()

    def extend(self, values: Iterable[Any]) -> None:
        found = [] if values is None else [self._checked(one) for one in values]
        self._items += found
        self._touch()

    MergeFrom = extend

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self._items.sort(key=key, reverse=reverse)
        self._touch()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _List):
            other = other._items
        return self._items == other

    def __repr__(self) -> str:
        return repr(self._items)

    def _shown(self, name: str) -> list[str]:
        return [f"{name}: {self._word(one)}" for one in self._items]

    def _word(self, value: Any) -> str:
        return str(value)


class _Strings(_List):
    def _checked(self, value: Any) -> Any:
        if not isinstance(value, bytes):
            raise TypeError(f"{value!r:.80} has type {type(value).__name__}, but expected one of: bytes")
        return bytes(value)

    def _encoded(self, number: int) -> bytes:
        return b"".join([_sized(number, one) for one in self._items])

    def _decode(self, kind: int, value: Any) -> None:
        if kind == _BYTES:
            self._items.append(bytes(value))

    def _word(self, value: Any) -> str:
        return _quoted(value)


def _quoted(value: bytes) -> str:
    text = "".join([_ESCAPES.get(one) or (chr(one) if 32 <= one < 127 else f"\\{one:03o}") for one in value])
    return f'"{text}"'


class _Floats(_List):
    def _checked(self, value: Any) -> Any:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"{value!r:.80} has type {type(value).__name__}, but expected one of: int, float")
        with np.errstate(over="ignore"):
            return float(np.float32(value))

    def extend(self, values: Any) -> None:
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
            with np.errstate(over="ignore"):
                self._items += values.astype(np.float32).tolist()
            self._touch()
        else:
            super().extend(values)

    def _encoded(self, number: int) -> bytes:
        return _sized(number, struct.pack(f"<{len(self._items)}f", *self._items))

    def _decode(self, kind: int, value: Any) -> None:
        if kind in (_BYTES, _FIXED32):
            if len(value) % 4:
                raise ProtoError(f"Error parsing message: floats in {len(value)} bytes")
            self._items += np.frombuffer(value, "<f4").tolist()

    def _word(self, value: Any) -> str:
        return str(np.float32(value)).removesuffix(".0")


class _Integers(_List):
    def _checked(self, value: Any) -> Any:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{value!r:.80} has type {type(value).__name__}, but expected one of: int")
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{value!r:.80} has type {type(value).__name__}, but expected one of: int") from None
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError(f"Value out of range: {value}")
        return number

    def _encoded(self, number: int) -> bytes:
        items = self._items
        if min(items) >= 0 and max(items) < 128:
            return _sized(number, bytes(items))
        return _sized(number, b"".join([_varint(one & _MASK) for one in items]))

    def _decode(self, kind: int, value: Any) -> None:
        if kind == _VARINT:
            self._items.append(_signed(value))
        elif kind == _BYTES:
            at = 0
            while at < len(value):
                number, at = _read_varint(value, at)
                self._items.append(_signed(number))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class _Doubles(_Floats):
    def _checked(self, value: Any) -> Any:
        super()._checked(value)
        return float(value)

    def extend(self, values: Any) -> None:
        _List.extend(self, values)

    def _encoded(self, number: int) -> bytes:
        return _sized(number, struct.pack(f"<{len(self._items)}d", *self._items))

    def _decode(self, kind: int, value: Any) -> None:
        if kind in (_BYTES, _FIXED64):
            if len(value) % 8:
                raise ProtoError(f"Error parsing message: doubles in {len(value)} bytes")
            self._items += np.frombuffer(value, "<f8").tolist()

    def _word(self, value: Any) -> str:
        return str(value).removesuffix(".0")


class _Messages(_List):
    # A list of messages of one class.
    def __init__(self, kind: type[Message], changed: Callable[[], None]) -> None:
        super().__init__(changed)
        self._kind = kind

    def _checked(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise TypeError(f"{value!r:.80} has type {type(value).__name__}, but expected a {self._kind.__name__}")
        made = self._kind._part(self._touch)
        made.MergeFrom(value)
        return made

    def add(self, **fields: Any) -> Any:
        """Append a new one, and return it."""
        self.append(self._kind(**fields))
        return self._items[-1]

    def _encoded(self, number: int) -> bytes:
        return b"".join([_sized(number, one.SerializeToString()) for one in self._items])

    def _decode(self, kind: int, value: Any) -> None:
        if kind == _BYTES:
            self._items.append(self._kind._part(self._touch))
            self._items[-1]._merge(value)

    def _shown(self, name: str) -> list[str]:
        return [line for one in self._items for line in _nested(name, one)]


class _Map(Mapping[str, Any]):
    # Messages by name; a name that is asked for is added.
    def __init__(self, kind: type[Message], changed: Callable[[], None]) -> None:
        self._kind = kind
        self._items: dict[str, Any] = {}
        self._changed: Callable[[], None] | None = changed

    def _touch(self) -> None:
        if self._changed is not None:
            self._changed()

    def _drop(self) -> None:
        self._changed = None

    def _key(self, key: Any) -> str:
        if isinstance(key, bytes):
            key = key.decode()
        if not isinstance(key, str):
            raise TypeError(f"{key!r:.80} has type {type(key).__name__}, but expected one of: bytes, str")
        return str(key)

    def _fill(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, Mapping):
                value = self._kind(**value)
            self[key].CopyFrom(value)
        self._touch()

    MergeFrom = _fill

    def __getitem__(self, key: Any) -> Any:
        name = self._key(key)
        found = self._items.get(name)
        if found is None:
            found = self._items[name] = self._kind._part(self._touch)
            self._touch()
        return found

    get_or_create = __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ValueError("Direct assignment of submessage not allowed: use CopyFrom()")

    def __delitem__(self, key: Any) -> None:
        self._items.pop(self._key(key))._drop()
        self._touch()

    def get(self, key: Any, default: Any = None) -> Any:
        return self._items.get(self._key(key), default)

    def pop(self, key: Any) -> Any:
        found = self._items[self._key(key)]
        del self[key]
        return found

    def clear(self) -> None:
        for one in self._items.values():
            one._drop()
        self._items = {}
        self._touch()

    def __contains__(self, key: Any) -> bool:
        return isinstance(key, (str, bytes)) and self._key(key) in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Map):
            other = other._items
        return self._items == other

    def __repr__(self) -> str:
        return repr(self._items)

    def _encoded(self, number: int) -> bytes:
        entries = [(key.encode(), self._items[key]) for key in self._items]
        return b"".join(
            _sized(number, _sized(1, key) + _sized(2, value.SerializeToString()))
            for key, value in sorted(entries, key=lambda entry: entry[0])
        )

    def _decode(self, kind: int, value: Any) -> None:
        if kind != _BYTES:
            return
        key = ""
        item = self._kind._part(self._touch)
        for number, kind, part in _fields(value):
            if kind == _BYTES and number == 1:
                try:
                    key = bytes(part).decode()
                except UnicodeDecodeError as error:
                    raise ProtoError(f"Error parsing message: a key is no UTF-8: {error}") from error
            elif kind == _BYTES and number == 2:
                item._merge(part)
        self._items[key] = item
        self._touch()

    def _shown(self, name: str) -> list[str]:
        return [
            line
            for key in sorted(self._items)
            for line in [
                f"{name} {{",
                f"  key: {_quoted(key.encode())}",
                *(f"  {one}" for one in _nested("value", self._items[key])),
                "}",
            ]
        ]


# Fields with one value


class _Scalar:
    # A number, a text or bytes. Without `explicit`, the kind's zero is the same as nothing.
    def __init__(self, kind: str, explicit: bool, changed: Callable[[], None]) -> None:
        self.kind = kind
        self.explicit = explicit
        self.value: Any = _ZEROS[kind]
        self._given = False
        self._changed: Callable[[], None] | None = changed

    def _drop(self) -> None:
        self._changed = None

    def _fill(self, value: Any) -> None:
        if isinstance(value, _Scalar):
            value = value.value
        zero = _ZEROS[self.kind]
        if isinstance(zero, str) and isinstance(value, bytes):
            value = value.decode()
        fits = hasattr(value, "__float__") if isinstance(zero, float) else hasattr(value, "__index__")
        if not (isinstance(value, type(zero)) if isinstance(zero, (str, bytes)) else fits):
            raise TypeError(
                f"{value!r:.80} has type {type(value).__name__}, but expected one of: {type(zero).__name__}"
            )
        if self.kind == "float":
            with np.errstate(over="ignore"):
                value = np.float32(value)
        self.value = type(zero)(value)
        self._given = True
        if self._changed is not None:
            self._changed()

    def __len__(self) -> int:
        kept = self.value != _ZEROS[self.kind] or str(self.value) == "-0.0"
        return int(self._given and (self.explicit or kept))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Scalar) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def _encoded(self, number: int) -> bytes:
        if self.kind in _PACKED:
            code, wire = _PACKED[self.kind]
            return _varint(number << 3 | wire) + struct.pack(code, self.value)
        if isinstance(self.value, (str, bytes)):
            return _sized(number, self.value.encode() if isinstance(self.value, str) else self.value)
        return _varint(number << 3 | _VARINT) + _varint(int(self.value) & _MASK)

    def _decode(self, kind: int, value: Any) -> None:
        if self.kind in _PACKED:
            code, wire = _PACKED[self.kind]
            if kind == wire:
                self._fill(struct.unpack(code, value)[0])
        elif isinstance(self.value, (str, bytes)):
            if kind == _BYTES:
                self._fill(bytes(value) if isinstance(self.value, bytes) else bytes(value).decode(errors="replace"))
        elif kind == _VARINT:
            self._fill(_signed(value))

    def _shown(self, name: str) -> list[str]:
        if isinstance(self.value, (str, bytes)):
            return [f"{name}: {_quoted(self.value.encode() if isinstance(self.value, str) else self.value)}"]
        shown = np.float32(self.value) if self.kind == "float" else self.value
        return [f"{name}: {str(shown).removesuffix('.0') if self.kind in _PACKED else str(shown).lower()}"]


_ZEROS: dict[str, Any] = {"double": 0.0, "float": 0.0, "int64": 0, "bool": False, "string": "", "bytes": b""}
_PACKED = {"double": ("<d", _FIXED64), "float": ("<f", _FIXED32)}


class MessageField:
    """A field of a message, as an attribute.

    Parameters
    ----------
    number : int
        That of the field in the message's bytes.
    kind : str or type
        ``"double"``, ``"float"``, ``"int64"``, ``"bool"``, ``"string"``, ``"bytes"``; lists: ``"doubles"``,
        ``"floats"``, ``"int64s"``, ``"strings"`` (of bytes); or a class of messages.
    repeated : bool, default False
        Whether it is a list of messages.
    explicit : bool, default False
        Whether 0 is more than nothing, as in a oneof.
    """

    def __init__(self, number: int, kind: Any, *, repeated: bool = False, explicit: bool = False) -> None:
        self.number = number
        self.kind = kind
        self.repeated = repeated
        self.explicit = explicit
        self.name = ""

    def __set_name__(self, owner: type[Message], name: str) -> None:
        """Learn its name."""
        self.name = name

    def make(self, changed: Callable[[], None]) -> Any:
        """Return its value in a new message."""
        if self.repeated:
            return _Messages(self.kind, changed)
        if isinstance(self.kind, type):
            kind: Any = self.kind
            return kind._part(changed)
        lists: dict[str, Any] = {"doubles": _Doubles, "floats": _Floats, "int64s": _Integers, "strings": _Strings}
        if self.kind in lists:
            return lists[self.kind](changed)
        return _Scalar(self.kind, self.explicit, changed)

    def __get__(self, message: Message | None, owner: Any = None) -> Any:
        """Return its value in a message."""
        if message is None:
            return self
        found = message._field(self.name)
        return found.value if isinstance(found, _Scalar) else found

    def __set__(self, message: Message, value: Any) -> None:
        """Set its value in a message."""
        found = message._field(self.name)
        if not isinstance(found, _Scalar):
            raise AttributeError(
                f'Assignment not allowed to message, map, or repeated field "{self.name}" in protocol message object.'
            )
        found._fill(value)


class FieldsMessage(Message):
    """The base class of messages whose fields are `MessageField`s. Make one of the classes that have fields."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """List the fields."""
        found = {name: one for name, one in vars(cls).items() if isinstance(one, MessageField)}
        cls._FIELDS = {name: (one.number, one.make) for name, one in found.items()}
        cls._CHOICES = frozenset(name for name, one in found.items() if one.explicit)


class _Values(Message):
    __slots__ = ()

    @property
    def value(self) -> MutableSequence[Any]:
        """The values."""
        found: MutableSequence[Any] = self._field("value")
        return found


class BytesList(_Values):
    """A list of strings of bytes.

    Parameters
    ----------
    value : iterable of bytes, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"value": (1, _Strings)}

    def __init__(self, *, value: Any = None) -> None:
        super().__init__(value=value)


class FloatList(_Values):
    """A list of numbers, kept as float32.

    Parameters
    ----------
    value : iterable of float, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"value": (1, _Floats)}

    def __init__(self, *, value: Any = None) -> None:
        super().__init__(value=value)


class Int64List(_Values):
    """A list of integers of 64 bits.

    Parameters
    ----------
    value : iterable of int, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"value": (1, _Integers)}

    def __init__(self, *, value: Any = None) -> None:
        super().__init__(value=value)


class Feature(Message):
    """One list of values, of one of three kinds; setting one unsets the others.

    Parameters
    ----------
    bytes_list : BytesList, optional
    float_list : FloatList, optional
    int64_list : Int64List, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {
        "bytes_list": (1, BytesList._part),
        "float_list": (2, FloatList._part),
        "int64_list": (3, Int64List._part),
    }
    _ONEOF = "kind"

    def __init__(self, *, bytes_list: Any = None, float_list: Any = None, int64_list: Any = None) -> None:
        super().__init__(bytes_list=bytes_list, float_list=float_list, int64_list=int64_list)

    @property
    def bytes_list(self) -> BytesList:
        """The strings."""
        found: BytesList = self._field("bytes_list")
        return found

    @property
    def float_list(self) -> FloatList:
        """The floats."""
        found: FloatList = self._field("float_list")
        return found

    @property
    def int64_list(self) -> Int64List:
        """The integers."""
        found: Int64List = self._field("int64_list")
        return found


class Features(Message):
    """Features by name.

    Parameters
    ----------
    feature : dict of str to Feature, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"feature": (1, lambda changed: _Map(Feature, changed))}

    def __init__(self, *, feature: Any = None) -> None:
        super().__init__(feature=feature)

    @property
    def feature(self) -> Any:
        """The features; a name that is asked for is added."""
        return self._field("feature")


class FeatureList(Message):
    """Features of the steps of a sequence.

    Parameters
    ----------
    feature : iterable of Feature, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"feature": (1, lambda changed: _Messages(Feature, changed))}

    def __init__(self, *, feature: Any = None) -> None:
        super().__init__(feature=feature)

    @property
    def feature(self) -> Any:
        """The features, with `add()`."""
        return self._field("feature")


class FeatureLists(Message):
    """Lists of features by name.

    Parameters
    ----------
    feature_list : dict of str to FeatureList, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"feature_list": (1, lambda changed: _Map(FeatureList, changed))}

    def __init__(self, *, feature_list: Any = None) -> None:
        super().__init__(feature_list=feature_list)

    @property
    def feature_list(self) -> Any:
        """The lists; a name that is asked for is added."""
        return self._field("feature_list")


class Example(Message):
    """One example: features by name.

    Parameters
    ----------
    features : Features, optional

    Examples
    --------
    >>> import queuecore.tf1 as tf
    >>> ages = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 300]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"a": ages}))
    >>> example.SerializeToString().hex()
    '0a0e0a0c0a016112071a050a0301ac02'
    >>> tf.train.Example.FromString(example.SerializeToString()).features.feature["a"].int64_list.value
    [1, 300]
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"features": (1, Features._part)}

    def __init__(self, *, features: Any = None) -> None:
        super().__init__(features=features)

    @property
    def features(self) -> Features:
        """The features."""
        found: Features = self._field("features")
        return found


class SequenceExample(Message):
    """One example that is a sequence: features of the whole, and lists of features of its steps.

    Parameters
    ----------
    context : Features, optional
    feature_lists : FeatureLists, optional
    """

    __slots__ = ()
    _FIELDS: ClassVar = {"context": (1, Features._part), "feature_lists": (2, FeatureLists._part)}

    def __init__(self, *, context: Any = None, feature_lists: Any = None) -> None:
        super().__init__(context=context, feature_lists=feature_lists)

    @property
    def context(self) -> Features:
        """The features of the whole example."""
        found: Features = self._field("context")
        return found

    @property
    def feature_lists(self) -> FeatureLists:
        """The features of the steps, by their names."""
        found: FeatureLists = self._field("feature_lists")
        return found
