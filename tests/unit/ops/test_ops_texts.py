"""Strings of bytes: pieces, joins and comparisons against Python's own bytes, tables against dicts."""

import itertools
import operator
import pickle
import random

import numpy as np
import pytest
from helpers.data.chains import threads

import queuecore as qc
from queuecore.data import Dataset, WholeFileDataset
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ops import equal, join, less, not_equal, split, table


def texts(seed, count=200):
    """Return strings of few letters, so that separators come at all places, and blanks of every kind."""
    state = random.Random(seed)
    letters = [b"a", b"b", b"/", b"//", b" ", b"\t", b"\n\x0b", b"\x0c\r", b"\0", b"\xff", b"ab"]
    return [b"".join(state.choices(letters, k=state.randrange(9))) for _ in range(count)]


def sourced(words):
    """Return a dataset of strings whose maps are traced."""
    return Dataset.from_tensor_slices(words)


def is_native(ds):
    # The source hands its rows in from Python: it stands in the last line.
    return all(line.startswith("native") for line in ds.plan().splitlines()[:-1])


# ---- split ----


@pytest.mark.parametrize("sep", [None, b"", b"/", b"//", b"ab", b"a/", b"\0"])
@pytest.mark.parametrize("maxsplit", [-1, 0, 1, 2, 5])
def test_split_is_pythons(sep, maxsplit):
    words = texts(1)
    expected = [one.split(sep or None, maxsplit) for one in words]
    assert split(words, sep, maxsplit).to_list() == expected
    assert [split(one, sep, maxsplit).tolist() for one in words] == expected
    whole = list(sourced(words).map(split(sep=sep, maxsplit=maxsplit)))
    assert [one.to_list() for one in whole] == expected
    for index in (0, 1, -1, -2, 4):
        for word, pieces in zip(words, expected, strict=True):
            if -len(pieces) <= index < len(pieces):
                assert split(word, sep, maxsplit, index=index) == pieces[index]
            else:
                with pytest.raises(InvalidArgumentError, match=f"{len(pieces)} piece.* no index {index}"):
                    split(word, sep, maxsplit, index=index)


def test_split_of_every_shape():
    words = [b"a/b", b"", b"c", b"d/e/f"]
    pieces = [one.split(b"/") for one in words]
    ragged = qc.Ragged.from_list(words)
    assert split(ragged, "/").to_list() == pieces
    assert split(np.array(words, object).reshape(2, 2), "/").to_list() == [pieces[:2], pieces[2:]]
    rows = qc.Ragged(ragged, [0, 1, 1, 4])
    assert split(rows, "/").to_list() == [pieces[:1], [], pieces[1:]]
    assert split(rows, "/", index=0).to_list() == [[b"a"], [], [b"", b"c", b"d"]]
    assert split(np.array(words, object).reshape(2, 2), "/", index=-1).tolist() == [[b"b", b""], [b"c", b"f"]]
    assert split([], "/").to_list() == []
    assert split([], "/", index=0).tolist() == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: split(b"a", 3), InvalidArgumentError),
        (lambda: split(b"a", "a", 1 << 70), InvalidArgumentError),
        (lambda: split(b"a", "a", index=1.5), InvalidArgumentError),
        (lambda: split(5, "a"), DtypeError),
        (lambda: join([]), InvalidArgumentError),
        (lambda: join([b"a", 3]), DtypeError),
        (lambda: join([b"a"], 3), InvalidArgumentError),
        (lambda: join([[b"a", b"b"], [b"c"]]), InvalidArgumentError),
        (lambda: equal(b"a", 3), DtypeError),
        (lambda: equal([b"a", b"b"], [b"a", b"b", b"c"]), InvalidArgumentError),
        (lambda: table([]), InvalidArgumentError),
        (lambda: table([b"a"], [1, 2]), InvalidArgumentError),
        (lambda: table([b"a", b"a"]), InvalidArgumentError),
        (lambda: table([1]), DtypeError),
        (lambda: table([b"a"], [[1]]), InvalidArgumentError),
        (lambda: table({b"a": 1}, [1]), InvalidArgumentError),
        (lambda: table([b"a"], default="x"), InvalidArgumentError),
        (lambda: table([b"a"], default=1.5), InvalidArgumentError),
        (lambda: table([b"a"], np.array([1], np.uint8), default=256), InvalidArgumentError),
        (lambda: table([b"a"])[b"b"], InvalidArgumentError),
        (lambda: table([b"a"])[7], DtypeError),
        (lambda: qc.ops.cast(np.ones((1,) * 33), np.float32), InvalidArgumentError),
        (lambda: split(np.full((1,) * 33, b"a", object), "/", index=0), InvalidArgumentError),
    ],
)
def test_what_is_refused(call, error):
    with pytest.raises(error):
        call()


# ---- join ----


