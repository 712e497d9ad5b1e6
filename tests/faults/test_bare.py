"""Objects made by `__new__` alone, of every compiled class: what is done with them has a named error, or works."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from helpers.faults import bare
from helpers.process import _environment


@pytest.fixture(scope="module")
def classes():
    """All of them; some modules keep something open from when they are imported."""
    return bare.classes()


@pytest.mark.thorough
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="as slow as it is long")
def test_uninitialised_objects_crash_nothing(classes):
    begin, wrong = 0, []
    while True:
        child = subprocess.run(
            [sys.executable, "-P", pathlib.Path(bare.__file__), str(begin)],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('["')]
        begun = [what for word, what in lines if word == "begun"]
        wrong += [one for word, what in lines if word == "done" for one in what]
        wrong += [what for word, what in lines if word == "unraisable"]
        begin += len(begun)
        if child.returncode == 0:
            break
        wrong.append(f"{begun[-1]} died of {lines[-1][1]} ({child.returncode}): {child.stderr[-1000:]}")
    assert wrong == []
    assert begin == len(classes)


def test_every_class_of_the_sources_is_found(classes):
    sources = pathlib.Path(__file__).parents[2] / "src/queuecore/_core"
    if not sources.is_dir():
        pytest.skip("the sources aren't here")
    written = {
        (".".join(source.relative_to(sources).with_suffix("").parts), name)
        for source in sources.rglob("*.pyx")
        if source.parent.name != "testing"
        for name in re.findall(r"^cdef class (\w+)", source.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(written) > 40
    lost = [name for module, name in written if getattr(sys.modules[f"queuecore._core.{module}"], name) not in classes]
    assert lost == []
