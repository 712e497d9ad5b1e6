"""Who imports whom: the files of the package, Python and native, and the folders that they lie in.

A native module is one file here: what its .pyx, .pxd and .pyi say together.
"""

from __future__ import annotations

import ast
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
NATIVE = "queuecore/_core"
_CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+(.*)|c?import\s+([\w.]+).*)$")

Graph = dict[str, set[str]]


class Import(NamedTuple):
    """An import of a file: the file that it imports, and the name it takes from there, if any."""

    file: str
    line: int
    of: str
    name: str | None


def files() -> dict[str, list[pathlib.Path]]:
    """Return the modules, by the names of their files; a native module's have no suffix, and may be several."""
    modules: dict[str, list[pathlib.Path]] = {}
    for path in sorted((REPOSITORY / "queuecore").rglob("*.py")):
        modules[str(path.relative_to(REPOSITORY))] = [path]
    native = REPOSITORY / "src" / NATIVE
    for path in sorted([*native.rglob("*.p[yx][xd]"), *(REPOSITORY / NATIVE).rglob("*.pyi")]):
        base = native if path.is_relative_to(native) else REPOSITORY / NATIVE
        modules.setdefault(f"{NATIVE}/{path.relative_to(base).with_suffix('')}", []).append(path)
    return modules


def imports(modules: dict[str, list[pathlib.Path]]) -> list[Import]:
    """Return all imports of modules of the package: inside functions and for types too, and cimports."""
    named = {_dotted(file): file for file in modules}
    found = []
    for file, paths in modules.items():
        for path in paths:
            said = _python(path) if path.suffix in (".py", ".pyi") else _cython(path)
            found += _resolved(file, said, named)
    return [taken for taken in found if taken.of != taken.file]


def _dotted(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _resolved(file: str, said: Iterable[tuple[int, str, str | None]], named: dict[str, str]) -> Iterator[Import]:
    for line, module, name in said:
        if name is not None and f"{module}.{name}" in named:
            yield Import(file, line, named[f"{module}.{name}"], None)
        elif module in named:
            yield Import(file, line, named[module], name)


def _python(path: pathlib.Path) -> Iterator[tuple[int, str, str | None]]:
    tree = ast.parse(path.read_text(), str(path))
    package = path.relative_to(REPOSITORY).parent.parts
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
                aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, module, alias.name
                aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
    # `module._name` takes a name too.
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and ast.unparse(node.value) in aliases:
            yield node.lineno, aliases[ast.unparse(node.value)], node.attr


class Taken(NamedTuple):
    """A use of an object's private attribute in a file that doesn't define one of this name."""

    file: str
    line: int
    name: str


def attributes(modules: dict[str, list[pathlib.Path]]) -> list[Taken]:
    """Return the private attributes that files take of objects that are neither `self` nor of a class of their own."""
    return [
        Taken(file, line, name)
        for file, paths in modules.items()
        for path in paths
        if path.suffix == ".py"
        for line, name in _attributes(ast.parse(path.read_text(), str(path)))
    ]


def _attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    own = {"self", "cls", *(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))}
    defined = set(_defined(tree))
    others = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if not alias.name.startswith("queuecore")
    }
    others.add("torch")  # which a module of the package imports for all
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr) or node.attr in defined:
            continue
        root: ast.expr = node.value
        if isinstance(root, ast.Call) and ast.unparse(root.func) == "super":
            continue
        if isinstance(root, ast.Name) and root.id in own:
            continue
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id not in others:  # what other packages call private is their affair
            yield node.lineno, node.attr


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of methods and attributes that classes of a file define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield part.name
                for target in _targets(part):
                    if isinstance(target, ast.Name):
                        yield target.id
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr


def _targets(node: ast.AST) -> list[ast.expr]:
    given = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [inner for target in given for inner in ast.walk(target) if isinstance(inner, ast.expr)]


def _cython(path: pathlib.Path) -> Iterator[tuple[int, str, str | None]]:
    text = re.sub(r"\(\s*\n(.*?)\)", lambda match: " ".join(match[1].split()), path.read_text(), flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        match = _CIMPORT.match(line)
        if match is None:
            continue
        if match[3]:
            yield number, match[3], None
            continue
        for name in re.findall(r"(\w+)(?:\s+as\s+\w+)?", match[2].strip("()").partition("#")[0]):
            yield number, match[1], name


def is_private(name: str) -> bool:
    """Return whether a name is its module's own."""
    return name.startswith("_") and not name.startswith("__")


def graph(found: Iterable[Import]) -> Graph:
    """Return which files each file imports."""
    made: Graph = {}
    for taken in found:
        made.setdefault(taken.file, set()).add(taken.of)
        made.setdefault(taken.of, set())
    return made


def rooms(whole: Graph) -> dict[str, Graph]:
    """Return, for each folder, its rooms, which are its files and its folders, and which imports which."""
    by_folder: dict[str, Graph] = {}
    for file, others in whole.items():
        for other in others:
            pairs = zip(_way(file), _way(other), strict=False)
            same = [a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
            inside = by_folder.setdefault("/".join(same), {})
            one, two = _way(file)[len(same)], _way(other)[len(same)]
            inside.setdefault(one, set()).add(two)
            inside.setdefault(two, set())
    return by_folder


def _way(file: str) -> list[str]:
    return file.split("/")


def circles(whole_graph: Graph) -> list[list[str]]:
    """Return the strongly connected parts of more than one node (R. Tarjan, 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(whole_graph[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            part, stack[at:] = sorted(stack[at:]), []
            if len(part) > 1:
                parts.append(part)

    for node in sorted(whole_graph):
        if node not in order:
            visit(node)
    return sorted(parts)