def test_join_is_pythons():
    words = texts(2)
    for between in (b"", b"/", "ab"):
        raw = between.encode() if isinstance(between, str) else between
        assert join([words, words[::-1]], between).tolist() == [
            raw.join(pair) for pair in zip(words, words[::-1], strict=True)
        ]
        assert join(["x", words, b"y"], between).tolist() == [raw.join((b"x", word, b"y")) for word in words]
        assert join(np.array(words, object), between) == raw.join(words)
        assert join(np.array(words, object).reshape(-1, 4), between).tolist() == [
            raw.join(words[at : at + 4]) for at in range(0, len(words), 4)
        ]
        assert join(split(words, "/"), between).to_list() == [raw.join(word.split(b"/")) for word in words]
        assert join([split(words, "/"), "!"], between).to_list() == [
            [raw.join((piece, b"!")) for piece in word.split(b"/")] for word in words
        ]
    assert join([b"a"]) == b"a"
    assert join(np.empty(0, object)) == b""


# ---- comparisons ----


def test_comparisons_are_pythons():
    words = texts(3, 60)
    pairs = list(itertools.product(words, words[:20]))
    x, y = [word for word, _ in pairs], [word for _, word in pairs]
    for ours, pythons in ((equal, operator.eq), (not_equal, operator.ne), (less, operator.lt)):
        assert ours(x, y).tolist() == [pythons(*pair) for pair in pairs]
        assert ours(words, "a/").tolist() == [pythons(word, b"a/") for word in words]
        assert ours("a/", words).tolist() == [pythons(b"a/", word) for word in words]
        rows = qc.Ragged(qc.Ragged.from_list(words), [0, 10, 10, 60])
        assert [row.tolist() for row in ours(rows, "a")] == [
            [pythons(word, b"a") for word in row] for row in (words[:10], [], words[10:])
        ]


@pytest.mark.parametrize("how", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_operators_in_traced_functions(how):
    words = texts(4)
    for function in (lambda x: how(x, b"a/"), lambda x: how(b"a/", x)):
        ds = sourced(words).map(function)
        assert is_native(ds)
        assert list(ds) == [function(one) for one in words]


TRUTHS = [
    (lambda x: (x == b"a") & (x != b"b"), True),
    (lambda x: (x == b"a") | True, True),
    (lambda x: (x == b"a") == (x < b"b"), True),
    (lambda x: (x < b"b") * np.float32(3), True),
    (lambda x: (x < b"b") + 1, True),
    (lambda x: np.where(x < b"b", 1, 2), True),
    # Python's bools are whole numbers, and NumPy's are not.
    (lambda x: ~(x == b"a"), False),
    (lambda x: -(x == b"a"), False),
    (lambda x: (x == b"a") + (x < b"b"), False),
    (lambda x: (x == b"a") - True, False),
    # Never equal, in Python.
    (lambda x: x == "a", False),
    (lambda x: x == 3, False),
]


@pytest.mark.parametrize(("function", "native"), TRUTHS)
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
def test_what_becomes_of_a_comparison_is_what_python_gives(function, native):
    words = [b"a", b"aa", b"b", b""]
    ds = sourced(words).map(function)
    assert is_native(ds) == native
    expected = [np.asarray(function(one)) for one in words]
    got = list(ds)
    assert [int(one) for one in got] == [int(one) for one in expected]
    assert {one.dtype for one in got} == {one.dtype for one in expected}


# ---- tables ----


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8, np.bool_, np.complex64, np.bytes_])
def test_a_table_is_a_dict(count, dtype):
    state = random.Random(count)
    keys = [state.randbytes(state.randrange(30)) for _ in range(count)]
    values = [state.randbytes(3) for _ in keys] if dtype is np.bytes_ else np.arange(count).astype(dtype)
    right = dict(zip(keys, values, strict=True))
    keys, values = list(right), list(right.values())
    default = b"none" if dtype is np.bytes_ else dtype(1)
    lookup = table(keys, values if dtype is np.bytes_ else np.array(values, dtype), default)
    keys_asked = [*keys, b"absent", *keys[::-1], keys[0] + b"x"]
    expected = [right.get(key, default) for key in keys_asked]
    assert lookup[keys_asked].tolist() == expected
    assert [lookup[key] for key in keys_asked[: count + 2]] == expected[: count + 2]
    ds = sourced(keys_asked).map(lambda x: lookup[x])
    assert is_native(ds)
    assert list(ds) == expected
    assert len(lookup) == len(right)
    copy = pickle.loads(pickle.dumps(lookup))
    assert repr(copy) == repr(lookup)
    assert copy[keys_asked].tolist() == expected


def test_numbers_of_keys():
    labels = table(["cat", b"dog"])
    assert labels[b"dog"] == 1
    assert type(labels["cat"]) is np.int64
    rows = qc.Ragged(qc.Ragged.from_list([b"cat", b"dog"]), [0, 0, 2])
    assert [one.tolist() for one in labels[rows]] == [[], [0, 1]]
    assert table({"a": 1.5, "b": 2.5})[["b", "a"]].tolist() == [2.5, 1.5]
    assert table([b"a", b"a"], [3, 3])["a"] == 3


