"""A dataset in words: its steps as a tree, and the place where each of them runs."""

from __future__ import annotations

from collections.abc import Mapping

from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import Map, Prefetch

__all__ = ["lines_of", "shown", "step_labels"]


def step_labels(chain: Chain) -> list[str]:
    """Return the steps of a chain, in their order."""
    labels = []
    for step in chain.steps:
        words = step.describe() or ["prefetch", *vars(step).values()]
        parts = [str(word) if isinstance(step, Map) else repr(word) for word in words[1:]]
        labels.append(f"{words[0]}({', '.join(parts)})")
    return labels


def shown(chain: Chain) -> str:
    """Return a chain in one line."""
    inputs = ", ".join(shown(one) for one in chain.source.inputs if one.source.has_elements)
    source = f"{chain.source.label()}{' of ' if inputs else ''}{inputs}"
    return f"<{source}>" + "".join(f".{step}" for step in step_labels(chain))


def lines_of(chain: Chain, front: str = "", kept: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """Return what is done and where it is done, the last step first, the inputs of the source behind it and further in.

    Parameters
    ----------
    chain : Chain
        All of it is done on the host.
    front : str
        What lines begin with.
    kept : mapping of int to str, optional
        Where a device follows: for steps that are marked for it, by their place, what keeps them on the host; where it
        says nothing, that is a step behind them.
    """
    lines = []
    for at, (step, label) in reversed(list(enumerate(zip(chain.steps, step_labels(chain), strict=True)))):
        what = ": how far ahead" if isinstance(step, Prefetch) else "" if isinstance(step, Map) else ": order"
        if kept is not None and isinstance(step, Map) and step.on_device:
            what += f"; not on the device: {kept.get(at, 'a step behind it is done on the host')}"
        lines.append((front + label, "native" + what))
    source = chain.source
    where = source.where()
    if kept is not None and source.on_device:
        where += "; not on the device: it runs in Python"
    lines.append((front + source.label(), where))
    for one in source.inputs:
        if not one.source.has_elements:
            continue
        lines += lines_of(one, front + "    ", None if kept is None else {})
    return lines
