"""Copies of a dataset for worker threads, and objects that the copies share though two threads can't use them at once.

A dataset is examined through its parts: its attributes, and the lists, tuples, dicts, bound methods and objects
in them. Every worker gets its own copies of the datasets among these; the copies share everything else.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dis
import functools
import io
import random
import socket
import sqlite3
import sys
import tarfile
import threading
import weakref
import zipfile
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from queuecore.errors import InvalidArgumentError

__all__ = ["Guard", "Parts", "Shared", "functions_of", "is_library"]

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, type, ModuleType))
_CONTAINERS = frozenset(
    (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter)
)
_MOST_ITEMS = 1000  # items of a list that are looked at: if none of them holds a part, the list is data
_MOST_PARTS = 20_000
_DEEPEST = 12
# Packages whose classes aren't examined: they set no attributes that matter, and hold no handles of users'.
_LIBRARIES = frozenset(("builtins", "numpy", "torch", "queuecore", "scipy", "pandas", "PIL"))

_UNSAFE: tuple[type, ...] = (
    io.IOBase, sqlite3.Connection, sqlite3.Cursor, zipfile.ZipFile, tarfile.TarFile, socket.socket
)  # fmt: skip
# For packages that may be absent: the first part of the module's name, and names of classes.
_UNSAFE_NAMES = {
    "h5py": {"File", "Group", "Dataset"},
    "lmdb": {"Transaction", "Cursor"},
    "builtins": {"Transaction", "Cursor"},  # of lmdb, which names this module
    "cv2": {"VideoCapture"},
    "netCDF4": {"Dataset", "Variable"},
    "tables": {"File"},
    "rasterio": {"DatasetReader"},
    "pyarrow": {"NativeFile"},
    "decord": {"VideoReader", "AudioReader"},
}
_RANDOM: tuple[type, ...] = (
    random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator
)  # fmt: skip


class Shared(NamedTuple):
    """An object that all workers use, but no two at a time.

    Attributes
    ----------
    path : str
        The path to it: ``"dataset.dataset.file"``.
    handle : object
    """

    path: str
    handle: Any


class _Lock:
    """A lock that can be weakly referenced."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()


# Locks by the id of the shared object, which the guards keep alive: so two loaders over one file share a lock.
_locks: weakref.WeakValueDictionary[int, _Lock] = weakref.WeakValueDictionary()
_locks_lock = threading.Lock()


class Guard:
    """A context manager that lets one thread at a time use the shared objects.

    Parameters
    ----------
    shared : sequence of Shared
    """

    def __init__(self, shared: Sequence[Shared]) -> None:
        self._kept = [one.handle for one in shared]
        with _locks_lock:
            # All guards take locks in one order, so that no two threads wait for each other.
            self._locks = [_locks.setdefault(key, _Lock()) for key in sorted({id(one) for one in self._kept})]

    def __enter__(self) -> None:
        for one in self._locks:
            one.lock.acquire()

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._locks):
            one.lock.release()


def is_library(module: str | None) -> bool:
    """Return whether a module is part of Python, or of a library whose classes aren't examined."""
    if not module:
        return False
    root = module.partition(".")[0]
    return root in _LIBRARIES or root in sys.stdlib_module_names and root != "__main__"


def functions_of(cls: type) -> dict[str, list[FunctionType]]:
    """Return the functions that users' code defines in a class and its bases: methods, and those of properties."""
    functions: dict[str, list[FunctionType]] = {}
    for base in cls.__mro__:
        if is_library(base.__module__):
            continue
        for name, value in vars(base).items():
            function = getattr(value, "fget", None) or getattr(value, "func", None) or value
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType):
                functions.setdefault(name, []).append(function)
    return functions


_BEGINS = ("__init__", "__new__", "__post_init__", "__setstate__")
_SETTING = frozenset(("setattr", "__setattr__", "__dict__", "vars"))


def _sets_attributes_anew(code: CodeType) -> bool:
    inner = any(isinstance(one, CodeType) and _sets_attributes(one) for one in code.co_consts)
    named = not _SETTING.isdisjoint(code.co_names)
    return inner or named or any(one.opname == "STORE_ATTR" for one in dis.get_instructions(code))


_sets_attributes = functools.lru_cache(4096)(_sets_attributes_anew)


def _has_setting_methods(functions: dict[str, list[FunctionType]]) -> bool:
    later = [one for name, several in functions.items() if name not in _BEGINS for one in several]
    return any(_sets_attributes(one.__code__) for one in later)


def _is_changing(cls: type) -> bool:
    """Return whether a class is a transformation with a state: its objects are called, its methods set attributes."""
    functions = functions_of(cls)
    return ("__call__" in functions or "forward" in functions) and _has_setting_methods(functions)


def _is_indexed(cls: type) -> bool:
    """Return whether a class of users' code has the methods of a dataset."""
    return "__getitem__" in functions_of(cls) and not issubclass(cls, (list, tuple, dict, str, bytes, np.ndarray))


