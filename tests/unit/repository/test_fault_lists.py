"""What the fault sweeps leave out is named as it is now: a name that is gone would let the sweep fail, or look away."""

import re

import pytest
from helpers.faults import bare
from helpers.repository.failures import ROOT

NATIVE = ROOT / "src/queuecore/_core"
SWEEP = (ROOT / "tests/faults/test_raise_everywhere.py").read_text()
SITES = [
    *re.findall(r'^    "([a-z_.]+ [\w.]+)', SWEEP, re.MULTILINE),
    *(
        line.partition(": ")[0]
        for line in (ROOT / "tests/faults/unreached.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ),
]


def test_sites_are_in_their_modules():
    named = [site for site in SITES if "*" not in site.partition(" ")[0]]
    assert len(named) > 200
    absent_sites = []
    for site in named:
        module, _, function = site.partition(" ")
        path = NATIVE / f"{module.replace('.', '/')}.pyx"
        outer, inner, *_ = [*function.split("."), ""]
        # Functions that Cython makes of an expression have names of its own; so have functions within functions.
        names = [outer] + [inner] * outer.lstrip("_")[:1].isupper()
        text = path.read_text() if path.exists() else ""
        absent_sites += [site for name in names if "*" not in name and not re.search(rf"\b{name}\b", text)]
    assert absent_sites == []


@pytest.mark.parametrize(("owner", "name"), sorted(bare.LEFT_OUT))
def test_what_is_left_out_is_there(owner, name):
    assert any(cls.__name__ == owner and hasattr(cls, name) for cls in bare.classes())
