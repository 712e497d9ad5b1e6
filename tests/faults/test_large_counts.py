"""Counts far beyond the data: memory is touched as it is used, and not because somebody said a large number."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from helpers.faults import counts
from helpers.process import _environment

MIB = 1 << 20
# Threads, their stacks, and Python's modules that the first iterator imports.
MOST = 24 * MIB


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer takes memory of its own")
def test_large_counts_take_no_memory(tmp_path):
    (tmp_path / "lines").write_text("".join(f"{i}\n" for i in range(10)))
    (tmp_path / "fixed").write_bytes(bytes(range(10)))
    done = subprocess.run(
        [sys.executable, "-P", pathlib.Path(counts.__file__), tmp_path],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=55,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in found] == list(counts.CASES)
    assert [one for one in found if one[1]] == []
    assert [(name, most // MIB) for name, _, most in found if most > MOST] == []
