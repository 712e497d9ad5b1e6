"""Modules of names: what is in them, as TensorFlow documents it, and what an error says of names that aren't."""

import collections
import importlib
import logging

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.tf1._graph import refused

NAMED = [(module, name) for module, names in refused._KNOWN.items() for name in sorted(names)]


def module_of(path):
    found = tf
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", sorted(refused._KNOWN))
def test_names_that_are_not_there_say_so(path):
    module = module_of(path)
    for name in refused._KNOWN[path]:
        assert not hasattr(module, name)
        with pytest.raises(refused.MissingNameError, match=rf"{path}\.{name}: .*Session\.run"):
            getattr(module, name)


def test_names_of_contrib_and_of_members():
    for name in ("rnn", "image", "layers.conv2d", "slim.nets", "training.create_train_op"):
        with pytest.raises(tf.errors.UnimplementedError, match=rf"tf\.contrib\.{name}: it isn't in"):
            module_of(f"tf.contrib.{name}")
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        one = tf.constant(1)
        for owner, name in (
            (graph, "as_graph_def"), (one, "experimental_ref"), (one.op, "node_def"), (sess, "partial_run")
        ):  # fmt: skip
            assert not hasattr(owner, name) and not hasattr(owner, "no_such_thing")
            with pytest.raises(refused.MissingNameError, match=f"{name}: it isn't in"):
                getattr(owner, name)


@pytest.mark.parametrize(
    "path",
    [
        "bitwise",
        "compat",
        "data",
        "debugging",
        "dtypes",
        "initializers",
        "io",
        "manip",
        "math",
        "nest",
        "queue",
        "sparse",
        "version",
    ],
)
def test_all_that_a_module_names_is_there(path):
    module = importlib.import_module(f"queuecore.tf1.{path}")
    assert module is getattr(tf, path)
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))
    assert not hasattr(module, "no_such_thing")


def test_names_in_their_modules():
    assert tf.dtypes.int32 is tf.int32 and tf.dtypes.bool is tf.bool and tf.dtypes.cast is tf.cast
    assert tf.queue.FIFOQueue is tf.FIFOQueue and tf.initializers.zeros is tf.zeros_initializer
    assert tf.debugging.assert_equal is tf.assert_equal and tf.debugging.check_numerics is tf.check_numerics
    assert tf.math.segment_sum is tf.segment_sum and tf.math.sinh is tf.sinh and tf.manip.roll is tf.roll
    assert tf.io.decode_json_example is tf.decode_json_example and tf.sparse.SparseTensor is tf.SparseTensor
    assert tf.OpError is tf.errors.OpError and tf.VERSION == tf.__version__ == "1.15.0" == tf.version.VERSION
    assert tf.errors.exception_type_from_error_code(16) is tf.errors.UnauthenticatedError


def test_switches():
    tf.disable_v2_behavior()
    tf.disable_eager_execution()
    for name in ("eager_execution", "v2_behavior", "v2_tensorshape", "tensor_equality"):
        with pytest.raises(tf.errors.UnimplementedError, match=f"tf.enable_{name}: operations make a graph"):
            getattr(tf, f"enable_{name}")()
    assert not tf.executing_eagerly() and not tf.resource_variables_enabled() and not tf.control_flow_v2_enabled()
    with tf.Graph().as_default():
        first = tf.no_op("first")
        with tf.control_dependencies([first]), tf.name_scope("scope"):
            with tf.init_scope():
                assert tf.no_op("a").control_inputs == [] and tf.get_default_graph().get_name_scope() == ""
            with tf.op_scope([], "inner"), tf.colocate_with(first):
                assert tf.no_op("b").name == "scope/inner/b"


Pair = collections.namedtuple("Pair", ["a", "b"])


