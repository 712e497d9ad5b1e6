"""The crew of an epoch: native threads, threads if no shared object forbids them, processes, or the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from queuecore._torch.base import Loader
from queuecore._torch.batches import Batching, DatasetStream, Fetch
from queuecore._torch.copies import Guard, Parts
from queuecore._torch.native import NativeThreads, native_pictures
from queuecore._torch.package import torch
from queuecore._torch.processes import Processes
from queuecore._torch.random import draws
from queuecore._torch.threads import Alone, Threads
from queuecore._torch.vision import PictureSet, Unsuited
from queuecore._torch.workers import LoaderWorker, answer_in_threads, bound_to

__all__ = ["CrewPlan", "crew_of", "planned", "shared_draws"]

_DRAWING = [
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli"),
    *("poisson", "binomial", "multinomial", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"),
    *("rrelu", "seed", "manual_seed", "initial_seed", "get_rng_state", "set_rng_state", "default_generator"),
]
_DRAWING_FUNCTIONAL = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
_DRAWING_FUNCTIONAL += ["rrelu", "gumbel_softmax"]
_DRAWN = {
    id(getattr(module, name)): None
    for module, names in ((torch, _DRAWING), (torch.nn.functional, _DRAWING_FUNCTIONAL))
    for name in names
    if hasattr(module, name)
}
_DRAWING_METHODS = frozenset(
    ["uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_", "rvs"]
)


def _is_drawn(value: Any, name: str) -> bool:
    """Return whether a value that code names, or an unknown object's method `name`, draws from PyTorch's generator."""
    if name:
        return name in _DRAWING_METHODS
    module = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    return id(value) in _DRAWN or module.startswith(("torch.distributions", "torch.nn.init"))


def _tells_workers_apart(value: Any, name: str) -> bool:
    return name == "get_worker_info" or value is torch.utils.data.get_worker_info


def _generator_copy(generator: Any) -> Any:
    made = torch.Generator(generator.device)
    made.set_state(generator.get_state())
    return made


class CrewPlan(NamedTuple):
    """The kind of an epoch's crew, and the facts that it needs."""

    how: str  # the kind of workers; "": there are none
    parts: Parts | None = None
    guard: Any = None
    alike: bool = False  # a batch is the same, whichever worker makes it
    pictures: PictureSet | None = None  # that native threads make


def _examined(loader: Loader) -> tuple[Parts, list[Any]]:
    """Return the parts of a loader's dataset, and those of its `collate_fn`."""
    # Streams keep their place in lists and dicts too, while those of an indexed dataset are data, or what it has read.
    generators: dict[type, Callable[[Any], Any]] = {torch.Generator: _generator_copy}
    parts = Parts(loader.dataset, (torch.utils.data.Dataset,), generators, loader.settings.beside)
    return parts, [] if loader.settings.collates else Parts(loader.collate_fn).objects


def shared_draws(loader: Loader) -> str:
    """Return which part of a loader draws random numbers from a generator of the whole process; empty: none is seen."""
    parts, collation = _examined(loader)
    return draws([*parts.objects, *collation], _is_drawn)


def planned(loader: Loader) -> CrewPlan:
    """Choose the kind of a loader's crew, and log it with its reason."""
    worker_type = loader.settings.worker_type
    if loader.lasting.kept is not None:
        plan: CrewPlan = loader.lasting.kept[0]
        return plan
    pictures = _native(loader) if worker_type == "native" or (worker_type is None and loader.num_workers) else None
    if pictures is not None:
        return CrewPlan("native", pictures=pictures)
    if not loader.num_workers:
        return CrewPlan("")
    if worker_type == "process":
        return CrewPlan("process")
    parts, collation = _examined(loader)
    reason = draws([*parts.objects, *collation], _is_drawn)
    if reason and worker_type is None:
        loader.lasting.say(
            f"{loader.num_workers} worker processes, as samples draw random numbers from a generator that all threads "
            f"share: {reason}. With a generator of each sample's own, such as numpy.random.default_rng((seed, index)), "
            "they are made in threads"
        )
        return CrewPlan("process")
    shared = parts.shared(loader.settings.copy_dataset)
    loader.lasting.warn_of(shared, loader.num_workers)
    guard = Guard(shared) if shared else None
    if reason:
        loader.lasting.say(
            f"{loader.num_workers} workers in the loop's own thread, one call at a time, each with its states of the "
            f"generators of random numbers that all threads share: {reason}"
        )
        return CrewPlan("alone", parts, guard)
    loader.lasting.say(f"{loader.num_workers} worker threads")
    alike = loader.worker_init_fn is None and not parts.is_changing
    alike = alike and not draws([*parts.objects, *collation], _tells_workers_apart)
    return CrewPlan("thread", parts, guard, alike)


def _native(loader: Loader) -> PictureSet | None:
    """Return the pictures that native threads can make for a loader, and log the choice; `None`: they can't."""
    is_native = loader.settings.worker_type == "native"
    try:
        pictures = native_pictures(loader)
        if pictures is not None and not loader.num_workers:
            raise Unsuited("num_workers is 0")
    except Unsuited as unsuited:
        if is_native:
            raise ValueError(f"worker_type='native': {unsuited}") from unsuited
        loader.lasting.say(f"pictures are not made natively: {unsuited}")
        return None
    if pictures is not None:
        loader.lasting.say(f"{loader.num_workers} native threads")
    elif is_native:
        raise ValueError("worker_type='native': the dataset is no ImageFolder of torchvision's, nor a Subset of one")
    return pictures


def crew_of(loader: Loader, plan: CrewPlan, seed: int, first: int, places: Sequence[Any], indexed: bool = False) -> Any:
    """Return the crew of an epoch, with the workers that stayed from the last one, or new ones.

    `places`: the place at which each worker begins, or `None`; for an `indexed` dataset, the dataset's state.
    """
    if plan.pictures is not None:
        return NativeThreads(loader, plan.pictures, seed)
    former = None if loader.lasting.kept is None else loader.lasting.kept[1]
    if plan.how == "process":
        made = Processes(loader, seed, first, places, indexed, former)
        if loader.persistent_workers:
            loader.lasting.kept = plan, made
        return made
    if former is not None:
        workers, team, before = former
        team.settle()
        # States that an epoch before was to begin with, in workers that it never asked.
        places = [
            None if worker.left else getattr(job, "begin", None) for worker, job in zip(workers, before, strict=True)
        ]
    else:
        assert plan.parts is not None
        how = loader.settings.copy_dataset
        copies = [plan.parts.copy(how) if isinstance(how, str) else loader.dataset for _ in range(loader.num_workers)]
        workers = [LoaderWorker(number, loader, seed, one) for number, one in enumerate(copies)]
    batches = Batching.of(loader)
    kind: Any = Fetch if indexed else DatasetStream
    jobs: list[Any] = []
    for number, worker in enumerate(workers):
        own = worker.info.dataset
        how_made = batches._replace(collate=bound_to(batches.collate, loader.dataset, own))
        jobs.append(kind(how_made, own, places[number], plan.guard, number))
    crew: Any
    if plan.how == "alone":
        answer_in_threads()
        crew = Alone(jobs, workers)
    else:
        begins, say = loader.worker_init_fn is not None, loader.lasting.say
        crew = Threads(jobs, workers, not plan.alike, loader.in_order, loader.timeout, begins, say)
    if loader.persistent_workers:
        loader.lasting.kept = plan, (workers, crew.team, jobs)
    return crew
