"""Purity: the checks that a function gives the same result for the same element every time, which no trace can see.

A function that draws a random number, asks for the time, or counts its calls gives another result each time, but a
trace would record the first result as a constant. And the call for a trace may be one call too many: a function that
takes an element out of an iterator, or writes a line, must do so once for each element and no more. So the call ends
before such an effect:

- Before a Python function begins, its instructions and the objects that they name are checked: variables outside of
  itself that it assigns to; iterators, generators of random numbers, queues, and unknown compiled functions.
- Before a compiled function is called that does more than compute, or that changes a list, a dict or an array that was
  there before.

These checks are not complete. If the function changed something all the same by an assignment to an item, the change
is undone when the function has returned.
"""

from __future__ import annotations

import builtins
import copy
import dis
import functools
import gc
import inspect
import itertools
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, NoReturn

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
# Methods that change the object they belong to. Every type has only some of them.
_CHANGES_NAMES = """
    append extend insert remove pop clear sort reverse update setdefault popitem add discard difference_update
    intersection_update symmetric_difference_update __setitem__ __delitem__ __iadd__ __imul__ __ior__ __iand__ __isub__
    __ixor__ fill put itemset partition resize setfield setflags byteswap
"""
_CHANGES = frozenset(_CHANGES_NAMES.split())
_CHANGED_BY_OPERATOR = frozenset(("setitem", "delitem", "iadd", "iconcat", "imul", "ior", "iand", "isub", "ixor"))
_DRAWING = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
# Our modules whose objects wait, move, or write; objects of all others only describe and compute.
_OUR_IMPURE_NAMES = """
    queues stdqueue runtime readers writers programs device torch jax cli data.iterator data.iterators data.device
    _core.handoff.queues _core.handoff.objects _core.atoms.runtime _core.io.readers _core.io.streams _core.stream.feed
    _core.stream.link _core.stream.marks _core.stream.scope _core.stream.stream _core.device
    tf1._graph.session tf1._graph.plans
"""
_OUR_IMPURE = tuple(f"queuecore.{name}" for name in _OUR_IMPURE_NAMES.split())
_SEEN: tuple[type, ...] = (FunctionType, functools.partial, BuiltinFunctionType, MethodDescriptorType)
_SEEN += (ClassMethodDescriptorType, MethodWrapperType, WrapperDescriptorType)  # the last two are operators
_PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes))
_NOTHING: Any = object()
_SYMBOLS = "queuecore._trace.symbol"  # the module of the stand-ins for values, which must not be touched
_MOST_BYTES = 16 << 20
_MOST_MET = 10_000
_MOST_ITEMS = 1_000
_DEEPEST = 4
_LIBRARY = (sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"], "<frozen")
_OUTSIDE = {
    "STORE_GLOBAL": "an assignment to a global variable",
    "DELETE_GLOBAL": "del of a global variable",
    "STORE_ATTR": "an assignment to an attribute",
    "DELETE_ATTR": "del of an attribute",
}


class _Known(NamedTuple):
    """The values of the names in a function's instructions, before it runs."""

    code: CodeType
    globals: Mapping[str, Any]
    locals: Mapping[str, Any]


class _Mention(NamedTuple):
    """A value that instructions name.

    Attributes
    ----------
    name : str
        As it stands there, with the attributes: ``"self.table"``.
    value : object
    is_local : bool
        Whether the name begins with a local variable.
    is_last : bool
        Whether these are the last attributes of an object of which only attributes are used.
    """

    name: str
    value: Any
    is_local: bool
    is_last: bool


class _Kept(NamedTuple):
    name: str
    value: Any
    image: Any
    saved: Any


class Watch:
    """Looks at one call of a function, in this thread.

    Parameters
    ----------
    function : callable
        The function that is about to be called.
    is_users : callable
        Whether a frame is one of the user's code.
    stop : callable
        Called with the reason and the frame before an effect; raises the exception that ends the call.
    report : callable
        Called with the reason and the frame when the result can't be trusted, though the function may go on.
    """

    def __init__(
        self,
        function: Any,
        is_users: Callable[[FrameType], bool],
        stop: Callable[[str, FrameType | None], NoReturn],
        report: Callable[[str, FrameType | None], None],
    ) -> None:
        self._function = function
        self.is_users = is_users
        self._stop = stop
        self._report = report
        self._kept: list[_Kept] = []
        # By id, and kept, so that no id is given twice.
        self._met: dict[int, tuple[str, Any]] = {}
        self._old: dict[int, Any] = {}
        self._assigns_items = False
        self._drawn = _random_state()
        self._checked: set[CodeType] = set()
        self._before: Any = None
        self._collected = False
        self._base: FrameType | None = None

    def __enter__(self) -> Watch:
        owner = getattr(self._function, "__self__", None)
        if owner is not None:
            self._old[id(owner)] = owner
        for name, value in _captured(self._function):
            self._meet(name, value, None)
        self._base = sys._getframe(1)
        self._before = sys.getprofile()
        # The collector may call finalizers at any time; these calls are not the function's.
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
        self._check()

    def _check(self) -> None:
        """Report differences from the state before the call, and undo the function's assignments."""
        if _random_state() != self._drawn:
            self._report("it draws random numbers", None)
        for name, value, before, saved in self._kept:
            if _image(value) != before:
                self._report(f"it changes {name!r}, which isn't its own", None)
                if self._assigns_items:
                    _put_back(value, saved)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_call"):
            return
        at = frame if event == "c_call" else frame.f_back
        while at is not None and at is not self._base:
            if not self.is_users(at):  # library code called by the user's code: it knows what it does
                return
            at = at.f_back
        if event == "c_call":
            self._before_compiled(frame, argument)
        elif self.is_users(frame):
            if frame.f_code not in self._checked:
                self._checked.add(frame.f_code)
                self._before_python(frame)
        elif _impure_module(frame.f_globals.get("__name__")):
            self._stop(f"a call of {frame.f_code.co_qualname}(), which does more than compute", frame.f_back)

    def _before_compiled(self, frame: FrameType, function: Any) -> None:
        if not _computes(function):
            self._stop(f"a call of {_name(function)}, which may return something else each time", frame)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, ModuleType):
            self._assigns_items |= function.__name__ in _CHANGED_BY_OPERATOR
        elif function.__name__ in _CHANGES and id(owner) in self._met:
            self._stop(f"it changes {self._met[id(owner)][0]!r}, which isn't its own", frame)

    def _before_python(self, frame: FrameType) -> None:
        code = frame.f_code
        if reason := _assigned(code):
            self._stop(reason, frame)
        words = {one.opname for one in dis.get_instructions(code)}
        self._assigns_items |= not words.isdisjoint(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "BINARY_OP"))
        if code.co_filename.startswith(_LIBRARY):  # full of caches
            return
        context = _Known(code, frame.f_globals, frame.f_locals)
        old = False
        for name, value, is_local, is_last in _mentioned(context):
            if "." not in name:
                # A local name's value was made by the function, or was there before under another name.
                old = not is_local or id(value) in self._old or id(value) in self._met
            if old:
                self._old[id(value)] = value
                if is_last or isinstance(value, _DRAWING):
                    self._meet(name, value, frame)
        # An exception handler would go on after the end of the call, and its effects would not be seen.
        if "PUSH_EXC_INFO" in words and (reason := _unsure(context, set())):
            self._stop(f"it may catch the end of a trace, and {reason}", frame)

    def _meet(self, name: str, value: Any, frame: FrameType | None) -> None:
        """Check a value that a function can reach, and the values inside it."""
        effect = _effect(value)
        if not effect and callable(value) and not _seen_or_pure(value):
            effect = "it may call {}, a compiled function that may do more than compute"
        if effect:
            self._stop(effect.format(repr(name)), frame)
        reached = [(value, 0)]
        while reached and len(self._met) < _MOST_MET:
            inner, depth = reached.pop()
            if id(inner) in self._met or type(inner) in _PLAIN or type(inner).__module__ == _SYMBOLS:
                continue
            self._met[id(inner)] = name, inner
            if effect := _effect(inner):
                self._stop(effect.format(repr(name)), frame)
            if (image := _image(inner)) is not None:
                self._kept.append(_Kept(name, inner, image, copy.copy(inner)))
            if depth < _DEEPEST:
                reached += [(part, depth + 1) for part in itertools.islice(_parts(inner), _MOST_ITEMS)]


