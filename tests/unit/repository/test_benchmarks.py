"""The benchmarks: `run.py` runs every one of them, and the README says what each is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are in no sdist", allow_module_level=True)

BENCHMARKS = sorted(str(one.relative_to(FOLDER)) for one in FOLDER.rglob("bench_*.py"))


def test_every_one_is_run():
    assert sorted(re.findall(r'^    "(.+\.py)",$', (FOLDER / "run.py").read_text(), re.MULTILINE)) == BENCHMARKS


def test_every_one_is_in_the_table():
    assert sorted(re.findall(r"^\| `(.+\.py)` ", (FOLDER / "README.md").read_text(), re.MULTILINE)) == BENCHMARKS
