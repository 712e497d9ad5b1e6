"""Objects that `__new__` alone has made: what a child process does with each, one line of JSON before and after.

Run with the number of the first class; classes come in a fixed order.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import inspect
import itertools
import json
import pkgutil
import resource
import sys
import warnings
from typing import Any

import numpy as np

import queuecore
import queuecore._core
import queuecore.tf1

PATIENCE = 20
# What only tests use may be used wrongly.
OF_TESTS = "queuecore._core.testing."
GIVEN = [0, -1, None, b"x", "x", [], {}, np.zeros(3, np.int64)]
# That end the process by nature, or wait for ever if they work; and what `__del__` stops.
LEFT_OUT = {("StopEvent", "wait"), ("SimpleQueue", "get"), ("SafeStart", "wait"), ("StagedIterator", "_feed")}


def classes() -> list[type]:
    """Import all of the package, and return all extension classes, and what is made of them in Python."""
    for module in pkgutil.walk_packages(queuecore.__path__, "queuecore."):
        if not {"__main__", "torch", "_torch", "jax", "demo"} & set(module.name.split(".")):
            importlib.import_module(module.name)
    by_name: dict[str, type] = {}

    def walk(cls: type, compiled: bool) -> None:
        name = str(cls.__module__)  # which another's class may have made something else
        ours = name.startswith("queuecore.") and not name.startswith(OF_TESTS)
        native = name.startswith("queuecore._core.")
        compiled = compiled or (ours and (native or not cls.__flags__ & 1 << 9))  # no heap type
        if compiled and ours:
            by_name.setdefault(f"{name}.{cls.__qualname__}", cls)
        for below in type.__subclasses__(cls):
            walk(below, compiled)

    walk(object, False)
    return [by_name[name] for name in sorted(by_name) if not issubclass(by_name[name], BaseException)]


def bare(cls: type) -> Any:
    """Return an object that nobody has initialised; None: that class has none."""
    for arguments in ((), (None,), (0,), ([],), (1, 1), (None, None)):
        try:
            return cls.__new__(cls, *arguments)
        except (TypeError, ValueError, queuecore.errors.QueueCoreError):
            pass
    return None


def tried(subject: str, call: Any, log: list[str]) -> None:
    print(json.dumps(["...", subject]), flush=True)
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    try:
        call()
    except StopIteration:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is, it has a name
        if isinstance(error, SystemError):
            log.append(f"{subject}: {error!r}")
    finally:
        faulthandler.cancel_dump_traceback_later()


def calls_of(method: Any) -> list[tuple[Any, ...]]:
    """Return lists of arguments to call a method with."""
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return [(), *[(value,) for value in GIVEN]]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in plain)
    counts = {needed, len(plain)} if len(plain) < 8 else {needed}
    calls: list[tuple[Any, ...]] = []
    for count in sorted(counts):
        calls += [()] if count == 0 else [(value,) * count for value in GIVEN]
    return calls


def use(cls: type) -> list[str]:
    """Use an uninitialised object of a class in every way, and return what is wrong."""
    wrong: list[str] = []
    name = cls.__qualname__
    if bare(cls) is None:
        return wrong
    for arguments in calls_of(cls):
        tried(f"{name}{arguments!r}", lambda arguments=arguments: cls(*arguments), wrong)
    tried(f"{name}: drop", lambda: bare(cls) and None, wrong)
    for word, function in {
        "repr": repr, "len": len, "iter": iter, "next": next, "bool": bool, "hash": hash, "str": str,
        "memoryview": memoryview, "list": lambda one: one[0], "enter": lambda one: one.__enter__(),
        "exit": lambda one: one.__exit__(None, None, None), "equal": lambda one: one == one, "call": lambda one: one(),
        "call with one": lambda one: one(b"x"), "reduce": lambda one: one.__reduce_ex__(2), "in": lambda one: 0 in one,
        "for": lambda one: [*itertools.islice(one, 3)], "slice": lambda one: one[:2], "less": lambda one: one < one,
    }.items():  # fmt: skip
        tried(f"{name}: {word}", lambda function=function: function(bare(cls)), wrong)
    for attribute in sorted(set(dir(cls))):
        if (attribute.startswith("__") and attribute not in ("__next__", "__iter__", "__call__", "__array__")) or (
            name,
            attribute,
        ) in LEFT_OUT:
            continue
        tried(f"{name}.{attribute}", lambda attribute=attribute: getattr(bare(cls), attribute), wrong)
        tried(f"{name}.{attribute} = 1", lambda attribute=attribute: setattr(bare(cls), attribute, 1), wrong)
        method = getattr(cls, attribute, None)
        if not inspect.isroutine(method) or isinstance(vars(cls).get(attribute), (staticmethod, classmethod)):
            continue
        for arguments in calls_of(getattr(bare(cls), attribute, None)):
            call = functools.partial(lambda word, given: getattr(bare(cls), word)(*given), attribute, arguments)
            tried(f"{name}.{attribute}{arguments!r}", call, wrong)
    return wrong


def main(begin: int) -> None:
    """Use an object of each class, from number `begin` on."""
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: print(json.dumps(["unraisable", repr(unraisable.exc_value)]), flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for cls in classes()[begin:]:
        name = f"{cls.__module__}.{cls.__qualname__}"
        print(json.dumps(["begun", name]), flush=True)
        print(json.dumps(["done", use(cls)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
