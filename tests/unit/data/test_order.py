"""Order: TensorFlow's own where a seed decides it, and the same for every number of threads.

The test vectors are of TensorFlow's generator and shuffles; they hold for the oracle and for the library, so that what
hypothesis finds equal below is equal to TensorFlow's.
"""

import contextlib
import itertools

import numpy as np
import pytest
from helpers.data.chains import THREADS, apply, chains, dataset, run, threads, values, write_files
from helpers.models.oracle import Model, Philox, assert_same, philox_block, seed_pair
from hypothesis import HealthCheck, example, given, settings, strategies as st

import queuecore as qc
from queuecore._core.atoms.draws import philox_draws

# Random123's known answers for philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

# Orders as TensorFlow gives them: number of records, graph-level seed, steps, then the order of each iteration in turn.
TENSORFLOW = [
    (8, 1, [("shuffle", 4, 5, False)], ["2 4 1 5 3 7 6 0"] * 3),
    (8, 1, [("shuffle", 4, 5, True)], ["1 0 3 6 5 4 2 7", "0 4 3 5 6 1 7 2"]),
    (4, 1, [("shuffle", 4, 1, True), ("repeat", 3)], ["2 3 0 1 3 1 0 2 1 3 2 0"]),
    (4, 1, [("repeat", 3), ("shuffle", 4, 1, True)], ["2 0 1 3 1 3 0 1 2 3 0 2"]),
    (3, 1, [("shuffle", 3, 3, True)], ["0 2 1", "2 1 0"]),
    (8, 1, [("shuffle", 1, 5, True)], ["0 1 2 3 4 5 6 7"] * 2),
]


@contextlib.contextmanager
def graph_seed(seed):
    qc.set_random_seed(seed)
    try:
        yield
    finally:
        qc.set_random_seed(None)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_the_oracles_generator(counter, key, output):
    assert philox_block(key, counter) == output


@given(low=st.integers(0, 2**64 - 1), high=st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None)
def test_the_native_generator(low, high):
    reference = Philox(low, high)
    assert philox_draws(low, high, 300) == [reference.draw() for _ in range(300)]


