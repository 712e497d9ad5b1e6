"""Places of loaders: their saved states, and the states of generators that an epoch's order follows from."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Generator, Mapping
from typing import Any

from queuecore._torch.base import Loader
from queuecore._torch.package import torch

__all__ = [
    "VERSION",
    "arranged",
    "beside_state",
    "draw",
    "generators_of",
    "is_stateful",
    "mapped_state",
    "sampling_again",
    "sampling_of",
    "size_of",
]

VERSION = 1


def is_stateful(one: Any) -> bool:
    """Return whether an object can return its place and load one."""
    return hasattr(one, "state_dict") and hasattr(one, "load_state_dict")


def mapped_state(batches: int, ahead: list[int], size: dict[str, Any], sampling: dict[str, Any]) -> dict[str, Any]:
    made = {"version": VERSION, "batches": batches, "ahead": ahead, "size": size, "sampling": sampling}
    return made | {"now": _digest(torch.get_rng_state())}


def beside_state(arranged: Any, places: list[Any], turn: int, over: bool) -> dict[str, Any]:
    made = {"version": VERSION, "arranged": arranged, "samples": 0, "place": None, "over": over}
    return made | {"streams": places, "turn": turn}


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
    if loader._opened is not None:
        return None
    workers = loader.num_workers if loader._epoch.beside else 0
    return {"batch_size": loader.batch_size, "drop_last": loader.drop_last, "workers": workers}


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
    drawn = torch.get_rng_state() if loader._drawn is None else loader._drawn
    return {
        "generators": [_text(one.get_state()) for one in own],
        "global": _text(drawn) if draws else None,
        "sampler": None if stateful is None else stateful.state_dict(),
        # Persistent workers keep the seed that was drawn for their first epoch.
        "drawn": loader._kept is None,
        "seed": None if loader._kept is None else loader._seed,
    }


@contextlib.contextmanager
def sampling_again(loader: Loader, state: Mapping[str, Any] | None) -> Generator[bool]:
    """Draw an epoch's order again as a state has it, and leave the global generator unchanged for the program.

    Yields whether the order is drawn apart from the global generator.
    """
    own, draws, stateful = generators_of(loader)
    if state is None and (loader._drawn is None or not draws):
        yield False
        return
    now = torch.get_rng_state()
    begin = loader._drawn
    going_on = False
    if state is not None:
        sampling = state["sampling"]
        loader._drawn = None
        for one, text in zip(own, sampling["generators"], strict=True):
            one.set_state(_rng_state(text))
        if stateful is not None and sampling["sampler"] is not None:
            stateful.load_state_dict(sampling["sampler"])
        begin = _rng_state(sampling["global"]) if draws and sampling["global"] is not None else None
        if begin is not None and torch.equal(begin, now):  # the generator has its state of the epoch's beginning
            yield False
            return
        going_on = state["now"] == _digest(now)  # or its state of the time when the place was saved
    with torch.random.fork_rng(devices=[]):
        if begin is not None:
            torch.set_rng_state(begin)
        yield True
        after = torch.get_rng_state()
    # Otherwise later epochs would draw from this program's first state of the generator, and could repeat old orders.
    loader._drawn = after if draws and not going_on else None


def _digest(state: Any) -> str:
    return hashlib.sha256(state.numpy().tobytes()).hexdigest()


def _text(state: Any) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _rng_state(text: str) -> Any:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
