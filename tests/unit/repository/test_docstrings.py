"""Docstrings open with a noun phrase or an imperative verb."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
QUESTION = re.compile(r"(What|Whether|Where|How|When|Why|Which|That|Of)\b")
NATIVE = re.compile(r'^\s*r?"""(\w+)', re.MULTILINE)


ROOMS = sorted(one.name for one in (ROOT / "queuecore").iterdir() if not one.name.startswith("__"))


@pytest.mark.parametrize("folder", ROOMS)
def test_python(folder):
    top = ROOT / "queuecore" / folder
    for path in [top] if top.suffix == ".py" else sorted(top.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                said = ast.get_docstring(node) or ""
                assert not QUESTION.match(said), f"{path}:{getattr(node, 'lineno', 1)}: {said[:60]}"


def test_native():
    for path in sorted((ROOT / "src").rglob("*.p[yx][xd]")):
        for word in NATIVE.findall(path.read_text(encoding="utf-8")):
            assert not QUESTION.fullmatch(word), f"{path}: {word}"
