"""`save`, `load` and `fingerprint`; orders are those of TensorFlow 2.21 for the same calls."""

import collections
import pickle
import subprocess
import sys

import numpy as np
import pytest
from helpers.data.functions import in_python
from helpers.data.transformed import check, run, values

from queuecore import set_random_seed
from queuecore.data import ArraySpec, Dataset, TextLineDataset, experimental
from queuecore.errors import (
    ChecksumError,
    DtypeError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PipelineError,
    ResumeMismatchError,
    UnimplementedError,
)
from queuecore.ragged import Ragged, Sparse

DS = Dataset.range(42)
Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize("compression", [None, "GZIP", "AUTO"])
def test_what_was_saved_is_loaded(tmp_path, compression):
    DS.save(tmp_path / "a", compression)
    check(lambda: Dataset.load(tmp_path / "a", DS.element_spec, compression), range(42), values)
    loaded = experimental.load(tmp_path / "a")
    assert (len(loaded), loaded.element_spec) == (42, DS.element_spec)
    assert "traced" in loaded.map(lambda x: x + 1).plan()
    assert run(pickle.loads(pickle.dumps(loaded)).shuffle(5, 1), values) == run(DS.shuffle(5, 1), values)


def test_places_know_what_was_saved(tmp_path):
    DS.save(tmp_path / "a")
    with iter(Dataset.load(tmp_path / "a")) as it:
        next(it)
        state = it.state_dict()
    with iter(Dataset.load(tmp_path / "a")) as it:
        it.load_state_dict(state)
        assert next(it) == 1
    DS.map(lambda x: x + 1).save(tmp_path / "a")
    with iter(Dataset.load(tmp_path / "a")) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


