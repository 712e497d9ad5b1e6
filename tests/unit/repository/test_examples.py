"""The examples in docstrings: each one runs, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

import queuecore

# Modules, and folders of them, that need a package that may be absent.
NEEDED = {"queuecore.torch": "torch", "queuecore._torch": "torch", "queuecore.jax": "jax"}
# Packages that examples of other modules import, and that may be absent.
IMPORTED = ("pyarrow", "datasets")


def needed(module: str) -> str:
    """Return the package that a module needs."""
    return NEEDED.get(".".join(module.split(".")[:2]), "queuecore")


def needed_by(test: doctest.DocTest) -> str:
    """Return the package that an example needs."""
    words = {word for example in test.examples if "import" in example.source for word in example.source.split()}
    return next((name for name in IMPORTED if name in words), needed(test.globs["__name__"]))


def examples() -> list:
    """Return the examples of each module that is written in Python."""
    names = [one.name for one in pkgutil.walk_packages(queuecore.__path__, "queuecore.")]
    names = [name for name in names if importlib.util.find_spec(needed(name))]
    modules = [queuecore, *(importlib.import_module(name) for name in names if "._core" not in name)]
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [test for module in modules for test in finder.find(module) if test.examples]
    return [
        pytest.param(test, id=test.name, marks=() if needed_by(test) == "queuecore" else pytest.mark.doors)
        for test in tests
    ]


@pytest.mark.parametrize("example", examples())
def test_example(example, capsys, tmp_path, monkeypatch):
    pytest.importorskip(needed_by(example))
    monkeypatch.chdir(tmp_path)  # examples make files there
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, clear_globs=False)
    printed = capsys.readouterr().out
    assert runner.summarize(verbose=False).failed == 0, printed
