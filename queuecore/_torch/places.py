"""Places of loaders: their saved states, and the states of generators that an epoch's order follows from."""

from __future__ import annotations

import base64
import collections
import contextlib
import copy
import hashlib
import itertools
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from queuecore._torch.base import Loader
from queuecore._torch.package import torch

__all__ = [
    "VERSION",
    "Marks",
    "arranged",
    "begins",
    "beside_state",
    "draw",
    "generators_of",
    "indices_of",
    "is_stateful",
    "mapped_state",
    "rewound",
    "sampling_again",
    "sampling_of",
    "seed_ahead",
    "seed_of",
    "seeded",
    "size_of",
]

VERSION = 1


def is_stateful(one: Any) -> bool:
    """Return whether an object can return its place and load one."""
    return hasattr(one, "state_dict") and hasattr(one, "load_state_dict")


def is_same(state: Any, other: Any) -> bool:
    """Return whether two states are equal, though one may have been through JSON."""
    if isinstance(state, torch.Tensor) or isinstance(other, torch.Tensor):
        return isinstance(state, torch.Tensor) and isinstance(other, torch.Tensor) and bool(torch.equal(state, other))
    if isinstance(state, Mapping) and isinstance(other, Mapping):
        named = {str(name): value for name, value in other.items()}
        return {str(name) for name in state} == named.keys() and all(
            is_same(value, named[str(name)]) for name, value in state.items()
        )
    if isinstance(state, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(state) == len(other) and all(map(is_same, state, other))
    return bool(np.all(state == other))


def mapped_state(
    batches: int,
    ahead: list[int],
    size: dict[str, Any],
    sampling: dict[str, Any],
    sampled: Any = None,
    datasets: Any = None,
) -> dict[str, Any]:
    """Return the state of a loader over a dataset with ``__getitem__``.

    `sampled`: a number of batches, and the sampler's state after they were drawn; for none, the first index instead.
    `datasets`: a number of batches, and the state of each worker's dataset after they were delivered.
    """
    made = {"version": VERSION, "batches": batches, "ahead": ahead, "size": size, "sampling": sampling}
    made |= {"now": _digest(torch.get_rng_state())}
    made |= {} if sampled is None else {"sampled": sampled}
    return made if datasets is None else made | {"datasets": datasets}


class Marks:
    """The states of a sampler, taken on its way: after every so many batches.

    Parameters
    ----------
    stateful : object
        The sampler; `None` if it has no state.
    every : int
        The number of batches; 0: never.
    begin : sequence, optional
        A number of batches, and the state after them, if the sampler begins there.
    """

    def __init__(self, stateful: Any, every: int, begin: Any) -> None:
        self._stateful, self._every, self.wanted = stateful, every, stateful is not None
        self._taken: collections.deque[Any] = collections.deque([] if begin is None else [begin])

    def note(self, number: int, index: Any) -> None:
        """Take the state, if it is wanted, when the index of the batch `number` has been drawn."""
        if self._stateful is None:
            return
        if not self._taken:
            self._taken.append([0, None, copy.deepcopy(index)])
        if self._every and (number + 1) % self._every == 0:
            self._taken.append([number + 1, copy.deepcopy(self._stateful.state_dict())])

    def at(self, batches: int) -> Any:
        """Return the last state taken before or at a number of batches; earlier ones are dropped."""
        taken = self._taken
        while len(taken) > 1 and taken[1][0] <= batches:
            taken.popleft()
        return copy.deepcopy(taken[0]) if taken and taken[0][0] <= batches else None


def beside_state(
    arranged: Any, places: list[Any], turn: int, is_over: bool, seeded: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the state of a loader whose workers go through an iterable dataset.

    `seeded`: the seed of the workers, and what it follows from.
    """
    made = {"version": VERSION, "arranged": arranged, "samples": 0, "place": None, "over": is_over, "seeded": seeded}
    # Workers that stay, and have delivered nothing in this epoch, are at the end of the one before.
    places = [one and one | {"over": is_over or one["over"]} for one in places]
    return made | {"streams": places, "turn": turn}


def seeded(loader: Loader) -> dict[str, Any]:
    """Return what the seed of the next workers of an iterable dataset follows from."""
    kept = loader.lasting.kept is not None
    generator = None if loader.generator is None else _text(loader.generator.get_state())
    return {"generator": generator, "drawn": not kept, "seed": loader.lasting.seed if kept else None}


def begins(state: Mapping[str, Any]) -> bool:
    """Return whether a state, over a dataset with ``__getitem__``, is that before the first draws of an epoch."""
    return state["sampling"]["seed"] is None


def seed_ahead(loader: Loader) -> int | None:
    """Return the seed that the workers of the next epoch will get from the global generator.

    `None`: there are no workers, they have a seed already, or the seed follows from the state of a loader's generator.
    """
    if not loader.num_workers or loader.generator is not None or loader.lasting.kept is not None:
        return None
    with torch.random.fork_rng(devices=[]):
        return draw(None)


def seed_of(loader: Loader, begin: dict[str, Any]) -> int:
    """Return the seed of an epoch's workers, from `seeded` or a saved state, and note it there."""
    if loader.generator is not None and begin.get("generator") is not None:
        loader.generator.set_state(_rng_state(begin["generator"]))
    drawn = draw(loader.generator) if begin.get("drawn", True) else 0
    if begin.get("seed") is None:
        begin["seed"] = drawn
    return int(begin["seed"])


def draw(generator: Any) -> int:
    """Return a seed, drawn as PyTorch's loaders draw one for each epoch."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


_ARRANGING = ("replacement", "num_samples", "num_replicas", "shuffle", "seed", "batch_size", "drop_last")


def size_of(loader: Loader) -> dict[str, Any]:
    """Return the values that a place in a dataset with ``__getitem__`` depends on: a state fits only equal ones."""
    samples = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
    sampler = loader._index_sampler
    order = []
    for one in (sampler, getattr(sampler, "sampler", None)):
        if one is not None:
            given = [(name, getattr(one, name, None)) for name in _ARRANGING]
            order.append([type(one).__qualname__, {name: to for name, to in given if isinstance(to, (bool, int))}])
    return {"samples": samples, "batch_size": loader.batch_size, "drop_last": loader.drop_last, "order": order}


def arranged(loader: Loader) -> dict[str, Any] | None:
    """Return the same for an iterable dataset; `None` for a queuecore dataset, which compares by itself."""
    if loader.settings.opened is not None:
        return None
    workers = loader.num_workers if loader.settings.beside else 0
    return {"batch_size": loader.batch_size, "drop_last": loader.drop_last, "workers": workers}


def indices_of(loader: Loader) -> Iterator[Any]:
    """Return an iterator over the sampler, whose own one need have no more than ``__next__``."""
    return map(next, itertools.repeat(iter(loader._index_sampler)))


def generators_of(loader: Loader) -> tuple[list[Any], bool, Any]:
    """Return a loader's generators, whether its sampler may draw from the global one, and the sampler with a state."""
    sampler = loader._index_sampler
    source = getattr(sampler, "sampler", sampler)
    found = [loader.generator, getattr(sampler, "generator", None), getattr(source, "generator", None)]
    own = list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())
    known = isinstance(source, torch.utils.data.SequentialSampler) or isinstance(found[2], torch.Generator)
    return own, not known, next((one for one in (sampler, source) if is_stateful(one)), None)


def sampling_of(loader: Loader) -> dict[str, Any]:
    """Return the states and seeds that decide an epoch's order and the random numbers of its workers."""
    own, draws, stateful = generators_of(loader)
    drawn = torch.get_rng_state() if loader.lasting.drawn is None else loader.lasting.drawn
    return {
        "generators": [_text(one.get_state()) for one in own],
        "global": _text(drawn) if draws else None,
        "sampler": None if stateful is None else copy.deepcopy(stateful.state_dict()),
        # Persistent workers keep the seed that was drawn for their first epoch.
        "drawn": loader.lasting.kept is None,
        "seed": None if loader.lasting.kept is None else loader.lasting.seed,
    }


@contextlib.contextmanager
def sampling_again(loader: Loader, state: Mapping[str, Any] | None) -> Generator[bool]:
    """Draw an epoch's order again as a state has it, and leave the global generator unchanged for the program.

    Yields whether the order is drawn apart from the global generator.
    """
    own_generators, draws, stateful = generators_of(loader)
    if state is None and (loader.lasting.drawn is None or not draws):
        yield False
        return
    now = torch.get_rng_state()
    begin = loader.lasting.drawn
    going_on = False
    if state is not None:
        sampling = state["sampling"]
        loader.lasting.drawn = None
        _set_generators(own_generators, sampling)
        if stateful is not None and sampling["sampler"] is not None:
            stateful.load_state_dict(copy.deepcopy(sampling["sampler"]))
        begin = _rng_state(sampling["global"]) if draws and sampling["global"] is not None else None
        going_on = state["now"] == _digest(now)  # the generator has its state of the time when the place was saved
        # Or that of the epoch's beginning.
        if (going_on and begins(state)) or (begin is not None and torch.equal(begin, now)):
            yield False
            return
    with torch.random.fork_rng(devices=[]):
        if begin is not None:
            torch.set_rng_state(begin)
        yield True
        after = torch.get_rng_state()
    # Otherwise later epochs would draw from this program's first state of the generator, and could repeat old orders.
    loader.lasting.drawn = after if draws and not going_on else None


def rewound(loader: Loader, state: Mapping[str, Any] | None, indices: Iterator[Any]) -> tuple[Iterator[Any], int]:
    """Return an iterator over the sampler, in `sampling_again`, and the number of the batch that it gives first.

    A sampler's state may be its place (then the order goes on there), or decide the order of an epoch (then the order
    is drawn again from its start). Which of them shows when it is drawn again, by `indices`: if that leads elsewhere,
    the state at the epoch's beginning was the place where another epoch ended.
    """
    own_generators, _, stateful = generators_of(loader)
    if state is None or stateful is None:
        return indices, 0
    number, position, *first = state.get("sampled") or (0, None)
    with contextlib.suppress(Exception):
        drawn = list(itertools.islice(indices, number or 1))
        if number and len(drawn) == number and is_same(stateful.state_dict(), position):
            return indices, number
        if not number and drawn and (not first or is_same(drawn[0], first[0])):
            return itertools.chain(drawn, indices), 0
    _set_generators(own_generators, state["sampling"])
    if number:
        stateful.load_state_dict(copy.deepcopy(position))
    return indices_of(loader), number


def _set_generators(generators: list[Any], sampling: Mapping[str, Any]) -> None:
    for one, text in zip(generators, sampling["generators"], strict=True):
        one.set_state(_rng_state(text))


def _digest(state: Any) -> str:
    return hashlib.sha256(state.numpy().tobytes()).hexdigest()


def _text(state: Any) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _rng_state(text: str) -> Any:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