def test_shards(tmp_path):
    DS.save(tmp_path, shard_func=lambda x: x // 21)
    turns = [n for x in range(21) for n in (x, x + 21)]
    check(lambda: Dataset.load(tmp_path), turns, values)
    assert len(Dataset.load(tmp_path)) == 42
    experimental.save(DS, tmp_path, shard_func=lambda x: x % 7)
    one_by_one = Dataset.load(tmp_path, reader_func=lambda shards: shards.flat_map(lambda shard: shard))
    assert run(one_by_one, values) == [n for x in range(7) for n in range(x, 42, 7)]


WORDS = ["a", "", "\0b"]
KINDS = {
    "tuples": Dataset.zip(Dataset.range(3), Dataset.from_tensor_slices({"a": [1, 2, 3], "b": (WORDS,)})),
    "batches": Dataset.range(5).batch(2),
    "batches of strings": Dataset.from_tensor_slices(WORDS).batch(2),
    "objects": Dataset.range(4).map(in_python(lambda x: {"x": np.arange(int(x)), "none": None})),
    "ragged": Dataset.from_tensor_slices(Ragged.from_list([[[1, 2], []], [[3]]])),
    "rows": Dataset.from_tensor_slices((Ragged.from_list([[1, 2], []]), [1, 2])),
    "bfloat16": Dataset.range(3).map(lambda x: x.astype("f4")),
    "nothing": Dataset.from_tensor_slices(WORDS).take(0),
    "no objects": Dataset.range(3).map(in_python(lambda x: x)).take(0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_elements(tmp_path, kind):
    ds = KINDS[kind]
    ds.save(tmp_path)
    loaded = Dataset.load(tmp_path)
    assert run(loaded) == run(ds)
    assert loaded.element_spec == ds.element_spec


def test_sparse_elements_and_classes(tmp_path):
    ds = Dataset.from_tensors(Sparse([[0, 1]], [7], [2, 2]))
    ds.save(tmp_path)
    (made,) = Dataset.load(tmp_path)
    assert (made.to_dense().tolist(), Dataset.load(tmp_path).element_spec) == ([[0, 7], [0, 0]], ds.element_spec)
    for make in (lambda f: f, in_python):
        named = Dataset.range(2).map(make(lambda x: Pair(x, {"c": x})))
        named.save(tmp_path)
        assert run(Dataset.load(tmp_path), values) == [(x, {"c": x}) for x in range(2)]
        back = Dataset.load(tmp_path, named.element_spec)
        assert all(type(one) is Pair for one in back)
        assert back.element_spec == named.element_spec
        assert run(back.map(lambda p: p.a + p.b["c"]), values) == [0, 2]


def test_a_dataset_saved_again_replaces_the_one_before(tmp_path):
    DS.save(tmp_path)
    old = iter(Dataset.load(tmp_path))
    assert next(old) == 0
    Dataset.range(3).save(tmp_path)
    assert run(Dataset.load(tmp_path), values) == [0, 1, 2]

    def refuse(x):
        if x == 2:
            raise ValueError(x)
        return x

    for bad in ((Dataset.range(4).map(in_python(refuse)), {}), (Dataset.range(4), {"shard_func": in_python(refuse)})):
        with pytest.raises(PipelineError):
            bad[0].save(tmp_path, **bad[1])
    with pytest.raises(InvalidArgumentError, match="can't be written to a file"):
        Dataset.range(4).window(2).save(tmp_path)
    assert run(Dataset.load(tmp_path), values) == [0, 1, 2]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dataset.data-00000-of-00001", "dataset.index"]


def test_another_process_loads_it(tmp_path):
    DS.save(tmp_path)
    program = "import sys; from queuecore.data import Dataset; print(sum(int(x) for x in Dataset.load(sys.argv[1])))"
    found = subprocess.run([sys.executable, "-P", "-c", program, tmp_path], capture_output=True, timeout=60, check=True)
    assert int(found.stdout) == sum(range(42))


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(NotFoundError, match="no saved dataset"):
        Dataset.load(tmp_path)
    list(DS.cache(tmp_path / "dataset"))
    with pytest.raises(FailedPreconditionError, match="is of a cache"):
        Dataset.load(tmp_path)
    DS.save(tmp_path / "a")
    with pytest.raises(ValueError, match=r"only supported for distributed tf\.data snapshot"):
        Dataset.load(tmp_path / "a", wait=True)
    for bad in ({"compression": "ZIP"}, {"reader_func": 1}):
        with pytest.raises(InvalidArgumentError):
            Dataset.load(tmp_path / "a", **bad)
    for bad in ({"element_spec": ArraySpec((), np.dtype("f4"))}, {"reader_func": lambda shards: 1}):
        with pytest.raises(DtypeError):
            Dataset.load(tmp_path / "a", **bad)
    data = tmp_path / "a" / "dataset.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(ChecksumError):
        list(Dataset.load(tmp_path / "a"))


def test_what_cannot_be_saved(tmp_path):
    for bad, error in (
        ({"path": ""}, InvalidArgumentError),
        ({"path": 5}, DtypeError),
        ({"compression": "ZIP"}, InvalidArgumentError),
        ({"shard_func": 1}, InvalidArgumentError),
        ({"shard_func": lambda x: -1}, InvalidArgumentError),
        ({"checkpoint_args": {"directory": "a"}}, UnimplementedError),
    ):
        with pytest.raises(error):
            DS.save(**{"path": tmp_path, **bad})


def test_fingerprints(tmp_path):
    def made(n=3, seed=1):
        return Dataset.range(n).map(lambda x: x * 2).shuffle(5, seed).batch(2)

    assert made().fingerprint() == made().fingerprint()
    assert isinstance(made().fingerprint(), np.uint64)
    others = [
        made(4),
        made(seed=2),
        made().take(1),
        made().unbatch(),
        Dataset.from_tensor_slices([1]),
        Dataset.range(3),
    ]
    assert len({int(one.fingerprint()) for one in [made(), *others]}) == len(others) + 1
    files = [TextLineDataset(tmp_path / name).fingerprint() for name in "aab"]
    assert files[0] == files[1] != files[2]
    set_random_seed(3)
    assert Dataset.range(3).shuffle(2).fingerprint() != Dataset.range(3).shuffle(2, 7).fingerprint()
    set_random_seed(None)
