"""Random numbers in workers: whether a dataset draws from generators that all of a program shares, and their states.

Python's module ``random``, ``numpy.random`` and PyTorch have one generator each for the whole process. In a worker
process they are the worker's own; in a thread they aren't. So a dataset that draws from them is recognised by the names
in its code, before it is called. That is a guess: functions looked up at run time, and draws by compiled code, aren't
seen.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import random
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from queuecore._torch.copies import functions_of, is_library

__all__ = ["States", "draws"]

_MOST_FUNCTIONS = 2000
_CALLED = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
_NOTHING = object()

# The generators whose methods are the functions of the modules random and numpy.random.
_SHARED = [one for one in (getattr(random, "_inst", None), getattr(np.random.mtrand, "_rand", None)) if one is not None]

State = tuple[Callable[[], Any], Callable[[Any], object]]
_STATES: tuple[State, ...] = ((random.getstate, random.setstate), (np.random.get_state, np.random.set_state))


class States:
    """The states of a worker's random generators: those of Python, NumPy and others.

    Parameters
    ----------
    seed : callable
        Seeds the generators of the process, for this worker.
    others : sequence of pairs of callables
        For each other generator, the function that returns its state, and the one that sets it.
    """

    def __init__(self, seed: Callable[[], object], others: Sequence[State] = ()) -> None:
        self._seed: Callable[[], object] | None = seed
        self._of = (*_STATES, *others)
        self._states: list[Any] = []

    @contextlib.contextmanager
    def swapped_in(self) -> Generator[None]:
        """Give the process's generators this worker's states. For one thread at a time; others must not draw."""
        outer_states = [get() for get, _ in self._of]
        try:
            if self._seed is None:
                self._set(self._states)
            else:
                self._seed()
                self._seed = None
            yield
        finally:
            self._states = [get() for get, _ in self._of]
            self._set(outer_states)

    def _set(self, states: list[Any]) -> None:
        for (_, put), state in zip(self._of, states, strict=True):
            put(state)


def _steps_anew(code: CodeType) -> tuple[tuple[str, Any], ...]:
    """Return the operations of code, each with its name; kept, since each epoch asks, and disassembling takes long."""
    none = ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS")
    return tuple((one.opname, one.argval) for one in dis.get_instructions(code) if one.opname not in none)


_steps = functools.lru_cache(4096)(_steps_anew)


class _Names:
    """The names that the code of a function has, found without running it.

    Attributes
    ----------
    values : list
        The values of global names, of names of imports, and of attributes of modules and classes.
    attributes : set of str
        The names of attributes of unknown objects.
    """

    def __init__(self, code: CodeType, around: dict[str, Any], captured: dict[str, Any]) -> None:
        self.values: list[Any] = []
        self.attributes: set[str] = set()
        local = dict(captured)
        value: Any = _NOTHING
        module: Any = _NOTHING  # from which names are imported
        constant: Any = None
        for does, name in _steps(code):
            if does == "IMPORT_NAME":
                module = value = sys.modules.get(name if constant else name.partition(".")[0], _NOTHING)
                continue
            if does == "IMPORT_FROM":
                value = getattr(module, name, _NOTHING)
                self.values.append(value)
                continue
            if does in ("STORE_FAST", "STORE_DEREF", "STORE_NAME"):
                if value is not _NOTHING:
                    local[name] = value
            elif does == "LOAD_CONST":
                constant = name
            elif does in ("LOAD_ATTR", "LOAD_METHOD"):
                known = isinstance(value, (ModuleType, type))
                if not known:
                    self.attributes.add(name)
                value = getattr(value, name, _NOTHING) if known else _NOTHING
                self.values.append(value)
                continue
            elif does in ("LOAD_GLOBAL", "LOAD_NAME"):
                value = around.get(name, _NOTHING)
                self.values.append(value)
                continue
            elif does.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")) and isinstance(name, str):
                value = local.get(name, _NOTHING)
                self.values.append(value)
                continue
            value = _NOTHING
        self.local = local


def draws(parts: Iterable[Any], is_drawn: Callable[[Any, str], bool] = lambda value, name: False) -> str:
    """Return which function draws from a generator of the whole process, as far as its code shows; empty: none.

    Parameters
    ----------
    parts : iterable
        Objects that are called, and functions.
    is_drawn : callable
        Tells whether a function other than Python's and NumPy's draws: gets the value that code names, or `None`, and
        the name of an attribute of an unknown object, or "".
    """
    parts = list(parts)
    classes = dict.fromkeys(type(part) for part in parts if not isinstance(part, (FunctionType, MethodType)))
    methods = [functions_of(cls) for cls in classes]
    stack: list[FunctionType] = []
    for part in parts:
        function = getattr(part, "__func__", part)
        if isinstance(function, FunctionType):
            stack.append(function)
        elif _is_shared(part) or is_drawn(part, ""):
            return f"it holds {_name(part)}"
    stack += [method for functions in methods for name in _CALLED for method in functions.get(name, ())]
    code_objects: set[CodeType] = set()
    names_asked: set[str] = set()
    while stack and len(code_objects) < _MOST_FUNCTIONS:
        function = stack.pop()
        codes = [(function.__code__, _captured(function))]
        while codes:
            code, captured = codes.pop()
            if code in code_objects:
                continue
            code_objects.add(code)
            names = _Names(code, function.__globals__, captured)
            codes += [(constant, names.local) for constant in code.co_consts if isinstance(constant, CodeType)]
            own_generator = any(isinstance(constant, tuple) and "generator" in constant for constant in code.co_consts)
            for value in names.values:
                if _is_shared(value) or (not own_generator and value is not _NOTHING and is_drawn(value, "")):
                    return f"{function.__qualname__} uses {_name(value)}"
                if isinstance(value, MethodType):
                    value = value.__func__
                if isinstance(value, FunctionType) and not is_library(value.__module__):
                    stack.append(value)
                elif isinstance(value, type) and value not in classes and not is_library(value.__module__):
                    classes[value] = None
                    methods.append(defined := functions_of(value))
                    stack += [
                        method for name in (*_CALLED, "__init__", *names_asked) for method in defined.get(name, ())
                    ]
            for name in names.attributes - names_asked:
                if not own_generator and is_drawn(None, name):
                    return f"{function.__qualname__} uses .{name}()"
                stack += [method for functions in methods for method in functions.get(name, ())]
            names_asked |= names.attributes
    return ""


def _captured(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _is_shared(value: Any) -> bool:
    """Return whether a value is the shared generator of ``random`` or ``numpy.random``, or a method of it."""
    owner = getattr(value, "__self__", value)
    return any(owner is one for one in _SHARED)


def _name(value: Any) -> str:
    module = getattr(value, "__module__", None)
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        module = "random" if isinstance(owner, random.Random) else "numpy.random"
    return f"{module + '.' if module else ''}{getattr(value, '__name__', type(value).__name__)}"