def test_structures():
    structure = {"b": [1, (2, 3)], "a": Pair(4, {"z": 5})}
    assert tf.nest.flatten(structure) == [4, 5, 1, 2, 3] and tf.nest.flatten(7) == [7]
    assert tf.nest.pack_sequence_as(structure, [9, 8, 7, 6, 5]) == {"b": [7, (6, 5)], "a": Pair(9, {"z": 8})}
    assert tf.nest.map_structure(lambda x, y: x + y, [1, (2,)], [3, (4,)]) == [4, (6,)]
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    assert list(tf.nest.pack_sequence_as(ordered, [5, 6]).items()) == [("b", 6), ("a", 5)]
    assert tf.nest.is_nested([]) and not tf.nest.is_nested("ab") and tf.nest.is_nested({})
    with pytest.raises(ValueError, match=r"Structure had 5 elements, but flat_sequence had 1 elements"):
        tf.nest.pack_sequence_as(structure, [1])
    with pytest.raises(TypeError, match="must be a sequence"):
        tf.nest.pack_sequence_as(structure, 1)
    for one, other, error in (
        ([1], [1, 2], ValueError), ([1], 1, ValueError), ([1], (1,), TypeError), ({"a": 1}, {"b": 1}, ValueError),
        ([[1]], [1], ValueError),
    ):  # fmt: skip
        with pytest.raises(error, match="structure|keys"):
            tf.nest.assert_same_structure(one, other)
    tf.nest.assert_same_structure([1], (2,), check_types=False)
    with pytest.raises(TypeError, match="callable"):
        tf.nest.map_structure(1, [1])
    with pytest.raises(ValueError, match="at least one"):
        tf.nest.map_structure(len)


def test_logging_by_number_of_calls(caplog):
    caplog.set_level(1, "queuecore.tf1")
    for number in range(5):
        tf.logging.log_every_n(tf.logging.INFO, "every %d", 2, number)
        tf.logging.log_first_n(tf.logging.INFO, "first %d", 2, number)
        tf.logging.log_if(tf.logging.INFO, "if %d", number == 3, number)
    tf.logging.vlog(1, "detail")
    tf.logging.TaskLevelStatusMessage("status")
    tf.logging.flush()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["every 0", "first 0", "first 1", "every 2", "if 3", "every 4", "detail", "status"]
    assert caplog.records[-1].levelno == logging.ERROR


def test_types_of_python():
    assert isinstance(b"a", tf.compat.bytes_or_text_types) and isinstance(np.int8(1), tf.compat.integral_types)
    assert isinstance(1.5, tf.compat.real_types) and isinstance(1j, tf.compat.complex_types)
    assert tf.compat.forward_compatible(2019, 8, 1) and not tf.compat.forward_compatible(2020, 1, 1)
    with tf.compat.forward_compatibility_horizon(2030, 1, 1):
        assert tf.compat.dimension_value(tf.Dimension(3)) == 3


def test_local_variables():
    with tf.Graph().as_default(), tf.Session() as sess:
        local = tf.get_local_variable("seen", [], tf.int32, tf.ones_initializer())
        assert tf.local_variables() == [local] and tf.global_variables() == tf.trainable_variables() == []
        assert tf.moving_average_variables() == []
        sess.run(tf.local_variables_initializer())
        assert sess.run(local) == 1


JSON = [
    ('{"feature": {"a": {"floatList": {"value": [1.5, "2", "NaN"]}}}}', {"a": [1.5, 2.0, float("nan")]}),
    ('{"feature": {"a": {"int64_list": {"value": ["-3", 4, 5.0]}}, "z": {}}}', {"a": [-3, 4, 5], "z": []}),
    ('{"feature": {"a": {"bytesList": {"value": ["YQ==", "-_8"]}}}}', {"a": [b"a", b"\xfb\xff"]}),
    ("{}", {}),
    ("null", {}),
]


@pytest.mark.parametrize(("features", "values"), JSON)
def test_examples_as_json(features, values):
    text = f'{{"features": {features}}}'
    with tf.Graph().as_default(), tf.Session() as sess:
        made = tf.train.Example.FromString(sess.run(tf.decode_json_example(text)))
        found = {}
        for name, feature in made.features.feature.items():
            kind = feature.WhichOneof("kind")
            found[name] = list(getattr(feature, kind).value) if kind else []
        assert str(found) == str(values)
        assert sess.run(tf.decode_json_example([["{}"], [text]])).shape == (2, 1)


@pytest.mark.parametrize(
    "text",
    [
        "junk", "[]", '{"other": 1}', '{"features": {"feature": {"a": {"int64List": {"value": [1.5]}}}}}',
        '{"features": {"feature": {"a": {"floatList": {"value": [true]}}}}}',
        '{"features": {"feature": {"a": {"bytesList": {"value": ["?"]}}}}}',
        '{"features": {"feature": {"a": {"floatList": {"value": 1}}}}}',
        '{"features": {"feature": {"a": {"floatList": {}, "int64List": {}}}}}',
    ],
)  # fmt: skip
def test_what_is_no_example(text):
    with tf.Graph().as_default(), tf.Session() as sess:
        made = tf.decode_json_example(text)
        with pytest.raises(tf.errors.InvalidArgumentError, match="^Error while parsing JSON: "):
            sess.run(made)
