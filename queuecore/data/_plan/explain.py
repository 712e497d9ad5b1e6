"""A dataset in words: its steps as a tree, and the place where each of them runs."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence

from queuecore._core.steps.stages import SequenceStep
from queuecore._core.stream.describe import DENSE, FIXED, RAGGED, STRING
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import Map, Prefetch

__all__ = ["lines_of", "shown", "step_labels", "written"]

_INSET = 8  # of what is done, behind the word for where


def step_labels(chain: Chain) -> list[str]:
    """Return the steps of a chain, in their order."""
    labels = []
    for step in chain.steps:
        if isinstance(step, Map):
            labels.append(f"map({step.stage.shown})")
            continue
        words = step.describe() or ["prefetch", *vars(step).values()]
        labels.append(f"{words[0]}({', '.join(map(repr, words[1:]))})")
    return labels


def _at_a_time(chain: Chain) -> list[str]:
    """Return for each map whether it makes many rows at a time, and what else there is to say of its steps.

    The conditions are in `stream/rows.pyx`.
    """
    made = chain.made
    takes_many = made.step is not None and made.step.many and chain.source.gives_many
    takes_many = takes_many and all(
        one.kind in (FIXED, STRING, RAGGED) or (one.kind == DENSE and len(one.shape) == 1) for one in made.components
    )
    words: list[str] = []
    remarks_told = 0
    for count in range(1, len(chain.stages) + 1):
        step = chain.source.made(chain.stages[:count]).step
        last = step.steps[-1] if isinstance(step, SequenceStep) else step
        remarks = [] if step is None else step.remarks()
        rows = "many rows at a time" if takes_many and last is not None and last.many else "row by row"
        words.append("; ".join([rows, *remarks[remarks_told:]]))
        remarks_told = len(remarks)
    return words


def shown(chain: Chain) -> str:
    """Return a chain in one line."""
    inputs = ", ".join(shown(one) for one in chain.source.inputs if one.source.has_elements)
    source = f"{chain.source.label()}{' of ' if inputs else ''}{inputs}"
    return f"<{source}>" + "".join(f".{step}" for step in step_labels(chain))


def lines_of(chain: Chain, front: str = "", reasons: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """Return what is done and where it is done, the last step first, the inputs of the source behind it and further in.

    Parameters
    ----------
    chain : Chain
        All of it is done on the host.
    front : str
        What lines begin with.
    reasons : mapping of int to str, optional
        Where a device follows: for steps that are marked for it, by their place, what keeps them on the host; where it
        says nothing, that is a step behind them.
    """
    lines = []
    words = _at_a_time(chain) if chain.stages else []
    for at, (step, label) in reversed(list(enumerate(zip(chain.steps, step_labels(chain), strict=True)))):
        what = ": how far ahead" if isinstance(step, Prefetch) else ": order"
        if isinstance(step, Map):
            what = f": {words.pop()}"
        if reasons is not None and isinstance(step, Map) and step.on_device:
            what += f"; not on the device: {reasons.get(at, 'a step behind it is done on the host')}"
        lines.append((front + label, "native" + what))
    source = chain.source
    where, cold = source.where(), source.cold(chain.options)
    if cold:
        where += f"; what is not in the page cache: {cold}"
    if reasons is not None and source.on_device:
        where += "; not on the device: it runs in Python"
    lines.append((front + source.label(), where))
    for one in source.inputs:
        if not one.source.has_elements:
            continue
        lines += lines_of(one, front + "    ", None if reasons is None else {})
    return lines


def terminal_width() -> int:
    """Return how many characters a line of the terminal has that standard output goes to; 0: it goes elsewhere."""
    output = sys.__stdout__
    return shutil.get_terminal_size().columns if output is not None and output.isatty() else 0


def written(lines: Sequence[tuple[str, str]]) -> str:
    """Return what `lines_of` returns as text: a line for each step, with the word for where it is done in front.

    On a terminal, lines are broken that are longer than it is wide.
    """
    width = terminal_width()
    texts = []
    for what, where in lines:
        word, rest = re.fullmatch(r"(\w+)(.*)", where, re.DOTALL).groups()  # type: ignore[union-attr]
        text = f"{word:{_INSET}}{what}{':' if rest.startswith(' ') else ''}{rest}"
        if 0 < width < len(text):
            inset = _INSET + len(what) - len(what.lstrip()) + 4
            text = textwrap.fill(
                text, max(width, inset + 20), subsequent_indent=" " * inset, break_on_hyphens=False, expand_tabs=False
            )
        texts.append(text)
    return "\n".join(texts)