def _name(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or (owner.__name__ if isinstance(owner, ModuleType) else None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{name}()" if module in (None, "builtins") else f"{'os' if module == 'posix' else module}.{name}()"


def _computes(function: Any) -> bool:
    """Return whether a compiled function only computes."""
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


def _impure_module(module: Any) -> bool:
    return isinstance(module, str) and any(module == one or module.startswith(f"{one}.") for one in _OUR_IMPURE)


def _assigned(code: CodeType) -> str:
    """Return the name of a variable or attribute outside of itself that code assigns to; empty: there is none."""
    makes = code.co_name in ("__init__", "__new__", "__post_init__")  # their attributes are those of a new object
    for one in dis.get_instructions(code):
        if one.opname in _OUTSIDE and not (makes and one.opname == "STORE_ATTR"):
            return f"{_OUTSIDE[one.opname]}, {one.argval!r}"
        if one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in code.co_freevars:
            return f"an assignment to {one.argval!r}, a variable of the function around it"
    return ""


def _effect(value: Any) -> str:
    """Return the effect of using a value, with a place for its name; empty: there is none."""
    kind = type(value)
    if isinstance(value.__self__ if kind in (BuiltinFunctionType, MethodType) else value, _DRAWING):
        return "it may draw from {}, which makes random numbers"
    if hasattr(kind, "__next__"):
        return "it may advance {}, an iterator"
    if _impure_module(kind.__module__):
        return f"it may use {{}}, a {kind.__name__}"
    return ""


def _seen_or_pure(function: Any) -> bool:
    """Return whether a callable only computes, or its calls are seen before they happen."""
    kind = type(function)
    if kind is MethodType:
        return _seen_or_pure(function.__func__)
    if kind in _SEEN or isinstance(function, _PURE_TYPES):
        return True
    module = getattr(function, "__module__", None) or ""
    if module.startswith(("numpy", "queuecore")):
        return not module.startswith("numpy.random")
    if isinstance(function, type):
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        compiled = module in sys.builtin_module_names or file.endswith(".so")
        return not compiled or module in ("builtins", *_PURE_MODULES)
    # The calls of a Python wrapper are seen; so are those of an object whose class defines `__call__` in Python.
    wrapped = getattr(function, "__wrapped__", None) if kind.__module__ == "functools" else None
    return isinstance(wrapped or inspect.getattr_static(kind, "__call__", None), FunctionType)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, set, frozenset)):
        yield from list(value)
    elif isinstance(value, dict):
        yield from list(value.values())
    elif isinstance(value, (FunctionType, MethodType, functools.partial)):
        if _is_users_module(value.__module__ if hasattr(value, "__module__") else type(value).__module__):
            yield from (one for _, one in _captured(value))
    elif not isinstance(value, (type, ModuleType)) and _is_users_module(type(value).__module__):
        yield from list(getattr(value, "__dict__", {}).values())


