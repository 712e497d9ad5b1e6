"""Copies of datasets for workers, what they still share, and who draws from generators that a process shares."""

from __future__ import annotations

import csv
import functools
import gc
import io
import itertools
import random
import sqlite3
import sys
import threading
import types
import zipfile
from random import choice
from typing import Any

import numpy as np
import pytest

from queuecore._torch.copies import Guard, Parts
from queuecore._torch.random import States, draws
from queuecore.errors import InvalidArgumentError


class Base:
    """A dataset by what it can do."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return index


class Slots:
    __slots__ = ("held", "__own")

    def __init__(self, held: Any) -> None:
        self.held, self.__own = held, 1

    def __getitem__(self, index: int) -> Any:
        return self.held[index]


class Delegating(Base):
    """What it doesn't have, the dataset in it has: asked before there is one, it never ends."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Reopening(Base):
    """Leaves its file out of a copy."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"file": None}


class Transform:
    def __init__(self) -> None:
        self.array = np.zeros(3)

    def __call__(self, value: Any) -> Any:
        self.last = value
        return value


class Plain:
    """Nothing that is called, and no dataset."""


def copied(dataset: Any, how: str = "shallow") -> Any:
    return Parts(dataset).copy(how)


def test_attributes_are_a_copys_own_and_what_they_hold_is_shared():
    one = Base(array=np.zeros(3), names=["a"], table={"x": 1}, count=0, lock=threading.Lock(), other=Plain())
    two = copied(one)
    assert type(two) is Base and two is not one
    assert all(getattr(two, name) is getattr(one, name) for name in vars(one))
    two.count = 5
    assert one.count == 0


@pytest.mark.parametrize(
    "hold",
    [
        lambda inner: Base(inner=inner),
        lambda inner: Base(inner=[[inner]]),
        lambda inner: Base(inner={"x": (inner, 1)}),
        lambda inner: Base(inner=functools.partial(max, inner)),
        lambda inner: Base(inner=inner.__getitem__),
        lambda inner: Base(inner=lambda index: inner[index]),
        lambda inner: Slots(inner),
        lambda inner: Delegating(inner=inner),
        lambda inner: Base(inner=types.SimpleNamespace(), wrapper=[Plain(), Base(again=inner)]),
    ],
)
def test_every_dataset_within_is_copied_once(hold):
    inner = Base()
    one = hold(inner)
    before = [part for part in Parts(one).objects if isinstance(part, Base)]
    after = [part for part in Parts(copied(one)).objects if isinstance(part, Base)]
    assert inner in before and len(before) == len(after)
    assert not {id(part) for part in before} & {id(part) for part in after}


def test_what_holds_itself_and_what_is_held_twice():
    one = Base(inner=Base())
    one.same, one.me, one.bound = [one.inner], one, one.__getitem__
    two = copied(one)
    assert two.me is two and two.same[0] is two.inner is not one.inner and two.bound.__self__ is two


def test_transformations_with_a_state_and_generators_are_copied():
    transform, still = Transform(), functools.partial(max, 1)
    one = Base(transforms=[transform], still=still, rng=np.random.default_rng(3), dice=random.Random(4))
    two = copied(one)
    assert two.transforms[0] is not transform and two.transforms[0].array is transform.array and two.still is still
    assert two.rng.random() == one.rng.random() and two.dice.random() == one.dice.random()


class Counting(Base):
    def __getitem__(self, index):
        self.count = index
        return index


class Setting(Base):
    def __getitem__(self, index):
        setattr(self, "count", index)  # noqa: B010
        return index


def test_copies_that_may_become_different_are_known():
    for still in (Base(), Base(inner=[Base()], draw=lambda: 1), [1, 2]):
        assert not Parts(still).is_changing
    for one in (Counting(), Setting(), Transform(), np.random.default_rng(1)):
        for held in (Base(inner=one), Base(inner={"x": [one]})):
            assert Parts(held).is_changing


def test_data_is_not_gone_through():
    class Item:
        def __getitem__(self, index):
            return index

    seen = Parts(Base(names=[(str(i), i) for i in range(5000)], few=[Item(), Item()]))
    assert len(seen.objects) == 3
    assert copied([1, 2, 3]) == [1, 2, 3]
    for data in ([1], (1, 2), np.zeros(2), {"a": 1}):
        assert copied(data) is data


def test_a_deep_copy_shares_nothing_but_handles():
    file = io.BytesIO()
    one = Base(array=np.zeros(3), file=file)
    two = copied(one, "deep")
    assert two.array is not one.array and two.file is file
    with pytest.raises(InvalidArgumentError, match="copy_dataset='deep'.*lock"):
        copied(Base(lock=threading.Lock()), "deep")


class Closing(Base):
    def __del__(self) -> None:
        self.file.close()


@pytest.mark.parametrize("how", ["shallow", "deep"])
def test_a_copy_that_goes_closes_nothing(how):
    original = Base(inner=Closing(file=io.BytesIO()))
    duplicate = copied(original, how)
    assert isinstance(duplicate.inner, Closing) and duplicate.inner[1] == 1 and duplicate.inner is not original.inner
    del duplicate
    gc.collect()
    assert not original.inner.file.closed
    file = original.inner.file
    del original
    assert file.closed


def handles(tmp_path: Any) -> dict[str, Any]:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a", "b")
    h5 = types.ModuleType("h5py")
    h5.File = type("File", (), {"__module__": "h5py._hl.files"})  # type: ignore[attr-defined]
    base = sqlite3.connect(tmp_path / "x.db", check_same_thread=False)
    return {
        "file": open(path, "rb"),
        "memory": io.BytesIO(b"abc"),
        "database": base,
        "cursor": base.cursor(),
        "archive": zipfile.ZipFile(path),
        "generator": (x for x in range(3)),
        "counter": itertools.count(),
        "rows": csv.reader(["a,b"]),
        "hdf5": h5.File(),
    }


def test_handles_that_copies_share_are_found_where_they_are(tmp_path):
    by_name = handles(tmp_path)
    for name, handle in by_name.items():
        for one in (Base(**{name: handle}), Base(inner=[Base(**{name: handle})]), Base(helper=Plain())):
            if hasattr(one, "helper"):
                setattr(one.helper, name, handle)
            for how in ("shallow", False):
                (shared,) = Parts(one).shared(how)
                assert shared.handle is handle
                assert shared.path.startswith("dataset.") and shared.path.endswith(f".{name}")
    for name in ("file", "cursor", "database", "archive", "memory"):
        by_name[name].close()


def test_a_transaction_of_lmdb_is_a_handle_and_its_environment_is_not(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path)) as environment, environment.begin() as transaction:
        one = Base(environment=environment, transaction=transaction)
        assert [shared.path for shared in Parts(one).unsafe] == ["dataset.transaction"]


def test_what_is_safe_to_share_or_not_shared(tmp_path):
    with open(tmp_path / "x", "w+b") as file:
        assert Parts(Base(out=sys.stderr, array=np.zeros(2), lock=threading.Lock())).shared("shallow") == []
        assert Parts(Reopening(file=file)).shared("shallow") == []
        assert [one.path for one in Parts(Reopening(file=file)).shared(False)] == ["dataset.file"]
    assert Parts(Base(file=file)).unsafe == []  # it is closed


def test_who_shares_a_handle_shares_a_lock():
    file, other = io.BytesIO(), io.BytesIO()
    guard, rival = (Guard(Parts(Base(a=file, b=other)).unsafe) for _ in range(2))
    inside = threading.Event()

    def enter() -> None:
        with rival:
            inside.set()

    with guard:
        thread = threading.Thread(target=enter)
        thread.start()
        assert not inside.wait(0.05)
    thread.join(20)
    assert inside.is_set()
    with guard, Guard(Parts(Base(a=io.BytesIO())).unsafe):
        pass


# -- random numbers ----------------------------------------------------------------------------------------------------


def rolls() -> float:
    return random.random()


class InAMethod(Base):
    def __getitem__(self, index):
        return self.noise()

    def noise(self):
        return np.random.rand()


class InAFunction(Base):
    def __getitem__(self, index):
        return [rolls() for _ in range(2)]


class Imported(Base):
    def __getitem__(self, index):
        from numpy.random import randint, shuffle

        return shuffle, randint(3)


class ImportedModule(Base):
    def __getitem__(self, index):
        import numpy.random as dice

        return dice.rand()


class InAClass(Base):
    def __getitem__(self, index):
        return Chooses()(index)


class Chooses:
    def __call__(self, values):
        return choice(values)


class Above(InAMethod):
    def __getitem__(self, index):
        return super().__getitem__(index)


class AtFirst(Base):
    def __init__(self):
        self.order = random.sample(range(3), 3)

    def later(self):
        return random.random()


class OfItsOwn(Base):
    def __getitem__(self, index):
        rng, dice = np.random.default_rng(index), random.Random(index)
        return rng.random() + dice.random() + np.random.Generator(np.random.PCG64(index)).random()


@pytest.mark.parametrize(
    "dataset",
    [
        InAMethod(), InAFunction(), Imported(), ImportedModule(), InAClass(), Above(), Base(t=[Chooses()]),
        Base(inner=Base(inner=InAMethod())), Base(draw=random.random), Base(draw=lambda: rolls()),
        Base(draw=functools.partial(rolls)),
    ],
)  # fmt: skip
def test_who_draws_from_shared_generators_is_seen(dataset):
    assert draws(Parts(dataset).objects)


@pytest.mark.parametrize("dataset", [Base(), AtFirst(), OfItsOwn(), Base(rng=np.random.default_rng(1)), [1, 2]])
def test_who_does_not_draw_is_not_taken_for_one_who_does(dataset):
    assert draws(Parts(dataset).objects) == ""


def test_what_others_know_of_drawing_is_asked():
    class Tosses(Base):
        def __getitem__(self, index):
            return index.toss_()

    assert draws([Tosses()]) == ""
    assert "toss_" in draws([Tosses()], lambda value, name: name == "toss_")


def test_states_are_swapped_in_and_go_on():
    def draw() -> tuple[float, float, float]:
        return random.random(), np.random.rand(), np.random.randn()

    def seed(number: int) -> None:
        random.seed(number)
        np.random.seed(number)

    states = random.getstate(), np.random.get_state()
    try:
        expected = []
        for number in (1, 2):
            seed(number)
            expected.append([draw() for _ in range(3)])
        seed(9)
        mine = [draw() for _ in range(4)]
        seed(9)
        workers = [States(functools.partial(seed, number)) for number in (1, 2)]
        draws: list[list[Any]] = [[], []]
        results = []
        for turn in range(4):
            results.append(draw())
            for number, one in enumerate(workers):
                if turn < 3:
                    with one.swapped_in():
                        draws[number].append(draw())
        assert draws == expected and results == mine
        with pytest.raises(KeyError), workers[0].swapped_in():
            raise KeyError
        assert draw() not in expected
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
