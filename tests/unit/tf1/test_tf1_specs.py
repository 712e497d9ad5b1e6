"""Specifications of elements, optionals, and what iterators of a graph say of them."""

import warnings

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError

Dataset = tf.data.Dataset


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


def test_a_generator_of_a_signature():
    signature = {"id": tf.TensorSpec([], tf.int16), "text": tf.TensorSpec([None], tf.string)}
    dataset = Dataset.from_generator(lambda: iter([{"id": 4, "text": ["a", "bc"]}]), output_signature=signature)
    assert dataset.element_spec == signature
    element = run(tf.data.make_one_shot_iterator(dataset).get_next())
    assert element["id"] == 4
    assert element["text"].tolist() == [b"a", b"bc"]
    with pytest.raises(TypeError, match="tensors only"):
        Dataset.from_generator(lambda: iter(()), output_signature=tf.SparseTensorSpec([3], tf.int32))


def test_specifications_fit_what_may_be_meant():
    rows = tf.TensorSpec([None, 2], tf.int32)
    assert rows.is_compatible_with(tf.zeros([5, 2], tf.int32))
    assert rows.is_compatible_with(tf.TensorSpec(None, tf.int32))
    assert not rows.is_compatible_with(tf.zeros([5, 3], tf.int32))
    assert not rows.is_compatible_with(tf.TensorSpec([5, 2], tf.int64))
    assert not rows.is_compatible_with(tf.SparseTensorSpec([5, 2], tf.int32))
    assert tf.SparseTensorSpec([5, 2], tf.int32).is_compatible_with(tf.SparseTensorSpec([None, 2], tf.int32))
    ragged = tf.RaggedTensorSpec([None, None], tf.int32)
    assert ragged.ragged_rank == 1
    assert ragged.is_compatible_with(tf.ragged.constant([[1], [2, 3]]))
    assert not ragged.is_compatible_with(tf.RaggedTensorSpec([None, None, None], tf.int32))
    with pytest.raises(ValueError, match="ragged_rank"):
        tf.RaggedTensorSpec()
    assert tf.TensorSpec([]) == tf.TensorSpec((), "float32", name="other") != rows
    assert repr(tf.TensorSpec([2], tf.int8)) == "TensorSpec(shape=(2,), dtype=tf.int8, name=None)"
    assert tf.TensorShape(np.array([3, 4])).as_list() == [3, 4]
    assert tf.TensorShape(np.int64(3)).as_list() == [3]


def test_optionals_of_values():
    optional = tf.data.experimental.Optional.from_value({"a": tf.constant([1, 2]), "b": b"x"})
    assert optional.element_spec["a"] == tf.TensorSpec([2], tf.int32)
    there, value = run([optional.has_value(), optional.get_value()])
    assert there
    assert value["a"].tolist() == [1, 2]
    assert value["b"] == b"x"
    nothing = tf.data.experimental.Optional.none_from_structure(optional.value_structure)
    assert not run(nothing.has_value())
    with pytest.raises(InvalidArgumentError):
        run(nothing.get_value())


def test_names_of_sources(tmp_path):
    (tmp_path / "f").write_text("")
    for make in (
        lambda: Dataset.from_tensors(1, name="source"),
        lambda: Dataset.from_tensor_slices([1], name="source"),
        lambda: Dataset.range(3, name="source"),
        lambda: Dataset.list_files(str(tmp_path / "*"), name="source"),
        lambda: Dataset.zip((Dataset.range(1),), name="source"),
    ):
        with tf.Graph().as_default() as graph:
            make()
            assert graph.get_operation_by_name("source").type.endswith("Dataset")


def test_handles_are_there_when_the_graph_is_finalized():
    with tf.Graph().as_default() as graph:
        iterator = tf.data.make_one_shot_iterator(Dataset.range(3))
        graph.finalize()
        assert iterator.string_handle() is iterator.string_handle()
        with tf.Session() as session:
            assert session.run(iterator.string_handle())


def test_get_next_in_a_loop_is_warned_about():
    iterator = tf.data.make_one_shot_iterator(Dataset.range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(32):
            iterator.get_next()
    with pytest.warns(UserWarning, match="called 33 times"):
        iterator.get_next()


def test_what_does_not_fit_an_iterator():
    with tf.Graph().as_default():
        other = Dataset.range(3)
    for make in (tf.data.make_one_shot_iterator, tf.data.make_initializable_iterator):
        with pytest.raises(ValueError, match="created in the same graph as the iterator"):
            make(other)
    pair = (tf.int64, tf.float64)
    with pytest.raises(TypeError, match="same sequence type"):
        tf.data.Iterator.from_structure(pair, [[], []])
    iterator = tf.data.Iterator.from_structure(pair, ([], []))
    with pytest.raises(TypeError, match=r"\(tf.int64, tf.float64\) but got dataset with output types \(tf.int64, "):
        iterator.make_initializer(Dataset.from_tensors((np.int64(1), np.int64(2))))
    with pytest.raises(TypeError, match="Expected output shapes compatible with"):
        iterator.make_initializer(Dataset.from_tensors((np.int64(1), np.zeros(3))))


def test_what_a_dataset_of_a_graph_is_not_asked():
    dataset = Dataset.range(3)
    assert dataset  # not by its length, which only a run knows
    with pytest.raises(TypeError, match="not supported while tracing"):
        len(dataset)
    assert run(tf.data.make_one_shot_iterator(dataset.prefetch(None)).get_next()) == 0
    with pytest.raises(ValueError, match="must be a list"):
        tf.data.experimental.from_list((1, 2))
    for count, said in ((0, "Dataset was empty."), (2, "Dataset had more than one element.")):
        with pytest.raises(InvalidArgumentError, match=said):
            run(dataset.take(count).get_single_element())
