"""Imports point down: no circle of files or of folders, and nobody takes a name that is another module's own."""

import ast

from helpers.repository.drawing import PICTURE, picture
from helpers.repository.layers import NATIVE, attributes, circles, files, graph, imports, is_private, rooms

# Attributes that other files take, though users see the object and are to see no such name. All others stay in theirs.
PROTOCOLS = {
    "_replace _asdict": "of named tuples",
    "_flags_ _type_": "of ctypes",
    "_resolve_dtypes_and_context _get_strided_loop": "of NumPy's functions",
    "_auto_collation _index_sampler _reset _shutdown_workers _workers": "of PyTorch's loaders",
    "_as_graph_element": "TensorFlow's, of what stands for a tensor",
    "_fetch _with": "of what stands for several tensors: fetched, and made again of other values",
    "_spec _variant _function _step _parallel_interleave": "of tf1's datasets, for functions that make others",
    "_traced_operation _traced_together": "of symbols, for the operations that lie below tracing",
    "_components _next_name": "of queues and readers, for programs that run natively from one to the other",
    "_fail": "of what a queue runner fills",
}

MODULES = files()
IMPORTS = imports(MODULES)
WHOLE = graph(IMPORTS)


def test_all_is_seen():
    # Of each kind one that is known: in a function, for types, of a native module, a cimport, a module's attribute.
    assert len(MODULES) > 150 and len(IMPORTS) > 3000
    assert "queuecore/_core/stream/stream" in WHOLE["queuecore/data/iterator.py"]
    assert "queuecore/_core/atoms/ring" in WHOLE["queuecore/_core/handoff/handoff"]


def test_files_form_no_circle():
    assert not circles(WHOLE)


def test_folders_form_no_circle():
    for inside in rooms(WHOLE).values():
        assert not circles(inside)


def test_the_picture_shows_the_native_modules_of_today():
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make picture`"


def test_private_names_stay_in_their_module():
    found = {f"{one.file} takes {one.name} of {one.of}" for one in IMPORTS if one.name and is_private(one.name)}
    assert not found


def test_private_attributes_stay_in_their_file():
    named = {name for names in PROTOCOLS for name in names.split()}
    taken = attributes(MODULES)
    assert {f"{one.file}:{one.line} takes {one.name}" for one in taken if one.name not in named} == set()
    assert named <= {one.name for one in taken}


def test_one_class_starts_threads():
    """`_runners.threads.Thread`, whose start the end of the interpreter waits for."""
    paths = [path for paths in MODULES.values() for path in paths if path.suffix == ".py"]
    calls = [
        (path, node.lineno)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) in ("Thread", "start_new_thread")
    ]
    assert len(paths) > 150 and not calls


def test_one_native_module_makes_the_exceptions():
    # Stubs may name a class as a type.
    code = {file: [path for path in paths if path.suffix != ".pyi"] for file, paths in MODULES.items()}
    takers = {one.file for one in imports(code) if one.of == "queuecore/errors.py" and one.file.startswith(NATIVE)}
    assert takers == {"queuecore/_core/atoms/errors"}


def test_circles_are_found():
    whole = {"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": {"e"}, "e": set()}
    assert circles(whole) == [["b", "c"]]
    assert circles({"x/a": {"y/b"}, "y/b": set(), "x/c": set(), "y/d": {"x/c"}}) == []
    folded = rooms({"x/a": {"y/b"}, "y/b": set(), "x/c": set(), "y/d": {"x/c"}})
    assert circles(folded[""]) == [["x", "y"]]
