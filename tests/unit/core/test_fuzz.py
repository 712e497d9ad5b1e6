"""Inputs that the fuzzer found worth keeping: the parsers keep their promises on each. `make fuzz` looks for more."""

import zipfile
from pathlib import Path

import pytest
from helpers.faults import fuzz_targets

fuzz = pytest.importorskip("queuecore._core.testing.fuzz", reason="no targets (QUEUECORE_TESTING=1)")

CORPUS = Path(__file__).parents[2] / "native" / "corpus"
TARGETS = [name for name in fuzz.NAMES if name != "planted"]


def test_there_are_inputs_for_every_target():
    assert sorted(one.stem for one in CORPUS.iterdir()) == sorted([*TARGETS, *fuzz_targets.TARGETS])


def inputs_of(target):
    with zipfile.ZipFile(CORPUS / f"{target}.zip") as packed:
        inputs = {name: packed.read(name) for name in packed.namelist()}
    assert inputs
    return inputs


@pytest.mark.parametrize("target", fuzz_targets.TARGETS)
def test_inputs_of_targets_in_python(target):
    for data in inputs_of(target).values():
        fuzz_targets.TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_inputs(target):
    for name, data in inputs_of(target).items():
        for cut in (len(data), len(data) // 2):
            try:
                fuzz.run(target, data[:cut])
            except AssertionError as error:
                raise AssertionError(f"{target}, {name}, {cut} bytes of it: {error}") from None