def _is_handle(cls: type) -> bool:
    bases = [(str(base.__module__).partition(".")[0], base.__qualname__) for base in cls.__mro__]
    return issubclass(cls, _UNSAFE) or any(name in _UNSAFE_NAMES.get(root, ()) for root, name in bases)


def _is_unsafe(value: Any) -> bool:
    closed = isinstance(value, io.IOBase) and getattr(value, "closed", False)
    if closed or any(value is one for one in (sys.stdin, sys.stdout, sys.stderr)):
        return False
    return isinstance(value, Iterator) or _is_handle(type(value))


def _is_generator(value: Any) -> bool:
    """Return whether a value is a random generator of the dataset's own."""
    shared = (getattr(random, "_inst", None), getattr(np.random.mtrand, "_rand", None))
    return isinstance(value, _RANDOM) and not any(value is one for one in shared)


def _attributes(value: Any) -> dict[str, Any]:
    attributes = {}
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    attributes.update(getattr(value, "__dict__", None) or {})
    return attributes


class Parts:
    """The objects that a dataset is made of.

    Parameters
    ----------
    dataset : object
    kinds : tuple of type
        Classes of datasets.
    generators : dict of type to callable, optional
        Classes of random generators besides those of Python and NumPy, each with the function that copies one.
    containers : bool, default False
        Whether each copy has lists, dicts, sets and deques of its own, those in attributes of datasets and in each
        other.

    Attributes
    ----------
    objects : list
        All objects of users' classes, and their functions.
    unsafe : list of Shared
        Objects that no two threads may use at a time.
    is_changing : bool
        Whether copies may come to differ: code sets attributes, or there are random generators.
    """

    def __init__(
        self,
        dataset: Any,
        kinds: tuple[type, ...] = (),
        generators: dict[type, Callable[[Any], Any]] | None = None,
        containers: bool = False,
    ) -> None:
        self.dataset = dataset
        self.objects: list[Any] = []
        self.unsafe: list[Shared] = []
        self.is_changing = False
        self._kinds = kinds
        self._generators = generators or {}
        self._known: dict[int, Any] = {}
        self._above: dict[int, list[int]] = {}
        self._copied: set[int] = set()  # ids of datasets and of the objects that hold them
        self._containers = containers
        self._look(dataset)

    def _look(self, dataset: Any) -> None:
        own_keys: list[int] = []
        classes: dict[type, tuple[bool, bool]] = {}
        private: set[int] = set()  # datasets, and containers in them
        # Breadth first: parts near the dataset come first.
        queue: collections.deque[tuple[Any, str, int, int]] = collections.deque([(dataset, "dataset", 0, 0)])
        while queue and len(self._known) < _MOST_PARTS:
            value, path, depth, above = queue.popleft()
            kind = type(value)
            if kind in _PLAIN:
                continue
            key = id(value)
            self._above.setdefault(key, []).append(above)
            if key in self._known:
                continue
            self._known[key] = value
            if kind not in classes:
                ours = not is_library(kind.__module__) and not _is_handle(kind)
                is_dataset = issubclass(kind, self._kinds) or (ours and (not above or _is_indexed(kind)))
                classes[kind] = is_dataset, ours and _is_changing(kind)
            is_dataset, changes = classes[kind]
            if not is_dataset and _is_unsafe(value):
                self.unsafe.append(Shared(path, value))
                continue
            generates = _is_generator(value) or kind in self._generators
            self.is_changing |= generates
            contains = self._containers and kind in _CONTAINERS and above in private
            if is_dataset or contains:
                private.add(key)
            if is_dataset or generates or changes or contains:
                own_keys.append(key)
            if depth >= _DEEPEST:
                continue
            if is_dataset or not is_library(kind.__module__) or kind in (FunctionType, BuiltinMethodType):
                self.objects.append(value)
            queue += [(part, path + step, depth + 1, key) for step, part in self._parts(value, is_dataset)]
        functions = [one.__code__ for one in self.objects if isinstance(one, FunctionType)]
        self.is_changing |= any(map(_sets_attributes, functions))
        self.is_changing |= any(_has_setting_methods(functions_of(cls)) for cls in {type(one) for one in self.objects})
        while own_keys:
            key = own_keys.pop()
            if key and key not in self._copied:
                self._copied.add(key)
                own_keys += self._above[key]

    def _parts(self, value: Any, is_dataset: bool) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if isinstance(value, (list, tuple)) and not is_dataset:
            names = getattr(value, "_fields", None)
            items: Any = value
            if len(value) > _MOST_ITEMS and all(_is_data(item) for item in value[:_MOST_ITEMS]):
                items = ()
            for index, item in enumerate(items):
                yield f".{names[index]}" if names else f"[{index}]", item
        elif isinstance(value, dict) and not is_dataset:
            for index, (name, item) in enumerate(value.items()):
                if index == _MOST_ITEMS and all(map(_is_data, list(value.values())[:_MOST_ITEMS])):
                    return
                yield f"[{name!r:.40}]", item
        elif isinstance(value, MethodType):
            yield "", value.__self__
        elif isinstance(value, functools.partial):
            yield ".func", value.func
            yield ".args", value.args
            yield ".keywords", value.keywords
        elif isinstance(value, FunctionType):
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                try:
                    yield f".{name}", cell.cell_contents
                except ValueError:  # the cell is empty
                    continue
        elif is_dataset or not is_library(kind.__module__) or kind.__module__ == "torch.nn.modules.container":
            for name, attribute in _attributes(value).items():
                yield f".{name}", attribute

    def copy(self, kind: str) -> Any:
        """Return a copy for one worker.

        Parameters
        ----------
        kind : {"shallow", "deep"}
        """
        try:
            if kind == "deep":
                made = copy.deepcopy(self.dataset, {id(one.handle): one.handle for one in self.unsafe})
                for one in Parts(made, self._kinds, self._generators).objects:
                    _let_go_quietly(one)
                return made
            return self._copy(self.dataset, {})
        except Exception as error:
            raise InvalidArgumentError(
                f"copy_dataset={kind!r}: the dataset can't be copied for a worker: {type(error).__name__}: {error}. "
                "With copy_dataset=False all workers use this one"
            ) from error

    def _copy(self, value: Any, memo: dict[int, Any]) -> Any:
        key = id(value)
        if key not in self._copied:
            return value
        if key in memo:
            return memo[key]
        kind = type(value)
        clone: Any
        if kind is list:
            clone = memo[key] = []
            clone += [self._copy(part, memo) for part in value]
        elif isinstance(value, tuple):
            parts = [self._copy(part, memo) for part in value]
            clone = kind(*parts) if hasattr(value, "_fields") else tuple(parts)
        elif isinstance(value, MethodType):
            clone = MethodType(value.__func__, self._copy(value.__self__, memo))
        elif isinstance(value, functools.partial):
            keywords = {name: self._copy(part, memo) for name, part in value.keywords.items()}
            clone = kind(self._copy(value.func, memo), *self._copy(value.args, memo), **keywords)
        elif isinstance(value, FunctionType):
            cells = [self._cell(cell, memo) for cell in value.__closure__ or ()]
            clone = FunctionType(
                value.__code__, value.__globals__, value.__name__, value.__defaults__, tuple(cells)
            )  # fmt: skip
            clone.__kwdefaults__ = value.__kwdefaults__
            clone.__dict__.update(value.__dict__)
        elif kind in self._generators:
            clone = self._generators[kind](value)
        elif _is_generator(value):
            clone = copy.deepcopy(value)
        else:
            clone = memo[key] = self._of(value)
            _let_go_quietly(clone)
            if isinstance(clone, dict):
                clone.update({name: self._copy(part, memo) for name, part in value.items()})
            elif isinstance(clone, list):
                clone[:] = [self._copy(part, memo) for part in value]
            for name, old in _attributes(clone).items():
                new = self._copy(old, memo)
                if new is not old:
                    object.__setattr__(clone, name, new)
        memo[key] = clone
        return clone

    def _cell(self, cell: CellType, memo: dict[int, Any]) -> CellType:
        try:
            value = cell.cell_contents
        except ValueError:
            return cell
        made = self._copy(value, memo)
        return cell if made is value else CellType(made)

    def _of(self, value: Any) -> Any:
        """Return a copy of one object, with the same attributes."""
        cls = type(value)
        holds = any(attribute is shared.handle for attribute in _attributes(value).values() for shared in self.unsafe)
        names = ("__reduce_ex__", "__reduce__", "__getstate__")
        own = any(getattr(cls, name, None) is not getattr(object, name, None) for name in names)
        # The way of pickling is used only if it holds a handle, which pickling may leave out: it may be expensive.
        if hasattr(cls, "__copy__") or holds and own:
            return copy.copy(value)
        try:
            clone = object.__new__(cls)
        except TypeError:  # the class inherits from a built-in one
            return copy.copy(value)
        for name, attribute in _attributes(value).items():
            object.__setattr__(clone, name, attribute)
        return clone

    def shared(self, how: str | bool) -> list[Shared]:
        """Return the unsafe objects that are the same in all copies."""
        if not self.unsafe or not how:
            return self.unsafe
        again = Parts(self.copy(str(how)), self._kinds, self._generators)
        left = {id(one.handle) for one in again.unsafe}
        return [one for one in self.unsafe if id(one.handle) in left]


def _let_go_quietly(clone: Any) -> None:
    """Disable the finalizer of a copy: its ``__del__`` would close or remove things that the dataset still has."""
    cls = type(clone)
    if "__del__" in functions_of(cls):
        with contextlib.suppress(TypeError):
            around = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__slots__": ()}
            quiet = type.__new__(type(cls), cls.__name__, (cls,), {**around, "__del__": lambda self: None})
            object.__setattr__(clone, "__class__", quiet)


def _is_data(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(type(one) in _PLAIN or isinstance(one, np.ndarray) for one in value[:4])
    return type(value) in _PLAIN or is_library(type(value).__module__) and not isinstance(value, (*_UNSAFE, Iterator))
