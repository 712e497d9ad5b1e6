"""The examples in a document, run like those in docstrings."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"


def failures(name: str, heading: str) -> str:
    """Run the examples under a heading of the second level; return what is wrong with them."""
    text = (DOCS / name).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    test = doctest.DocTestParser().get_doctest(text.replace("```", ""), {}, f"{name}: {heading}", name, 0)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)
