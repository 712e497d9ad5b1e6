"""A variable that lives longer than five lines has a noun for its name."""

import ast
import re
import runpy
from collections import defaultdict

from helpers.repository.failures import ROOT

# Names that say only that something is there, or what was done with it.
NO_NOUNS = {"one", "made", "given", "found", "asked", "drawn", "gone", "kept", "known", "read", "said", "seen", "taken"}
NO_NOUNS |= {"told", "wanted", "whole", "absent", "answered", "came", "complete", "got", "held", "numbered", "short"}
NO_NOUNS |= {"resampled", "here", "there", "what", "where", "along", "at", "captured", "chosen", "how", "most"}
NO_NOUNS |= {"placed", "shown", "traced", "upto", "which", "why"}
# And in the package, where they say too little: words that a test may use for two things that it compares.
COMPARING = {"after", "again", "bad", "before", "begun", "called", "each", "early", "good", "late", "many", "more"}
COMPARING |= {"moved", "named", "needed", "over", "own", "sent", "then", "used", "wrong", "written"}
FOLDERS = {"queuecore": NO_NOUNS | COMPARING, "tests": NO_NOUNS, "benchmarks": NO_NOUNS, "examples": NO_NOUNS}
MOST_LINES = 5
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def nodes_in(scope):
    """The nodes of a function itself; of those within it only they, and not what is in them."""
    left = list(ast.iter_child_nodes(scope))
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            left += ast.iter_child_nodes(node)


def parameters(scope):
    return {node.arg: node.lineno for node in ast.walk(scope.args) if isinstance(node, ast.arg)}


def uses(scope, names):
    """Which of the names a function has, with their lines, also in functions within it."""
    for node in nodes_in(scope):
        if isinstance(node, ast.Name) and node.id in names:
            yield node.id, node.lineno
        elif isinstance(node, FUNCTIONS):
            hidden = parameters(node)
            yield from (use for use in uses(node, names) if use[0] not in hidden)


def long_lives(scope, names):
    """Which of the names a function's parameters and variables have, with the first line and the last."""
    lines = defaultdict(list)
    for name, line in [*uses(scope, names), *parameters(scope).items()]:
        lines[name].append(line)
    stored = {node.id for node in nodes_in(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return [(name, min(lines[name]), max(lines[name])) for name in names & (stored | {*parameters(scope)})]


def long_functions(text):
    """The functions in which a variable may live long enough, each with all words in it."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno > MOST_LINES:
            yield node, set(re.findall(r"\w+", "\n".join(lines[node.lineno - 1 : node.end_lineno])))


def test_variables_have_nouns():
    paths = [(path, names) for folder, names in FOLDERS.items() for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 300
    findings = [
        f"{path.relative_to(ROOT)}:{first}-{last} {name}"
        for path, names in paths
        for function, words in long_functions(path.read_text())
        for name, first, last in long_lives(function, names & words)
        if last - first > MOST_LINES
    ]
    assert sorted(set(findings)) == []


# Of native code: a name by itself, neither an attribute nor in a string or a comment.
BARE_NAME = re.compile(rf"(?<![\w.])({'|'.join(sorted(NO_NOUNS | COMPARING))})\b(?!\()")
NO_CODE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|#.*")


def native_lives(text, tool):
    """The names that are no nouns in each native function, with the first line and the last."""
    code = tool["is_code"](text)
    for kind, begin, end, _ in tool["blocks"](text, code):
        lines = defaultdict(list)
        for number in range(begin, end) if kind == "function" else ():
            for use in BARE_NAME.finditer(NO_CODE.sub("", text[number]) if code[number] else ""):
                lines[use[1]].append(number + 1)
        yield from ((name, uses[0], uses[-1]) for name, uses in lines.items())


def test_native_variables_have_nouns():
    tool = runpy.run_path(str(ROOT / ".ci/check_lengths.py"))
    folders = (ROOT / "src", ROOT / "benchmarks" / "native")
    paths = [path for folder in folders for path in folder.rglob("*.p[yx][xd]")]
    assert len(paths) > 100
    findings = [
        f"{path.relative_to(ROOT)}:{first}-{last} {name}"
        for path in paths
        for name, first, last in native_lives(path.read_text().split("\n"), tool)
        if last - first > MOST_LINES
    ]
    assert sorted(set(findings)) == []
