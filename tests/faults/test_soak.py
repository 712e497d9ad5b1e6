"""The soak (`make soak`): its accounts find what is wrong, and a short one finds nothing."""

import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

SOAK = pathlib.Path(__file__).parents[1] / "soak"


@pytest.fixture
def soak(monkeypatch):
    """Import the modules of the soak, which are in no package."""
    monkeypatch.syspath_prepend(str(SOAK))
    import accounts
    import pipelines

    yield accounts, pipelines
    for name in ("accounts", "pipelines"):
        sys.modules.pop(name)


@pytest.mark.parametrize("ordered", [True, False])
def test_accounts(soak, ordered):
    accounts, pipelines = soak
    expected = pipelines.contents(np.arange(1000)) + 7
    pipeline = pipelines.Pipeline(None, expected, "numbers", ordered=ordered, added=7)
    parts = np.split(expected, [100, 300, 600])

    def finished(batches):
        one = accounts.Accounts(pipeline)
        for batch in batches:
            one.take(batch)
        return one.finish()

    assert finished(parts) == 1000
    damaged = parts[1].copy()
    damaged.view("u1")[17] ^= 4
    for wrong in (parts[:3], [*parts, parts[0]], [parts[0], *parts], [parts[0], damaged, *parts[2:]], parts[1:]):
        with pytest.raises(accounts.Wrong):
            finished(wrong)
    if ordered:
        with pytest.raises(accounts.Wrong):
            finished([parts[1], parts[0], *parts[2:]])
    else:
        assert finished([parts[1], parts[0], *parts[2:]]) == 1000


def test_accounts_go_back_to_their_mark(soak, tmp_path):
    accounts, pipelines = soak
    expected = pipelines.contents(np.arange(1000))
    pipeline = pipelines.Pipeline(None, expected, "numbers", ordered=False)
    account = accounts.Accounts(pipeline)
    account.take(expected[:500])
    account.mark({"place": 500})
    account.save(tmp_path)
    account.take(expected[500:700])
    account.back()
    account.take(expected[500:])
    assert account.finish() == 1000
    again = accounts.Accounts(pipeline)
    again.load(tmp_path)
    assert again.state == {"place": 500}
    again.take(expected[500:])
    assert again.finish() == 1000
    again.load(tmp_path)
    again.take(expected[499:])
    with pytest.raises(accounts.Wrong, match="record 499 came 1 times too often"):
        again.finish()


@pytest.mark.thorough
@pytest.mark.watchdog(600)
def test_pipelines_are_drawn_from_their_seed(soak, tmp_path):
    _, pipelines = soak
    (tmp_path / "fixed-0").touch()
    texts = [pipelines.draw(random.Random(seed), tmp_path).text for seed in range(60)]
    assert texts == [pipelines.draw(random.Random(seed), tmp_path).text for seed in range(60)]
    assert len(set(texts)) > 40


@pytest.mark.thorough
@pytest.mark.watchdog(200)
def test_a_short_soak(tmp_path):
    words = [sys.executable, "-P", str(SOAK / "soak.py"), "--seconds", "2", "--seed", "7"]
    words += ["--json", str(tmp_path / "report")]
    done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(SOAK), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(": nothing lost, nothing twice\n")
    told = json.loads((tmp_path / "report").read_text())
    assert told["records"] > 0 and told["rounds"] > 0 and sum(told["faults"].values()) > 0
