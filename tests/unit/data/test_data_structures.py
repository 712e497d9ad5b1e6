"""Structures of elements: tuples with names, records, `None`, sparse and ragged parts, datasets, from end to end.

tf.data keeps each of these through all steps, but for dataclasses, which are ours.
"""

import dataclasses
import pickle
import types
from typing import NamedTuple

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.data.transformed import check, run, values

from queuecore.data import ArraySpec, Dataset, DatasetSpec, Options, SparseSpec
from queuecore.errors import DtypeError, FailedPreconditionError, InvalidArgumentError, PipelineError
from queuecore.ragged import Ragged, Sparse

INT64 = np.dtype(np.int64)
NUMBER = ArraySpec((), INT64)


class Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass(eq=False)
class Record:
    x: object
    y: object = None
    calls: int = dataclasses.field(default=0, init=False)


class Attributes:
    """As a class that the package attrs made."""

    __attrs_attrs__ = (types.SimpleNamespace(name="x"), types.SimpleNamespace(name="y"))

    def __init__(self, x, y):
        self.x, self.y = x, y


def record(x, y):
    made = Record(x, y)
    made.calls = x
    return made


KINDS = {"names": Point, "dataclass": record, "attrs": Attributes, "pair": lambda x, y: (x, y)}


def plain(element):
    """The class of a structure, and its parts as plain values."""
    if isinstance(element, tuple):
        return type(element), *map(plain, element)
    if isinstance(element, Record | Attributes):
        return type(element), *map(plain, vars(element).values())
    return None if element is None else values(element)


