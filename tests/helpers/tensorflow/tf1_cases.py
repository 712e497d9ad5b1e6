"""Expressions of TensorFlow 1 that have the same meaning here, and what TensorFlow says to them.

What it says is recorded in ``corpus/tensorflow/NAME.json``. Where there is a Python with TensorFlow it is asked again,
and with QUEUECORE_RECORD=1 recorded anew.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

from helpers.tensorflow import expressions as tensorflow_tf1
from helpers.tensorflow.peers import PYTHON

import queuecore.tf1 as tf1

CORPUS = Path(__file__).parents[2] / "corpus" / "tensorflow"


def asked(cases: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return TensorFlow's answers, of TensorFlow itself."""
    assert PYTHON is not None
    done = subprocess.run(
        [PYTHON, "-P", tensorflow_tf1.__file__], input=json.dumps(cases).encode(), capture_output=True, timeout=570,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:].decode()
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def recorded(name: str, expressions: list[str], runs: int) -> list[dict[str, Any]]:
    """Return TensorFlow's answers as they are recorded."""
    path = CORPUS / f"{name}.json"
    if os.environ.get("QUEUECORE_RECORD") == "1":
        CORPUS.mkdir(exist_ok=True, parents=True)
        told = dict(zip(expressions, asked([(one, runs) for one in expressions]), strict=True))
        lines = [f"{json.dumps(one)}: {json.dumps(answer)}" for one, answer in told.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    known = json.loads(path.read_text())
    return [known[one] for one in expressions]


def same(ours: Any, theirs: Any, exact: bool) -> bool:
    """Whether values are the same, floats within a few of their last digits unless `exact`."""
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(same(a, b, exact) for a, b in zip(ours, theirs, strict=True))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key], exact) for key in ours)
    if isinstance(ours, float) and isinstance(theirs, float) and not exact:
        return math.isclose(ours, theirs, rel_tol=2e-5, abs_tol=2e-6)
    return type(ours) is type(theirs) and ours == theirs


def compatible(static: Any, value: Any) -> bool:
    """Whether a value has the shape that was known of it."""
    if isinstance(static, dict):
        return all(compatible(static[key], value[key]) for key in static)
    if static is None or static == "no tensor":
        return True
    if static and isinstance(static[0], list) or len(static) and static[0] == "no tensor":
        return all(compatible(one, part) for one, part in zip(static, value, strict=True))
    if len(value) != 3 or not isinstance(value[0], str):
        return all(compatible(one, part) for one, part in zip(static, value, strict=True))
    return len(static) == len(value[1]) and all(a in (None, b) for a, b in zip(static, value[1], strict=True))


def known_by(ours: Any, theirs: Any) -> bool:
    """Whether as much is known of a shape here as there."""
    if isinstance(ours, dict):
        return all(known_by(ours[key], theirs[key]) for key in ours)
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs is None or ours == theirs
    return len(ours) == len(theirs) and all(known_by(a, b) for a, b in zip(ours, theirs, strict=True))


REFUSALS = {"ValueError", "TypeError", "NotImplementedError", "IndexError"}


def raised(answer: dict[str, Any]) -> set[str]:
    """Return the classes of the error that an answer is, while the graph was built or in its first run."""
    first = {"error": answer["built"]} if "built" in answer else answer["runs"][0]
    return set(first["error"]) if isinstance(first, dict) and "error" in first else set()


def differences(expression: str, runs: int, theirs: dict[str, Any], exact: bool = False) -> list[str]:
    """Return what is not as TensorFlow says."""
    ours = tensorflow_tf1.answer(tf1, expression, runs)
    difference = f"{expression}: {ours} and there {theirs}"
    if "built" in theirs or "built" in ours:
        # One may refuse earlier than the other; but both must.
        return [] if raised(ours) & REFUSALS and raised(theirs) else [difference]
    wrong = []
    if not known_by(ours["sides"], theirs["sides"]):
        wrong.append(f"static shapes: {difference}")
    for mine, one in zip(ours["runs"], theirs["runs"], strict=True):
        if isinstance(one, dict) and "error" in one:
            if not (isinstance(mine, dict) and one["error"][0] in mine.get("error", ())):
                wrong.append(difference)
        elif isinstance(mine, dict) and "error" in mine or not same(mine, one, exact):
            wrong.append(difference)
        elif not compatible(ours["sides"], mine):
            wrong.append(f"its own static shape: {difference}")
    return wrong
