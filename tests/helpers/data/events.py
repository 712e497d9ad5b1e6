"""What an iterator gives, errors among it, and the check of every place between."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from helpers.data.functions import plain

from queuecore.data import Dataset, Options
from queuecore.errors import QueueCoreError

MOST = 120  # events of a run
OPTIONS = [Options(num_threads=number) for number in (1, 2, 7)]
ENDS = " that ends it"


def event(it: Any) -> Any:
    """Return the next element, the class of an error, or None where nothing comes any more."""
    try:
        return plain(next(it))
    except StopIteration:
        return None
    except QueueCoreError as error:
        return type(error).__name__ + (ENDS if it.closed else "")


def rest(it: Any, most: int = MOST) -> list[Any]:
    """Return what comes until the end."""
    events = []
    while len(events) < most:
        one = event(it)
        if one is None:
            break
        events.append(one)
        if isinstance(one, str) and one.endswith(ENDS):
            break
    return events


def check(make: Callable[[Options], Dataset], seed: int) -> list[Any]:
    """Save a pipeline, which `make` makes with options, at each of its places, go on from each; return what comes."""
    ds = make(OPTIONS[seed % len(OPTIONS)])
    with iter(ds) as it:
        all_events = rest(it)
    # An error that ends the run comes again, from a place behind it.
    last = [one for one in all_events[-1:] if isinstance(one, str) and one.endswith(ENDS)]
    states = []
    with iter(make(OPTIONS[seed % len(OPTIONS)])) as it:
        states.append(json.dumps(it.state_dict()))
        for expected in all_events:
            assert event(it) == expected, (seed, ds.plan(), all_events)
            states.append(json.dumps(it.state_dict()))
    for index, state in enumerate(states):
        with iter(make(OPTIONS[(seed + index) % len(OPTIONS)])) as it:
            it.load_state_dict(json.loads(state))
            wanted = all_events[index:] or last
            came = rest(it)[: max(MOST - index, len(wanted))]
        place = json.loads(state)["position"]
        assert came == wanted, f"seed {seed}, place {index} of {all_events}: {came}, {place}\n{ds.plan()}"
    return all_events
