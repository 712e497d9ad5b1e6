"""The experiment ``benchmarks/e2e/feed_vs_queue.py``: each way learns, and what a run prints and draws is there."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.process import PATIENCE
from PIL import Image

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "e2e" / "feed_vs_queue.py"
if not PATH.exists():
    pytest.skip("the benchmarks are in no sdist", allow_module_level=True)

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(PATH.parent)
    example = importlib.import_module(PATH.stem)


def test_a_quick_run_prints_and_draws_everything(tmp_path):
    (tmp_path / "scratch").mkdir()
    args = ["--quick", "--device", "cpu", "--dir", tmp_path / "scratch", "--plot", tmp_path / "a.png"]
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", PATH, *args], capture_output=True, text=True, timeout=PATIENCE
    )
    out = done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert out.startswith("64 -> 64 ReLU -> 1, batches of 32, 60 steps, on NumPy")
    for arm in example.ARMS:
        assert re.search(rf"^{arm}$\n(  step +\d+   loss [\d.]+\n){{3}}  accuracy [\d.]+% before", out, re.M), out
        assert re.search(rf"^{arm} +[\d.]+ +[\d.]+ +\d+%   [\d.]+$", out, re.M), out
    ratio = re.search(r"^feed to queue: [\d.]+ s -> [\d.]+ s, ([\d.]+) times as fast", out, re.M)
    assert re.search(rf"^queue .* {re.escape(ratio[1])}$", out, re.M), out
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (1600, 900)
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("arm", example.ARMS)
def test_each_way_learns(arm, tmp_path):
    settings = example.Settings(steps=90, batch=32, inputs=64, hidden=64, report_every=30)
    result = example.run_arm(arm, settings, example.find_plane("cpu"), tmp_path)
    assert list(result.losses) == [30, 60, 90] and result.losses[90] < result.losses[30] < 1
    assert result.accuracy[0] < 0.7 < 0.9 < result.accuracy[1]
    assert 0 < result.busy < result.seconds
    assert [what for what, _, _ in result.spans["consumer"]] == ["wait", "step"] * 90
