"""A name of a class or struct means one thing in the whole package."""

import importlib
import re
from collections import defaultdict

from helpers.repository.failures import ROOT

DEFINITION = re.compile(
    r'^ *(?:cdef (?:class|struct|union)|class|struct|cppclass) +([A-Z]\w*)(?: *"[^"]*")? *[({:]', re.MULTILINE
)
# Modules whose names are those of Python and TensorFlow: several of them have a Queue, or a Dataset, of their own.
NAMED_BY_OTHERS = [
    "queuecore.data.experimental",
    "queuecore.stdqueue",
    "queuecore.tf1",
    "queuecore.tf1.contrib.slim",
    "queuecore.tf1.contrib.slim.tfexample_decoder",
    "queuecore.tf1.data",
    "queuecore.tf1.data.experimental",
    "queuecore.tf1.python_io",
    "queuecore.tf1.train",
]


def named_by_others():
    names = set()
    for path in NAMED_BY_OTHERS:
        try:
            part = importlib.import_module(path)
        except ModuleNotFoundError:  # no module of its own, but part of one
            above, name = path.rsplit(".", 1)
            part = getattr(importlib.import_module(above), name)
        names |= set(dir(part))
    return names


def test_no_name_is_used_twice():
    modules = defaultdict(set)
    for folder in ("src", "queuecore"):
        # What a header defines, a .pxd declares.
        for path in (one for one in (ROOT / folder).rglob("*.p*") if one.suffix in (".py", ".pyx", ".pxd")):
            if path.parent.name != "testing":
                for name in DEFINITION.findall(path.read_text()):
                    modules[name].add(str(path.relative_to(ROOT).with_suffix("")))
    assert len(modules) > 500
    allowed = named_by_others()
    twice = {name: sorted(where) for name, where in modules.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name[0] != "_" and name not in allowed} == {}