def _is_users_module(name: Any) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return name == "__main__" or not file.startswith(_LIBRARY) and not str(name).startswith(("queuecore", "builtins"))


def _mentioned(context: _Known) -> Iterator[_Mention]:
    """Yield the values that instructions name: global, local and enclosing variables, and attributes of all these."""
    name, value, is_local = "", None, False  # no name: nothing is known
    for instruction in dis.get_instructions(context.code):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and name:
            yield _Mention(name, value, is_local, False)
            value = _attribute(value, instruction.argval)
            name = "" if value is _NOTHING else f"{name}.{instruction.argval}"
            continue
        if name:
            yield _Mention(name, value, is_local, True)
            name = ""
        if not instruction.opname.startswith("LOAD_") and "LOAD_FAST" not in instruction.opname:
            continue
        last = instruction.argval
        if "LOAD_FAST" in instruction.opname and type(last) is tuple:
            last = last[-1]
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            is_local, value = False, context.globals.get(last, getattr(builtins, last, _NOTHING))
            name = "" if value is _NOTHING else last
        elif instruction.opname != "LOAD_CONST" and type(last) is str and last in context.locals:
            name, value, is_local = last, context.locals[last], True
            if type(value).__module__ == _SYMBOLS:
                name = ""


def _attribute(value: Any, name: str) -> Any:
    """Return the value of an attribute, if no code has to run for that."""
    held = inspect.getattr_static(value, name, _NOTHING)
    if isinstance(held, (staticmethod, classmethod)):
        return held.__func__
    if isinstance(held, MemberDescriptorType):  # one of __slots__
        return getattr(value, name, _NOTHING)
    return _NOTHING if isinstance(held, (property, functools.cached_property)) else held


