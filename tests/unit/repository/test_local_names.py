"""A variable that lives longer than five lines has a noun for its name."""

import ast
from collections import defaultdict

from helpers.repository.failures import ROOT

# What says only that something is there.
NO_NOUNS = {"one", "made", "given", "found"}
MOST_LINES = 5
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def long_lives(function):
    """The names of a function's parameters and variables that are no nouns, with their first and last lines."""
    lines = defaultdict(list)
    bound = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in NO_NOUNS:
            lines[node.id].append(node.lineno)
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
        elif isinstance(node, ast.arg) and node.arg in NO_NOUNS:
            lines[node.arg].append(node.lineno)
            bound.add(node.arg)
    return [(name, min(lines[name]), max(lines[name])) for name in bound]


def test_variables_have_nouns():
    paths = [
        path for folder in ("queuecore", "tests", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(paths) > 300
    short = [
        f"{path.relative_to(ROOT)}:{first}-{last} {name}"
        for path in paths
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, FUNCTIONS)
        for name, first, last in long_lives(function)
        if last - first > MOST_LINES
    ]
    assert sorted(set(short)) == []
