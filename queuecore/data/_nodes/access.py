"""One element of a dataset, by its number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from queuecore.data._nodes.python_map import PythonMap
from queuecore.data._nodes.run import Seeded, open_chain
from queuecore.data._plan.chain import Chain
from queuecore.data._plan.steps import Prefetch, Repeat, Skip, Take
from queuecore.data.options import Options
from queuecore.errors import OutOfRangeError

__all__ = ["element_at"]


def element_at(chain: Chain, number: int) -> Any:
    """Return an element; see `queuecore.data.experimental.at`."""
    if number >= 0:
        steps = [step for step in chain.steps if not isinstance(step, Prefetch)]
        source = chain.source
        if not steps and isinstance(source, PythonMap):  # called for that element alone
            return source.function(element_at(source.inputs[0], number), 0, number)[0]
        once = replace(chain, steps=tuple(steps[:-1])) if steps and isinstance(steps[-1], Repeat) else None
        count = None if once is None or once.shuffles else once.known_count()
        if once is not None and count and not isinstance(count, float):
            times = steps[-1].number  # type: ignore[attr-defined]
            if times < 0 or number < count * times:
                return element_at(once, number % count)
        # The first pass of each shuffle, which isn't used up by that.
        shuffles = chain.shuffles
        seeded = Seeded([one.seeds.pair for one in shuffles], [0] * len(shuffles), Options(), None)
        with open_chain(chain.then(Skip(number), Take(1)), seeded) as elements:
            for element in elements:
                return element
    total = chain.known_count()
    size = "" if total is None or isinstance(total, float) else str(total)
    raise OutOfRangeError(f"Index out of range [0, {size}):{number}")
