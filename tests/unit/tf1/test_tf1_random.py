"""Random numbers of queuecore.tf1: bit for bit TensorFlow's, run by run, recorded and live."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf
from queuecore._core.atoms import draws
from queuecore.errors import InvalidArgumentError

# One expression of two: the graph's seed, and a draw.
DRAWS = """
tf.random_uniform([6], seed=3)
tf.random_uniform([], seed=3)
tf.random_uniform([0], seed=3)
tf.random_uniform([2, 3], -1, 1, seed=4)
tf.random_uniform([5], 2.5, 7.25, seed=2**31)
tf.random_uniform([5], dtype=tf.float64, seed=3)
tf.random_uniform([5], dtype=tf.float16, seed=3)
tf.random_uniform([7], 0, 10, tf.int32, seed=5)
tf.random_uniform([7], -2**31, 2**31 - 1, dtype=tf.int32, seed=5)
tf.random_uniform([7], -5, 10**12, dtype=tf.int64, seed=5)
tf.random_uniform([7], maxval=1000, dtype=tf.int64, seed=6)
tf.random_uniform([3], dtype=tf.int32, seed=5)
tf.random_uniform([3], 5, 5, dtype=tf.int32, seed=5)
tf.random_uniform([3], 0, 10, dtype=tf.uint8, seed=5)
tf.random_uniform([-1], seed=5)
tf.random_uniform(tf.shape([[1, 2]]), seed=5)
tf.random_uniform([3], tf.constant(1.0), tf.constant(2.0), seed=5)
tf.random_uniform(5, seed=5)
tf.random_shuffle(["a", "b", "c", "d", "e", "f"], seed=3)
tf.random_shuffle(np.arange(12).reshape(6, 2), seed=3)
tf.random_shuffle([1], seed=3)
tf.random_shuffle(np.arange(257), seed=8)
tf.random_shuffle(np.zeros([0, 2]), seed=8)
tf.random.uniform([3], seed=5)
tf.random.shuffle([1, 2, 3, 4], seed=5)
""".strip().split("\n")

# The last bit of these is the C library's.
NORMAL = """
tf.random_normal([9], seed=3)
tf.random_normal([2, 3], -1, 2, seed=3)
tf.random_normal([9], dtype=tf.float64, seed=3)
tf.random_normal([9], dtype=tf.float16, seed=3)
tf.random_normal([1000], seed=11)
tf.random_normal([3], dtype=tf.int32, seed=11)
tf.random.normal([3], seed=11)
tf.truncated_normal([9], seed=3)
tf.truncated_normal([200], 5.0, 0.1, seed=4)
tf.truncated_normal([31], dtype=tf.float64, seed=3)
tf.truncated_normal([5], dtype=tf.float16, seed=3)
tf.truncated_normal([0], seed=3)
""".strip().split("\n")


def seeded(draws, graph_seed):
    return [f"(tf.set_random_seed({graph_seed}), {one})[1]" for one in draws]


UNIFORM_CASES = [*DRAWS, *seeded(DRAWS, 7), *seeded(DRAWS, 0), *seeded(DRAWS, -5)]
NORMAL_CASES = [*NORMAL, *seeded(NORMAL, 7)]


@pytest.mark.parametrize(("name", "cases", "exact"), [("random", UNIFORM_CASES, True), ("normal", NORMAL_CASES, False)])
def test_numbers_are_tensorflows(name, cases, exact):
    wrong = []
    for case, theirs in zip(cases, recorded(name, cases, 3), strict=True):
        wrong += differences(case, 3, theirs, exact)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_also_those_of_seeds_that_were_drawn_now():
    rng = np.random.default_rng()
    cases = []
    for graph_seed, seed in rng.integers(-(2**33), 2**33, (20, 2)).tolist():
        for code in (
            "tf.random_uniform([11], seed={})",
            "tf.random_shuffle(np.arange(40), seed={})",
            "tf.random_uniform([9], -7, 12345, dtype=tf.int64, seed={})",
            "tf.random_normal([33], dtype=tf.float64, seed={})",
            "tf.truncated_normal([33], seed={})",
        ):
            cases += seeded([code.format(seed)], graph_seed)
    wrong = []
    for case, theirs in zip(cases, asked([(case, 2) for case in cases]), strict=True):
        wrong += differences(case, 2, theirs, "normal" not in case)
    assert not wrong


# Without TensorFlow: what the specification of the generator says.


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1000])
def test_bits_are_those_of_the_generator(count):
    bits = np.empty(count, np.uint32)
    draws.bits(87654321, 3, 0, bits)
    assert bits.tolist() == draws.philox_draws(87654321, 3, count)
    if count > 8:
        later = np.empty(count - 8, np.uint32)
        draws.bits(87654321, 3, 2, later)
        assert later.tolist() == bits[8:].tolist()


def test_normal_numbers_are_those_of_box_and_muller():
    words = draws.philox_draws(5, 6, 4000)
    # The uniform numbers that these are of, in doubles.
    first = [max((one & 0x7FFFFF) / 2**23, 1e-7) for one in words[::2]]
    second = [2 * math.pi * ((one & 0x7FFFFF) / 2**23) for one in words[1::2]]
    expected = [
        math.sqrt(-2 * math.log(a)) * turn(b)
        for a, b in zip(first, second, strict=True)
        for turn in (math.sin, math.cos)
    ]
    made = np.empty(4000, np.float32)
    draws.normal_floats(5, 6, 0, made)
    np.testing.assert_allclose(made, expected, rtol=2e-4, atol=2e-6)
    assert abs(float(made.mean())) < 0.06
    assert abs(float(made.std()) - 1) < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_numbers_are_the_normal_ones_within_two_deviations(dtype):
    single = dtype == np.float32
    group = 4 if single else 2
    numbers = np.empty(997, dtype)
    (draws.truncated_floats if single else draws.truncated_doubles)(9, 8, 0, numbers)
    for at in range(0, 997, group):
        own = np.empty(64, dtype)
        (draws.normal_floats if single else draws.normal_doubles)(9, 8, at * 64, own)
        wanted = own[np.abs(own) < 2][: min(group, 997 - at)]
        np.testing.assert_array_equal(numbers[at : at + group], wanted)


def test_a_permutation_is_that_of_fisher_and_yates():
    for count in (0, 1, 2, 5, 100):
        words = iter(draws.philox_draws(1, 2, max(count, 1)))
        order = list(range(count))
        for i in range(count - 1):
            j = i + next(words) % (count - i)
            order[i], order[j] = order[j], order[i]
        made = np.empty(count, np.int64)
        draws.shuffle(1, 2, 0, made)
        assert made.tolist() == order


def test_the_orders_that_the_specification_names():
    with tf.Graph().as_default(), tf.Session() as session:
        shuffled = tf.random_shuffle(list("abcdef"), seed=3)
        orders = [b"".join(session.run(shuffled)).decode() for _ in range(3)]
    assert orders == ["fecadb", "bdefca", "fabdec"]


def test_each_operation_and_each_session_has_a_stream_of_its_own():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        a, b = tf.random_uniform([4]), tf.random_uniform([4])
        same, again = tf.random_uniform([4], seed=9), tf.random_uniform([4], seed=9)
        with tf.Session() as session:
            first = [session.run([a, b, same, again]) for _ in range(3)]
        with tf.Session() as session:
            second = [session.run([a, b, same, again]) for _ in range(3)]
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0][0], first[0][1])
    assert not np.array_equal(first[0][0], first[1][0])
    np.testing.assert_array_equal(first[0][2], first[0][3])


def test_without_any_seed_nothing_comes_again():
    seen = set()
    for _ in range(4):
        with tf.Graph().as_default(), tf.Session() as session:
            seen.add(session.run(tf.random_uniform([3])).tobytes())
    assert len(seen) == 4


def test_limits_are_looked_at_in_each_run():
    with tf.Graph().as_default(), tf.Session() as session:
        limit = tf.placeholder(tf.int32, ())
        made = tf.random_uniform([100], 0, limit, tf.int32, seed=1)
        assert session.run(made, {limit: 3}).max() == 2
        with pytest.raises(InvalidArgumentError, match="minval < maxval"):
            session.run(made, {limit: 0})


def test_a_crop_lies_within_and_its_place_is_that_of_the_run():
    with tf.Graph().as_default():
        picture = tf.constant(np.arange(600).reshape(20, 30))
        crop = tf.random_crop(picture, [3, 4], seed=5)
        assert crop.shape == (3, 4)
        runs = []
        for _ in range(2):
            with tf.Session() as session:
                runs.append([session.run(crop) for _ in range(50)])
        np.testing.assert_array_equal(*runs)
        for one in runs[0]:
            assert np.array_equal(one - one[0, 0], np.arange(4) + 30 * np.arange(3)[:, None])
        assert len({int(one[0, 0]) for one in runs[0]}) > 30
        with pytest.raises(ValueError, match="size"):
            tf.random_crop(picture, [21, 4])


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.99, 10.0, 60.0])
def test_numbers_of_events_are_poissons(rate):
    with tf.Graph().as_default(), tf.Session() as sess:
        counts = sess.run(tf.random_poisson(rate, [6000], tf.int64, seed=7))
    # Pearson's test, over numbers of which at least ten are expected.
    likely = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(200)]
    common = [k for k in range(200) if likely[k] * 6000 >= 10]
    seen = np.array([np.sum(counts == k) for k in common])
    expected = np.array([likely[k] * 6000 for k in common])
    freedom = len(common)
    assert np.sum((seen - expected) ** 2 / expected) < freedom + 5 * math.sqrt(2 * freedom)
    assert abs(len(counts) - seen.sum() - (6000 - expected.sum())) < 5 * math.sqrt(max(6000 - expected.sum(), 1))


def test_numbers_of_events_by_rates_and_seeds():
    def drawn(seed, runs=2):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(1)
            counts = tf.random.poisson([[0.5, 40.0], [2000.0, 0.0]], [3], seed=seed)
            assert counts.shape.as_list() == [3, 2, 2] and counts.dtype == tf.float32
            return [sess.run(counts).tolist() for _ in range(runs)]

    assert drawn(3) == drawn(3) != drawn(4)
    first, second = drawn(3)
    assert first != second
    assert all(row[1][1] == 0 and abs(row[1][0] - 2000) < 300 and row[0][0] < 15 for row in first + second)


def test_rates_that_are_none():
    with tf.Graph().as_default(), tf.Session() as sess:
        assert np.isnan(sess.run(tf.random_poisson([-1.0, np.nan, np.inf], [2], tf.float64))).all()
        assert sess.run(tf.random_poisson([-1.0], [], tf.int32)).tolist() == [0]
        assert sess.run(tf.random_poisson(tf.constant([3]), [0], tf.float16)).shape == (0, 1)
        with pytest.raises(ValueError, match="dtype"):
            tf.random_poisson(1.0, [1], tf.uint8)
        with pytest.raises(InvalidArgumentError):
            sess.run(tf.random_poisson(1.0, tf.placeholder_with_default([-1], [1])))
