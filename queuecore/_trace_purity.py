"""Whether a function makes the same of the same element every time: what a trace can't see in its symbols.

A function that draws a random number, asks for the time, or counts its calls makes something else each time, but a
trace would take what it made once for a constant. Nothing can tell for certain; what is looked at here is which
compiled functions it calls, what it assigns to outside of itself, and what has changed when it has returned.
"""

from __future__ import annotations

import dis
import functools
import gc
import random
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = ["Watch"]

# Compiled functions of these modules only compute.
_PURE_MODULES = frozenset(("math", "cmath", "_abc", "_operator", "_functools", "_struct", "_bisect", "itertools"))
_IMPURE_BUILTINS = frozenset(
    ["__import__", "breakpoint", "delattr", "eval", "exec", "globals", "id", "input", "locals", "next", "open", "print"]
    + ["setattr", "vars"]
)
_PURE_TYPES: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
_PURE_TYPES += (slice, range, np.ndarray, np.generic, np.dtype, np.ufunc)
_MOST_BYTES = 1 << 20
_LIBRARY = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], "<frozen")
_OUTSIDE = {
    "STORE_GLOBAL": "an assignment to a global variable",
    "DELETE_GLOBAL": "del of a global variable",
    "STORE_ATTR": "an assignment to an attribute",
    "DELETE_ATTR": "del of an attribute",
}


class Watch:
    """Looks at one call of a function, in this thread.

    Parameters
    ----------
    function : callable
        It is about to be called.
    is_users : callable
        Whether a frame is one of the user's code.
    report : callable
        Gets the reason and the frame, for each thing that speaks against it.
    """

    def __init__(
        self, function: Any, is_users: Callable[[FrameType], bool], report: Callable[[str, FrameType | None], None]
    ) -> None:
        self._is_users = is_users
        self._report = report
        self._captured = [(name, value, _image(value)) for name, value in _captured(function)]
        self._drawn = _random_state()
        self._checked: set[CodeType] = set()
        self._before: Any = None
        self._collected = False
        self._base: FrameType | None = None

    def __enter__(self) -> Watch:
        self._base = sys._getframe(1)
        self._before = sys.getprofile()
        # What the collector calls, at any time, isn't the function's.
        self._collected = gc.isenabled()
        gc.disable()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        if self._collected:
            gc.enable()
        if hasattr(self._before, "enable"):  # of cProfile: it is no function
            self._before.enable()
        elif self._before is not None:
            sys.setprofile(self._before)

    def check(self) -> None:
        """Report what is different since before the call."""
        if _random_state() != self._drawn:
            self._report("it draws random numbers", None)
        for name, value, before in self._captured:
            if _image(value) != before:
                self._report(f"it changes {name!r}, which isn't its own", None)

    def _event(self, frame: FrameType, event: str, what: Any) -> None:
        if event not in ("call", "c_call"):
            return
        at: FrameType | None = frame
        while at is not None and at is not self._base:
            if not self._is_users(at):  # something that was called for the user: it knows what it does
                return
            at = at.f_back
        if event == "call":
            if frame.f_code in self._checked:
                return
            self._checked.add(frame.f_code)
            self._look(frame)
            reason = _assigned(frame.f_code)
            if reason:
                self._report(reason, frame)
        elif not _computes(what):
            self._report(f"a call of {_name(what)}, which may return something else each time", frame)

    def _look(self, frame: FrameType) -> None:
        """Remember the global variables that a function can see, before it runs."""
        code = frame.f_code
        if code.co_filename.startswith(_LIBRARY):  # full of caches
            return
        for name in code.co_names:
            if name in frame.f_globals:
                self._captured.append((name, frame.f_globals[name], _image(frame.f_globals[name])))


def _name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or (owner.__name__ if isinstance(owner, ModuleType) else None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def _computes(function: Any) -> bool:
    """Return whether a compiled function does nothing but compute."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        module = getattr(function, "__module__", None)
        if module is None:  # a method of a class, or a function of a module without a name
            kind = getattr(function, "__objclass__", None)
            return kind is not None and issubclass(kind, _PURE_TYPES)
        if module == "builtins":
            return function.__name__ not in _IMPURE_BUILTINS
        return module in _PURE_MODULES or module.startswith("numpy") and not module.startswith("numpy.random")
    return issubclass(owner if type(owner) is type else type(owner), _PURE_TYPES)


def _assigned(code: CodeType) -> str:
    """Return what it assigns to outside of itself; empty: nothing."""
    makes = code.co_name in ("__init__", "__new__", "__post_init__")  # its attributes are those of a new object
    for one in dis.get_instructions(code):
        if one.opname in _OUTSIDE and not (makes and one.opname == "STORE_ATTR"):
            return f"{_OUTSIDE[one.opname]}, {one.argval!r}"
        if one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in code.co_freevars:
            return f"an assignment to {one.argval!r}, a variable of the function around it"
    return ""


def _captured(function: Any) -> list[tuple[str, Any]]:
    """Return the values from elsewhere that come with a function; global variables show when it is called."""
    made: list[tuple[str, Any]] = []
    while isinstance(function, functools.partial):
        made += [(f"argument {i}", one) for i, one in enumerate(function.args)] + list(function.keywords.items())
        function = function.func
    if isinstance(function, MethodType):
        made += list(getattr(function.__self__, "__dict__", {}).items())
        function = function.__func__
    if not isinstance(function, FunctionType):
        made += list(getattr(function, "__dict__", {}).items())
        function = getattr(type(function), "__call__", None)  # noqa: B004
        if not isinstance(function, FunctionType):
            return made
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            made.append((name, cell.cell_contents))
        except ValueError:  # not yet bound
            continue
    made += [("a default", one) for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())]
    return made


def _image(value: Any) -> Any:
    """Return something that is equal as long as the value is the same inside."""
    if isinstance(value, dict):
        return [(key, id(one)) for key, one in list(value.items())]
    if isinstance(value, (list, set)):
        return list(map(id, value))
    if isinstance(value, bytearray):
        return bytes(value)
    if type(value) is np.ndarray and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
        return value.tobytes()
    if isinstance(value, np.random.Generator):
        return _frozen(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return _frozen(value.get_state(legacy=False))
    return value.getstate() if isinstance(value, random.Random) else None


def _random_state() -> Any:
    return random.getstate(), _frozen(np.random.get_state(legacy=False))


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return [(key, _frozen(one)) for key, one in state.items()]
    return state.tobytes() if isinstance(state, np.ndarray) else state
