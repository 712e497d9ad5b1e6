"""The README's examples: they run, one after the other, on files like those they speak of."""

import pathlib
import re

import numpy as np
import pytest

import queuecore

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    if not README.exists():
        pytest.skip("not a checkout")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    for index in range(3):
        rows = np.random.default_rng(index).bytes(1100 * 3073)
        (tmp_path / "data" / f"{index}.bin").write_bytes(rows)
    names = {}
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["rest"] == 1000 - 32
    assert names["batch"]["image"].shape == (128, 3, 32, 32)
    assert "(32, 28, 28)" in capsys.readouterr().out
    assert queuecore.data  # the examples import it by its name