def _unsure(context: _Known, codes: set[CodeType]) -> str:
    """Return an effect that instructions may have, as far as can be told before they run; empty: there is none."""
    codes.add(context.code)
    attributes = set()
    for name, value, _, is_last in _mentioned(context):
        attributes.add(name.rpartition(".")[2])
        function = value.__func__ if isinstance(value, MethodType) else value
        if not is_last or not callable(function) or isinstance(function, type) and _seen_or_pure(function):
            continue
        if not isinstance(function, FunctionType):
            if not _seen_or_pure(function) or type(function) is BuiltinFunctionType and not _computes(function):
                return f"may call {name}()"
        elif _is_users_module(function.__module__) and function.__code__ not in codes:
            inner = _Known(function.__code__, function.__globals__, dict(_captured(function)))
            if reason := _assigned(function.__code__) or _unsure(inner, codes):
                return reason
    for one in dis.get_instructions(context.code):
        if one.opname in ("LOAD_METHOD", "LOAD_ATTR") and not (
            one.argval in attributes or one.argval in _computing_names()
        ):
            return f"may call {one.argval}()"
    return ""


def _computing_names_anew() -> frozenset[str]:
    """Return the names of all methods that only compute, or only change the object they belong to."""
    return frozenset(name for kind in _PURE_TYPES for name in dir(kind))


_computing_names = functools.cache(_computing_names_anew)


def _captured(function: Any) -> list[tuple[str, Any]]:
    """Return the values from elsewhere that a function holds; global variables show when it is called."""
    captures: list[tuple[str, Any]] = []
    while isinstance(function, functools.partial):
        captures += [(f"argument {i}", argument) for i, argument in enumerate(function.args)]
        captures += function.keywords.items()
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__  # its uses of the object are checked when it is called
    if not isinstance(function, FunctionType):
        function = getattr(type(function), "__call__", None)  # noqa: B004
        if not isinstance(function, FunctionType):
            return captures
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            captures.append((name, cell.cell_contents))
        except ValueError:  # not yet bound
            continue
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    captures += [("a default", default) for default in defaults]
    return captures


def _image(value: Any) -> Any:
    """Return an object that stays equal as long as the value's contents stay the same; `None`: it isn't checked."""
    if isinstance(value, dict):
        return [(key, id(one)) for key, one in list(value.items())]
    if isinstance(value, (list, set)):
        return list(map(id, value))
    if isinstance(value, bytearray):
        return bytes(value)
    if type(value) is np.ndarray and value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
        return value.tobytes()
    return None


def _put_back(value: Any, saved: Any) -> None:
    if isinstance(value, (dict, set)):
        value.clear()
        value.update(saved)
    elif isinstance(value, (list, bytearray)):
        value[:] = saved
    elif value.flags.writeable:
        value[...] = saved


def _random_state() -> Any:
    return random.getstate(), _frozen(np.random.get_state(legacy=False))


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return [(key, _frozen(one)) for key, one in state.items()]
    return state.tobytes() if isinstance(state, np.ndarray) else state