@pytest.mark.parametrize(("records", "graph", "ops", "orders"), TENSORFLOW)
def test_tensorflows_orders_in_the_oracle(records, graph, ops, orders):
    model = Model([bytes(range(records))], 1, ops, graph_seed=graph)
    for order in orders:
        assert list(model.ordinals()) == [int(word) for word in order.split()]


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize(("records", "graph", "ops", "orders"), TENSORFLOW)
def test_tensorflows_orders(tmp_path, records, graph, ops, orders, files, number):
    whole = bytes(range(records))
    paths = write_files(
        tmp_path, [whole[index * records // files : (index + 1) * records // files] for index in range(files)]
    )
    with graph_seed(graph):
        plain = threads(apply(dataset(paths, 1), ops), number)
        batched = threads(apply(dataset(paths, 1), [*ops, ("batch", 3)]), number)
    for order in orders:
        expected = [int(word) for word in order.split()]
        got, error = run(plain)
        assert error is None
        assert values(got) == expected
        got, error = run(batched)
        assert error is None
        assert list(itertools.chain.from_iterable(values(got))) == expected


def test_seed_pairs(tmp_path):
    paths = write_files(tmp_path, [bytes(range(50))])

    def order(seed, graph):
        with graph_seed(graph):
            return values(run(dataset(paths, 1).shuffle(50, seed))[0])

    def expected(seed, graph):
        return list(Model([bytes(range(50))], 1, [("shuffle", 50, seed, True)], graph_seed=graph).ordinals())

    for seed, graph in [
        (5, 1),
        (5, None),
        (0, 0),
        (0, None),
        (-1, 2),
        (2**31 - 1, 2**31),
        (2**70, 3),
        (np.int64(9), 0),
    ]:
        assert order(seed, graph) == expected(int(seed), graph)
    assert seed_pair(0, 0) == (0, 2**31 - 1)
    assert order(0, 0) == order(2**31 - 1, 2**31 - 1)  # both are zero modulo 2**31 - 1


def test_a_graph_seed_alone_counts_the_shuffles(tmp_path):
    paths = write_files(tmp_path, [bytes(range(50))])

    def two():
        with graph_seed(11):
            return [dataset(paths, 1).shuffle(50) for _ in range(2)]

    first, second = (values(run(ds)[0]) for ds in two())
    assert first != second
    assert [values(run(ds)[0]) for ds in two()] == [first, second]
    assert first == list(Model([bytes(range(50))], 1, [("shuffle", 50, 0, True)], graph_seed=11).ordinals())


def test_no_seed_is_random(tmp_path):
    paths = write_files(tmp_path, [bytes(range(100))])
    orders = [tuple(values(run(dataset(paths, 1).shuffle(100))[0])) for _ in range(3)]
    assert len(set(orders)) == 3
    same = dataset(paths, 1).shuffle(100, reshuffle_each_iteration=False)
    assert values(run(same)[0]) == values(run(same)[0])


def test_seeds_are_taken_when_the_step_is_made(tmp_path):
    paths = write_files(tmp_path, [bytes(range(50))])
    with graph_seed(1):
        ds = dataset(paths, 1).shuffle(50, 5)
    with graph_seed(2):
        assert values(run(ds)[0]) == list(
            Model([bytes(range(50))], 1, [("shuffle", 50, 5, True)], graph_seed=1).ordinals()
        )


@pytest.mark.parametrize("bad", [1.0, "1", True, b"1"])
def test_bad_seeds(tmp_path, bad):
    with pytest.raises(qc.errors.InvalidArgumentError):
        qc.set_random_seed(bad)
    with pytest.raises(qc.errors.InvalidArgumentError):
        dataset(tmp_path / "x", 1).shuffle(2, seed=bad)


@st.composite
def framed_files(draw):
    """Files of small records with header, footer, gaps or overlaps, some of them empty; and how to read them."""
    size = draw(st.integers(1, 9))
    frame = {"header": draw(st.sampled_from([0, 0, 1, 5])), "footer": draw(st.sampled_from([0, 0, 3]))}
    frame["hop"] = draw(st.sampled_from([0, 0, 0, size, size + 1, size + 4, 1, max(1, size // 2)]))
    hop = frame["hop"] or size
    contents, state = [], np.random.default_rng(draw(st.integers(0, 2**32)))
    for _ in range(draw(st.integers(1, 6))):
        records = draw(st.sampled_from([None, 0, 1, 2, 3, 7, 30]))
        if records is None:
            contents.append(b"")
            continue
        body = 0 if records == 0 else (records - 1) * hop + size
        if records and hop > size:
            body += draw(st.integers(0, hop - size))
        contents.append(state.bytes(frame["header"] + body + frame["footer"]))
    return size, contents, frame


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=framed_files(), ops=chains(), data=st.data())
def test_every_chain_gives_the_oracles_order(tmp_path_factory, files, ops, data):
    size, contents, frame = files
    paths = write_files(tmp_path_factory.mktemp("order"), contents)
    model = Model(contents, size, ops, **frame)
    expected = list(model)
    got, error = run(threads(apply(dataset(paths, size, **frame), ops), data.draw(st.sampled_from(THREADS))))
    assert error is None
    assert_same(got, expected)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), tail=st.integers(0, 2))
@example(ops=[("shuffle", 2, 0, False), ("repeat", 2), ("take", 1), ("repeat", 2)], tail=0)  # leaves rows read ahead
def test_every_chain_is_the_same_for_every_number_of_threads(tmp_path_factory, ops, tail):
    contents = [bytes(range(n)) for n in (10, 0, 1, 33 + tail)]
    paths = write_files(tmp_path_factory.mktemp("order"), contents)
    expected, _ = run(threads(apply(dataset(paths, 3, tail="drop"), ops), 1))
    assert_same(expected, list(Model(contents, 3, ops, tail="drop")))
    for number in (2, 8, None):
        got, error = run(threads(apply(dataset(paths, 3, tail="drop"), ops), number))
        assert error is None
        assert_same(got, expected)


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize(
    "ops",
    [
        [("batch", 64, False)],
        [("shuffle", 500, 1, True), ("batch", 64, False)],
        [("shuffle", 10_000, 1, True), ("repeat", 3), ("batch", 100, True)],
        [("repeat", 3), ("shuffle", 700, 1, True), ("batch", 100, False)],
        [("batch", 16, True), ("shuffle", 20, 2, True), ("repeat", 2), ("batch", 3, False)],
        [("shuffle", 300, 1, True), ("shuffle", 40, 2, False), ("batch", 50, False)],
        [("shuffle", 300, 1, True), ("take", 1000), ("repeat", 3), ("skip", 777), ("batch", 50, False)],
        [("skip", 1500), ("batch", 7, False), ("repeat", 5), ("take", 200)],
    ],
)
def test_larger_streams(tmp_path, ops, number):
    # Several reads a file, several files a batch; records of two fields, one of them swapped.
    record = np.dtype([("id", ">u4"), ("body", "u1", (300,))])
    state = np.random.default_rng(0)
    contents = [state.bytes(record.itemsize * n) for n in (700, 1, 900, 0, 450)]
    paths = write_files(tmp_path, contents)
    model = Model(contents, record, ops)
    ds = threads(apply(dataset(paths, record), ops), number)
    got, error = run(ds)
    assert error is None
    assert_same(got, list(model))


def test_records_above_the_store(tmp_path):
    # Large records and large windows are shuffled by index, small ones through a store: the order is one.
    for size in (1, 4096, 40_000, 200_000):
        content = np.random.default_rng(size).bytes(size * 60)
        paths = write_files(tmp_path, [content])
        ops = [("shuffle", 25, 3, True), ("repeat", 2), ("batch", 7, False)]
        for number in THREADS:
            got, error = run(threads(apply(dataset(paths, size), ops), number))
            assert error is None
            assert_same(got, list(Model([content], size, ops)))


def test_second_iterator_goes_on_with_the_master_generator(tmp_path):
    contents = [bytes(range(40))]
    paths = write_files(tmp_path, contents)
    ops = [("shuffle", 9, 4, True), ("batch", 4, True), ("shuffle", 3, 5, True), ("repeat", 2)]
    model, ds = Model(contents, 1, ops), apply(dataset(paths, 1), ops)
    rebuilt = apply(dataset(paths, 1), ops)
    first = list(model)
    for expected in (first, list(model), list(model)):
        assert_same(run(ds)[0], expected)
    assert_same(run(rebuilt)[0], first)


def test_what_is_above_shares_the_shuffle_below(tmp_path):
    contents = [bytes(range(40))]
    paths = write_files(tmp_path, contents)
    model = Model(contents, 1, [("shuffle", 40, 4, True)])
    base = dataset(paths, 1).shuffle(40, 4)
    for ds in (base, base.batch(1), base.take(-1), base):
        got = values(run(ds)[0])
        assert [row[0] if isinstance(row, list) else row for row in got] == list(model.ordinals())


@pytest.mark.parametrize("number", THREADS)
def test_endless(tmp_path, number):
    contents = [bytes(range(10)), b"", bytes(range(3))]
    paths = write_files(tmp_path, contents)
    for ops in ([("repeat", -1), ("batch", 4, False)], [("shuffle", 5, 1, True), ("repeat", -1), ("batch", 4, False)]):
        got, error = run(threads(apply(dataset(paths, 1), ops), number), limit=50)
        assert error is None
        assert_same(got, list(itertools.islice(Model(contents, 1, ops), 50)))


@pytest.mark.parametrize("number", THREADS)
@pytest.mark.parametrize("ops", [[], [("shuffle", 5, 1, True)], [("batch", 3, False)]])
def test_endless_over_nothing_ends(tmp_path, ops, number):
    paths = write_files(tmp_path, [b"", b""])
    for extra in ([("repeat", -1)], [("repeat", -1), ("repeat", -1)], [("repeat", -1), ("batch", 2, False)]):
        assert run(threads(apply(dataset(paths, 4), ops + extra), number)) == ([], None)


def test_numbers_at_the_limits(tmp_path):
    contents = [bytes(range(20))]
    paths = write_files(tmp_path, contents)
    limit = 2**63 - 1
    for ops in (
        [("take", limit), ("repeat", 2), ("take", limit)],
        [("skip", limit)],
        [("repeat", 2), ("skip", 5), ("skip", limit)],
        [("repeat", limit), ("take", 70)],
        [("repeat", limit), ("repeat", limit), ("skip", 31), ("take", 12)],
        [("shuffle", 2**31 - 1, 1, True), ("batch", 3, False)],
    ):
        for number in (1, 2):
            got, error = run(threads(apply(dataset(paths, 1), ops), number))
            assert error is None
            assert_same(got, list(Model(contents, 1, ops)))
