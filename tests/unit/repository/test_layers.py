"""Imports point down: no circle of files or of folders, and nobody takes a name that is another module's own."""

from helpers.repository.layers import NATIVE, circles, files, graph, imports, is_private, rooms

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


def test_private_names_stay_in_their_module():
    found = {f"{one.file} takes {one.name} of {one.of}" for one in IMPORTS if one.name and is_private(one.name)}
    assert not found


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