STEPS = {
    "as it is": lambda ds: ds,
    "mapped": lambda ds: ds.map(lambda *p: p[0] if len(p) == 1 else p),
    "in Python": lambda ds: ds.map(in_python(lambda *p: p[0] if len(p) == 1 else p)),
    "in threads": lambda ds: ds.map(in_python(lambda *p: p[0] if len(p) == 1 else p), 2),
    "filtered": lambda ds: ds.filter(lambda *p: np.bool_(True)),
    "filtered in Python": lambda ds: ds.filter(in_python(lambda *p: True)),
    "shuffled": lambda ds: ds.shuffle(1).repeat(1),
    "kept": lambda ds: ds.cache(),
    "joined": lambda ds: ds.take(1).concatenate(ds.skip(1)),
    "rebatched": lambda ds: ds.batch(2).unbatch(),
    "flat": lambda ds: ds.flat_map(lambda *p: Dataset.from_tensors(p[0] if len(p) == 1 else p)),
    "chosen": lambda ds: Dataset.choose_from_datasets([ds], Dataset.range(1).repeat()),
    "scanned": lambda ds: ds.scan(0, lambda state, p: (state, p)),
    "asserted": lambda ds: ds.assert_cardinality(3),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_structures_stay_what_they_are(kind, step):
    make = KINDS[kind]
    if (kind, step) == ("dataclass", "as it is") or kind == "dataclass":
        ds = Dataset.from_tensor_slices(record(np.arange(3), [4.0, 5.0, 6.0]))
    else:
        ds = Dataset.from_tensor_slices(make([0, 1, 2], [4.0, 5.0, 6.0]))
    expected = [plain(make(x, 4.0 + x)) for x in range(3)]
    made = STEPS[step](ds)
    assert run(made, plain) == expected
    assert plain_spec(made.element_spec) == plain_spec(ds.element_spec)
    batch = next(iter(made.batch(3)))
    assert plain(batch)[0] is type(make(0, 0))
    assert plain(batch)[1:3] == ([0, 1, 2], [4.0, 5.0, 6.0])


def plain_spec(spec):
    parts = spec if isinstance(spec, tuple) else vars(spec).values()
    return type(spec), *parts


def test_structures_that_functions_return():
    for function in (lambda f: f, in_python):
        ds = Dataset.range(2).map(function(lambda x: Point(x, {"a": (x * 2, None)})))
        check(lambda ds=ds: ds, [(Point, x, {"a": (2 * x, None)}) for x in range(2)], plain)
        assert ds.element_spec == Point(NUMBER, {"a": (NUMBER, None)})
        assert isinstance(ds.element_spec, Point)
    assert "traced" in Dataset.range(2).map(lambda x: Point(x, x)).plan()
    # A tuple with names is one argument, as in tf.data.
    sums = Dataset.range(2).map(lambda x: Point(x, x + 1)).map(lambda p: p.x + p.y)
    assert run(sums, values) == [1, 3]
    padded = Dataset.range(1, 3).map(in_python(lambda n: Point(np.arange(int(n)), n)))
    assert run(padded.padded_batch(2), plain) == [(Point, [[0, 0], [0, 1]], [1, 2])]
    native = Dataset.from_tensor_slices(Point(Ragged.from_list([[1], [2, 3]]), [1, 2])).padded_batch(2)
    assert run(native, plain) == [(Point, [[1, 0], [2, 3]], [1, 2])]
    total = Dataset.range(4).reduce(Point(0, 1), lambda state, x: Point(state.x + x, state.y * 2))
    assert plain(total) == (Point, 6, 16)


def test_arrays_of_records_are_copied():
    shared = np.zeros(2, np.int64)

    def fill(x):
        shared[:] = x
        return record(shared, x)

    assert [one.x.tolist() for one in Dataset.range(3).map(in_python(fill))] == [[0, 0], [1, 1], [2, 2]]


def test_pickled_structures():
    ds = pickle.loads(pickle.dumps(Dataset.from_tensor_slices(Point([1, 2], None)).batch(1)))
    assert run(ds, plain) == [(Point, [1], None), (Point, [2], None)]


@pytest.mark.parametrize("make", [lambda f: f, in_python], ids=["native", "Python"])
def test_none(make):
    ds = Dataset.from_tensor_slices(([1, 2], None))
    assert (ds.element_spec, run(ds)) == ((NUMBER, None), [(("int64", (), 1), None), (("int64", (), 2), None)])
    assert ds.output_types == (INT64, None)
    mapped = Dataset.range(4).map(make(lambda x: (x, None)))
    check(lambda: mapped.batch(2), [([0, 1], None), ([2, 3], None)], values)
    assert run(mapped.batch(2).unbatch(), values) == run(mapped, values)
    assert run(mapped.batch(4).rebatch([3, 1]), values) == [([0, 1, 2], None), ([3], None)]
    assert run(mapped.map(make(lambda x, none: x if none is None else -x)), values) == [0, 1, 2, 3]
    assert run(Dataset.from_tensors(None).repeat(2)) == [None, None]
    assert run(mapped.concatenate(mapped), values) == run(mapped, values) * 2
    given = Dataset.from_generator(lambda: iter([(1, None)]), output_signature=(NUMBER, None))
    assert run(given, values) == [(1, None)]
    with pytest.raises(InvalidArgumentError, match="expected None"):
        list(Dataset.from_generator(lambda: iter([(1, 2)]), output_signature=(NUMBER, None)))
    with pytest.raises(InvalidArgumentError, match="another structure"):
        list(Dataset.range(2).map(in_python(lambda x: (x, None if x else x))))


SPARSE = Sparse(np.array([[1, 1], [0, 0], [1, 0]]), np.array([2, 1, 3]), [2, 2])
ROWS = [([[0]], [1], [2]), ([[0], [1]], [3, 2], [2])]


def parts(element):
    if isinstance(element, Sparse):
        order = np.lexsort(element.indices.T[::-1])
        return element.indices[order].tolist(), values(element.values[order]), element.dense_shape.tolist()
    return tuple(map(parts, element)) if isinstance(element, tuple) else values(element)


def test_sparse_parts():
    ds = Dataset.from_tensors(SPARSE)
    assert ds.element_spec == SparseSpec((2, 2), INT64)
    assert ds.output_classes is Sparse
    batch = ([[0, 0], [1, 0], [1, 1]], [1, 3, 2], [2, 2])
    check(lambda: ds.repeat(2), [batch, batch], parts)
    slices = Dataset.from_tensor_slices((SPARSE, [7, 8]))
    assert slices.element_spec == (SparseSpec((2,), INT64), NUMBER)
    check(lambda: slices, [(ROWS[0], 7), (ROWS[1], 8)], parts)
    assert run(slices.batch(2), parts) == [(batch, [7, 8])]
    assert slices.batch(2).element_spec == (SparseSpec((None, 2), INT64), ArraySpec((None,), INT64))
    for back in (slices.batch(2).unbatch(), slices.batch(2).rebatch([1, 1]).unbatch()):
        assert run(back, parts) == [(ROWS[0], 7), (ROWS[1], 8)]
    assert run(ds.unbatch(), parts) == ROWS
    assert run(ds.batch(1).unbatch(), parts) == [batch]
    assert run(slices.batch(1).rebatch([2]), parts) == [(batch, [7, 8])]
    assert run(slices.map(lambda s, x: s), parts) == ROWS
    made = Dataset.from_generator(lambda: iter([SPARSE]), output_signature=SparseSpec((None, 2), INT64))
    assert (run(made, parts), made.element_spec) == ([batch], SparseSpec((None, 2), INT64))
    words = Sparse([[0, 1]], Ragged.from_list([b"a"]), [2, 2])
    assert run(Dataset.from_tensor_slices(words), parts) == [([[1]], [b"a"], [2]), ([], [], [2])]


@pytest.mark.parametrize("bad", [((3, 2), INT64), ((2, 2), np.dtype("f4")), ((2,), INT64)])
def test_sparse_parts_of_another_kind(bad):
    with pytest.raises(InvalidArgumentError):
        list(Dataset.from_generator(lambda: iter([SPARSE]), output_signature=SparseSpec(*bad)))
    with pytest.raises(InvalidArgumentError, match="expected a Sparse"):
        list(Dataset.from_generator(lambda: iter([[1]]), output_signature=SparseSpec((1,), INT64)))


def test_ragged_parts():
    nested = Ragged.from_list([[[1, 2], [3]], [[4]]])
    assert nested.to_list() == [[[1, 2], [3]], [[4]]]
    ds = Dataset.from_tensor_slices(nested)
    check(lambda: ds, [[[1, 2], [3]], [[4]]], values)
    assert ds.element_spec == ArraySpec((None, None), INT64)
    assert run(ds.batch(2), values) == [[[[1, 2], [3]], [[4]]]]
    assert run(ds.batch(2).unbatch(), values) == [[[1, 2], [3]], [[4]]]
    assert run(ds.unbatch(), values) == [[1, 2], [3], [4]]
    whole = Dataset.from_tensors((nested, 1))
    assert run(whole.repeat(2).batch(2), values) == [([nested.to_list()] * 2, [1, 1])]
    cube = Dataset.from_tensor_slices(np.full((2, 1, 2), b"a", object))
    assert (run(cube, values), cube.element_spec) == ([[[b"a", b"a"]]] * 2, ArraySpec((1, 2), np.dtype("S")))
    with pytest.raises(ValueError, match="inhomogeneous"):
        Ragged.from_list([[[1], 2]])


def test_datasets_as_elements():
    inner = [Dataset.range(n) for n in range(3)]
    of = DatasetSpec(NUMBER)
    single = Dataset.from_tensors(inner[2])
    assert (single.element_spec, run(single, values)) == (of, [[0, 1]])
    assert run(single.flat_map(lambda ds: ds), values) == [0, 1]
    several = Dataset.from_tensor_slices(inner)
    assert (several.element_spec, len(several)) == (of, 3)
    assert run(several, values) == [[], [0], [0, 1]]
    assert run(several.interleave(lambda ds: ds, 3), values) == [0, 0, 1]
    pairs = Dataset.from_tensor_slices((inner, [7, 8, 9]))
    assert run(pairs.flat_map(lambda ds, x: ds.map(lambda y: x * 10 + y)), values) == [80, 90, 91]
    made = Dataset.from_generator(lambda: iter(inner), output_signature=of)
    assert run(made, values) == [[], [0], [0, 1]]
    twice = Dataset.range(6).window(2).window(2)
    assert [[values(w) for w in ws] for ws in twice] == [[[0, 1], [2, 3]], [[4, 5]]]
    assert run(Dataset.range(3).map(lambda x: (x, Dataset.range(x))), values) == [(0, []), (1, [0]), (2, [0, 1])]
    with pytest.raises((InvalidArgumentError, PipelineError)):
        list(single.batch(2))
    with pytest.raises(DtypeError):
        Dataset.from_tensor_slices([inner[0], 1])
    assert run(several.with_options(Options(num_threads=1)), values) == [[], [0], [0, 1]]


KEPT = {
    "cache": lambda ds, path: ds.cache(path / "kept"),
    "snapshot": lambda ds, path: ds.snapshot(path / "kept"),
    "snapshot with functions": lambda ds, path: ds.snapshot(
        path / "kept", reader_func=lambda shards: shards.flat_map(lambda shard: shard), shard_func=lambda *p: 0
    ),
}


@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_objects_give_structures_back(tmp_path, kind, keep):
    make = KINDS[kind]
    calls = []

    def element(n):
        calls.append(int(n))
        number = int(n)
        return {"p": make(np.arange(number), (None, b"x" * number, make(Ragged.from_list([[number]]), [number])))}

    def dataset():
        return KEPT[keep](Dataset.range(3).map(element), tmp_path)

    first = [plain_of_dict(one) for one in dataset()]
    assert first == [plain_of_dict(element(n)) for n in range(3)]
    assert [plain_of_dict(one) for one in dataset()] == first
    assert [plain_of_dict(one) for one in dataset().skip(2)] == first[2:]
    calls.clear()
    assert len(list(dataset().repeat(3))) == 9
    assert set(calls) <= {0}  # which shows the classes


def plain_of_dict(element):
    return plain(element["p"])


def test_files_of_objects_need_the_classes(tmp_path):
    def dataset(make, source):
        def element(n):
            return make(np.arange(int(n)), n)

        return source.map(element).cache(tmp_path / "kept")

    assert [type(one) for one in dataset(Point, Dataset.range(2))] == [Point] * 2
    with pytest.raises(FailedPreconditionError, match="another pipeline"):
        list(dataset(lambda x, y: (x, y, y), Dataset.range(2)))


def test_files_of_objects_that_hide_what_they_are(tmp_path):
    # Nobody could give back what isn't of the dataset's structure.
    odd = Dataset.from_list([(Point(1, 2),)]).map(in_python(lambda p: (np.arange(int(p.x)), {"z": object()})))
    with pytest.raises((InvalidArgumentError, PipelineError)):
        list(odd.cache(tmp_path / "kept"))
