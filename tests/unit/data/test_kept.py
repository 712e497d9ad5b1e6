"""What version 1fd4962 wrote: its saved places load, and its pickles say what to do."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys

import pytest
from helpers.data.kept import AT, CASES, KEPT, plain, write_files

import queuecore as qc

WRITTEN = json.loads((KEPT / "1fd4962.json").read_text())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_all_are_there():
    assert WRITTEN.keys() == CASES.keys() and all("pickle" in one for one in WRITTEN.values())


@pytest.mark.parametrize("name", CASES)
def test_a_place_is_found_again(name):
    record, options = WRITTEN[name], qc.data.Options(max_leases=64)
    assert record["state"]["version"] == 2
    iterator = iter(CASES[name]().with_options(options))
    iterator.load_state_dict(record["state"])
    assert [plain(one) for one in iterator] == record["rest"]
    iterator = iter(CASES[name]().with_options(options))
    assert [plain(next(iterator)) for _ in range(AT)] == record["begin"]


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_says_what_to_do(name):
    with pytest.raises((qc.errors.InvalidArgumentError, ModuleNotFoundError), match="Make the dataset again"):
        pickle.loads(base64.b64decode(WRITTEN[name]["pickle"]))


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_of_today_loads(name):
    dataset = pickle.loads(pickle.dumps(CASES[name]())).with_options(qc.data.Options(max_leases=64))
    assert [plain(one) for one in dataset] == WRITTEN[name]["begin"] + WRITTEN[name]["rest"]


def test_other_modules_are_missed_as_ever():
    code = """if True:
        import importlib.util, queuecore
        for name in ("queuecore.nothing", "queuecore._core._nothing", "queuecore.__main__", "nothing", "_nothing"):
            assert importlib.util.find_spec(name) is None, name
    """
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.doors
def test_a_loader_of_pytorch_loads():
    loader = pickle.loads(base64.b64decode(json.loads((KEPT / "1fd4962_torch.json").read_text())["pickle"]))
    assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