def test_plans_know_what_is_in_a_table():
    one, other = table([b"a"], [1]), table([b"a"], [2])
    words = [repr(sourced([b"a"]).map(lambda x, t=t: t[x]).plan()) for t in (one, other, table([b"a"], [1]))]
    assert words[0] != words[1]
    assert words[0] == words[2]


# ---- in datasets ----


@pytest.fixture
def folder(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(3):
            (tmp_path / name / f"{number}.txt").write_text(f"{name} {number}")
    return tmp_path


@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_label_out_of_a_path(folder, number):
    labels = table(["cat", "dog"])
    ds = WholeFileDataset(f"{folder}/*/*.txt").map(lambda path, content: (labels[split(path, "/")[-2]], content))
    assert is_native(ds)
    got = list(threads(ds.batch(4), number))
    assert [label.tolist() for label, _ in got] == [[0, 0, 0, 1], [1, 1]]
    assert got[1][1].to_list() == [b"dog 1", b"dog 2"]


def test_operations_in_one_function(folder):
    def parts(path, content):
        pieces = split(path, "/")
        name = split(pieces[-1], ".")[0]
        return {
            "name": join([pieces[-2], "-", name]),
            "is_dog": pieces[-2] == b"dog",
            "words": split(content),
            "back": join(split(content, " "), "_"),
            "same": equal(content, join([pieces[-2], name], " ")),
        }

    ds = WholeFileDataset(f"{folder}/*/*.txt").map(parts)
    assert is_native(ds)
    for element, (animal, number) in zip(ds, itertools.product((b"cat", b"dog"), range(3)), strict=True):
        assert element["name"] == b"%s-%d" % (animal, number)
        assert element["is_dog"] == (animal == b"dog")
        assert element["words"].to_list() == [animal, b"%d" % number]
        assert element["back"] == b"%s_%d" % (animal, number)
        assert element["same"]


def test_behind_a_batch(folder):
    labels = table(["cat", "dog"])

    def of_batch(paths):
        names = split(paths, "/", index=-2)
        return labels[names], equal(names, "dog"), join([names, "!"])

    ds = WholeFileDataset(f"{folder}/*/*.txt").map(lambda path, _: path).batch(4).map(of_batch)
    assert is_native(ds)
    (first, dogs, names), (second, _, _) = list(ds)
    assert first.tolist() == [0, 0, 0, 1]
    assert second.tolist() == [1, 1]
    assert dogs.tolist() == [False, False, False, True]
    assert names.to_list() == [b"cat!"] * 3 + [b"dog!"]


def test_rows_of_strings():
    # Each element has two strings.
    features = {"w": qc.ops.FixedLenFeature([2], np.bytes_)}
    example = bytes.fromhex("0a0f0a0d0a017712080a060a0261620a00")  # "ab" and ""
    labels = table(["ab"], [5], default=7)

    def of_row(x):
        return labels[x["w"]], equal(x["w"], "ab"), join([x["w"], "x"]), join(x["w"], "+")

    ds = sourced([example] * 3).map(qc.ops.parse_single_example(features=features)).map(of_row)
    assert is_native(ds)
    for numbers, same, longer, together in ds:
        assert numbers.tolist() == [5, 7]
        assert same.tolist() == [True, False]
        assert longer.to_list() == [b"abx", b"x"]
        assert together == b"ab+"


def test_stages():
    ds = sourced([b"a/b", b"c/d"]).map(split(sep="/", index=1))
    assert list(ds) == [b"b", b"d"]
    pairs = Dataset.zip((sourced([b"a", b"b"]), sourced([b"b", b"b"])))
    assert list(pairs.map(equal())) == [False, True]
    assert list(pairs.map(join(separator="+"))) == [b"a+b", b"b+b"]


def test_reasons_name_what_is_native():
    classes = {b"a": 0}
    for function, hint in (
        (lambda x: x.split(b"/")[0], "queuecore.ops.split"),
        (lambda x: classes[x], "queuecore.ops.table"),
    ):
        ds = sourced([b"a"]).map(function)
        assert hint in str(ds.plan())
        assert list(ds) == [function(b"a")]


def test_errors_name_the_record(folder):
    ds = WholeFileDataset(f"{folder}/cat/*.txt").map(lambda path, _: split(path, "/")[-40])
    with pytest.raises(InvalidArgumentError, match=r"no index -40 \(record 0 of .*0\.txt"):
        list(ds)
    ds = WholeFileDataset(f"{folder}/*/*.txt").map(lambda path, _: table(["cat"])[split(path, "/")[-2]])
    iterator = iter(ds)
    assert [next(iterator) for _ in range(3)] == [0, 0, 0]
    with pytest.raises(InvalidArgumentError, match="none of the 1 keys, and there is no default"):
        next(iterator)
