"""Texts of errors on which programs of TensorFlow match: theirs come first, ours behind."""

import threading

import numpy as np
import pytest

import queuecore.tf1 as tf
from queuecore.errors import InvalidArgumentError
from queuecore.tf1._graph.texts import before


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def message(sess, fetches, feed=None):
    with pytest.raises(tf.errors.OpError) as caught:
        sess.run(fetches, feed)
    return caught.value.message


SHAPES = [
    (tf.FIFOQueue, ((2, 2), (3, 3)), (3, 4), "[3,3]", "[3,4]"),
    (tf.PaddingFIFOQueue, ((2, 2), (3, None)), (4, 3), "[3,?]", "[4,3]"),
]


@pytest.mark.parametrize(("kind", "shapes", "wrong", "own_shape", "results"), SHAPES)
def test_components_of_another_shape(sess, kind, shapes, wrong, own_shape, results):
    queue, bad = kind(10, (tf.int32, tf.int32), shapes), tf.placeholder(tf.int32)
    good = np.ones((2, 2), np.int32)
    said = message(sess, queue.enqueue((good, bad)), {bad: np.ones(wrong, np.int32)})
    assert said.startswith(f"Shape mismatch in tuple component 1. Expected {own_shape}, got {results}: ")
    assert "component 1: expected shape" in said
    both = np.ones((2, *wrong), np.int32)
    said = message(sess, queue.enqueue_many((np.stack([good] * 2), bad)), {bad: both})
    assert said.startswith(f"Shape mismatch in tuple component 1. Expected [2,{own_shape[1:]}, got [2,{results[1:]}: ")


def test_a_scalar_component(sess):
    queue, bad = tf.FIFOQueue(10, tf.int32, [()]), tf.placeholder(tf.int32)
    assert message(sess, queue.enqueue(bad), {bad: [1]}).startswith(
        "Shape mismatch in tuple component 0. Expected [], got [1]"
    )
    assert message(sess, queue.enqueue_many([bad]), {bad: [[1], [2]]}).startswith(
        "Shape mismatch in tuple component 0. Expected [2], got [2,1]"
    )


def test_queues(sess):
    loose = tf.FIFOQueue(3, tf.float32)
    for op in (loose.dequeue_many(0), loose.dequeue_up_to(1)):
        assert message(sess, op).startswith(
            "FIFOQueue's DequeueMany and DequeueUpTo require the components to have specified shapes: "
        )
    count = tf.placeholder(tf.int32)
    assert message(sess, tf.FIFOQueue(3, tf.int32, [()]).dequeue_many(count), {count: -1}).startswith(
        "DequeueManyOp requested -1 < 0 elements: "
    )
    assert "indices = 3 is not in [0, 1)" in message(sess, tf.FIFOQueue.from_list(3, [loose]).dequeue())
    with pytest.raises(ValueError, match=r"When providing partial shapes, a list of shapes must be provided"):
        tf.PaddingFIFOQueue(3, tf.int32, 3)


SHARED = [
    ((15, tf.float32), {}, "Shared queue 'q' has capacity 10 but requested capacity was 15: "),
    ((10, tf.int32), {}, "Shared queue 'q' has component types float32 but requested component types were int32: "),
    ((10, [tf.float32, tf.int32]), {}, "component types float32 but requested component types were float32, int32: "),
    ((10, tf.float32, [(1, 2)]), {}, "component shapes [] but requested component shapes were [(1, 2)]: "),
]


@pytest.mark.parametrize(("arguments", "options", "text"), SHARED)
def test_shared_queues(sess, arguments, options, text):
    first = tf.FIFOQueue(10, tf.float32, shared_name="q")
    sess.run(first.queue_ref)
    assert text in message(sess, tf.FIFOQueue(*arguments, shared_name="q", **options).queue_ref)


def test_a_session_that_is_closed_meanwhile():
    with tf.Graph().as_default():
        sess = tf.Session()
        empty, full = tf.FIFOQueue(1, tf.float32, [()]), tf.FIFOQueue(1, tf.float32, [()])
        sess.run(full.enqueue(1.0))
        ops = [empty.dequeue(), empty.dequeue_many(1), full.enqueue(1.0), full.enqueue_many([[1.0]])]
        messages, began = {}, [threading.Event() for _ in ops]

        def work(index):
            began[index].set()
            try:
                sess.run(ops[index])
            except tf.errors.CancelledError as error:
                messages[index] = error.message
            except RuntimeError:  # it was closed before the run began
                messages[index] = "Dequeue operation was cancelled" if index < 2 else "Enqueue operation was cancelled"

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(ops))]
        for thread in threads:
            thread.start()
        for one in began:
            one.wait(20)
        sess.close()
        for thread in threads:
            thread.join(20)
    words = ["Dequeue", "Dequeue", "Enqueue", "Enqueue"]
    assert [messages[index].split(":")[0] for index in range(4)] == [
        f"{word} operation was cancelled" for word in words
    ]


CSV = [
    (["0.2,234a"], [[1.0], np.array([], np.int32)], "Field 1 in record 0 is not a valid int32: 234a"),
    (["3.0adf,3"], [[1.0], [1]], "Field 0 in record 0 is not a valid float: 3.0adf: "),
    (["1x"], [np.array([], np.float64)], "Field 0 in record 0 is not a valid double: 1x: "),
    (['a"bc'], [["a"]], "Unquoted fields cannot have quotes/CRLFs inside: "),
    (['"'], [["a"]], "Quoted field has to end with quote followed by delim or end: "),
    (['"a"b'], [["a"]], "Quote inside a string has to be escaped by another quote: "),
    ([",1", "0.2,"], [[1.0], np.array([], np.int32)], "Field 1 is required but missing in record 1!"),
    ([",1"], [[1.0]], "Expect 1 fields but have 2 in record 0"),
]


@pytest.mark.parametrize(("records", "defaults", "text"), CSV)
def test_csv(sess, records, defaults, text):
    assert message(sess, tf.decode_csv(records, defaults)).startswith(text)


def test_columns_of_csv():
    for columns, text in (
        ([0], "Length of select_cols and record_defaults do not match"),
        ([1, 0], "select_cols is not strictly increasing"),
        ([-1, 0], "select_cols contains negative values"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.decode_csv(["1,2"], [[0], [1]], select_cols=columns)


def test_readers_and_decoders(sess):
    assert message(sess, tf.TFRecordReader().serialize_state()).startswith("Reader SerializeState: ")
    assert message(sess, tf.TextLineReader().restore_state(b"x")).startswith("Reader RestoreState: ")
    for kind in (tf.WholeFileReader, tf.IdentityReader):
        reader = kind(name="r")
        assert message(sess, reader.restore_state(b"BOGUS")).startswith(
            f"Could not parse state for {kind.__name__} '{reader.reader_ref.op.name}': BOGUS: "
        )
    one = {"a": tf.FixedLenFeature([], tf.int64)}
    assert message(sess, tf.parse_single_example(b"x", one)).startswith("Could not parse example input, value: 'x': ")
    assert message(sess, tf.parse_example([b"x"], one)).startswith("Could not parse example input: ")
    assert message(sess, tf.decode_raw(["a", "bc"], tf.uint8)).startswith(
        "DecodeRaw requires input strings to all be the same size, but element 1 has size 1 != 2: "
    )
    assert message(sess, tf.decode_raw(["abc"], tf.int16)).startswith(
        "Input to DecodeRaw has length 3 that is not a multiple of 2, the size of int16: "
    )
    several = message(sess, tf.py_func(lambda: (1, 2), [], [tf.int64]))
    assert "returns 2 values, but expects to see 1 values" in several


def test_a_text_is_put_before_once():
    error = InvalidArgumentError("ours")
    before(error, "theirs")
    before(error, "theirs")
    assert str(error) == "theirs: ours"


def feature(**values):
    kinds = {float: "float_list", int: "int64_list", bytes: "bytes_list"}
    return {name: {kinds[type(one[0])]: {"value": one}} for name, one in values.items()}


def example(**values):
    return tf.train.Example(features=tf.train.Features(feature=feature(**values))).SerializeToString()


def sequence(context, steps):
    rows = {name: [tf.train.Feature(**feature(x=row)["x"]) for row in rows] for name, rows in steps.items()}
    lists = {name: tf.train.FeatureList(feature=one) for name, one in rows.items()}
    made = tf.train.SequenceExample(
        context=tf.train.Features(feature=feature(**context)), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )
    return made.SerializeToString()


def fixed(*arguments):
    return {"a": tf.FixedLenFeature(*arguments)}


# What TensorFlow says of features, of one message, and of a batch with names
FEATURES = [
    ({}, "Missing: features was {}."),
    (fixed(None, tf.float32), "Missing shape for feature a."),
    (fixed([None, 2], tf.float32), "First dimension of shape for feature a unknown. Consider using FixedLenSequence"),
    (fixed([2, None], tf.float32), "All dimensions of shape for feature a need to be known but received [2, None]."),
    (fixed([2], tf.float32, [1.0]), "Cannot reshape a tensor with 1 elements to shape [2] (2 elements)"),
    ({"a": tf.FixedLenSequenceFeature([], tf.float32)}, "Unsupported: FixedLenSequenceFeature requires allow_missing"),
]


@pytest.mark.parametrize(("features", "text"), FEATURES)
def test_features(features, text):
    for parse, given in ((tf.parse_example, [b""]), (tf.parse_single_example, b"")):
        with pytest.raises(ValueError) as caught:
            parse(given, features)
        assert str(caught.value).startswith(text)


def test_what_is_wrong_with_strings_of_messages(sess):
    given = [example(a=[b"x"])]
    stride = {"a": tf.FixedLenSequenceFeature([2], tf.string, allow_missing=True)}
    for features, text in ((fixed([2], tf.string), "!= expected."), (stride, "is not a multiple of stride length.")):
        assert f"Key: a, Index: 0.  Number of bytes values {text}" in message(sess, tf.parse_example(given, features))


STRIDE = {"a": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True)}
VALUES = [
    (fixed([3], tf.float32), "Name: nm, Key: a, Index: 0.  Number of float values != expected.  Values size: 2 but ou"),
    (fixed([2], tf.int64), "Name: nm, Key: a, Index: 0.  Data types don't match. Data type: float but expected type:"),
    ({"b": tf.FixedLenFeature([1], tf.float32)}, "Name: nm, Feature: b (data type: float) is required but could not b"),
    (STRIDE, "Name: nm, Key: a, Index: 0.  Number of float values is not a multiple of stride length. Saw 1 values but "
     "output shape is: [?,2]"),
]  # fmt: skip


@pytest.mark.parametrize(("features", "text"), VALUES)
def test_values_of_messages(sess, features, text):
    given = example(a=[1.0] if features is STRIDE else [1.0, 2.0])
    assert message(sess, tf.parse_example([given], features, example_names=["nm"])).startswith(text)


STEPS = [
    ({"a": tf.FixedLenFeature([], tf.float32)}, {}, "Context feature: a.  Data types don't match. Expected type: floa"),
    ({"q": tf.FixedLenFeature([], tf.float32)}, {}, "Context feature 'q' is required but could not be found."),
    ({}, {"b": tf.FixedLenSequenceFeature([1], tf.int64)}, "Feature list: b, Index: 0.  Data types don't match. Expe"),
    ({}, {"b": tf.FixedLenSequenceFeature([1], tf.float32)},
     "Key: b, Index: 1.  Number of float values != expected.  values size: 2 but output shape: [1]"),
    ({}, {"q": tf.FixedLenSequenceFeature([1], tf.float32)},
     "Feature list 'q' is required but could not be found.  Did "
     "you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"),
]  # fmt: skip


@pytest.mark.parametrize(("context", "steps", "text"), STEPS)
def test_sequences(sess, context, steps, text):
    record = sequence({"a": [1]}, {"b": [[1.0], [2.0, 3.0]]})
    made = tf.parse_single_sequence_example(record, context, steps, example_name="nm")
    assert message(sess, made).startswith(f"Name: nm, {text}")
    if steps:  # in a batch too: the step's number, not the record's
        several = tf.parse_sequence_example([record, record], context, steps, ["nm", "mn"])
        assert message(sess, several).startswith(f"Name: nm, {text}")
    with pytest.raises(ValueError, match=r"^Input serialized must be a scalar"):
        tf.parse_single_sequence_example([record], context, steps)


# Errors while the graph is built: the call, the class of the error, and what TensorFlow says
BUILT = [
    (lambda: tf.decode_raw(["ab"], tf.int32, fixed_length=7), "fixed_length (7) must be a multiple of the size of out"),
    (lambda: tf.stack([[1], [2, 3]]), "Dimension 0 in both shapes must be equal, but are 1 and 2. Shapes are [1] and"),
    (lambda: tf.stack([[1], [[2]]]), "Shapes must be equal rank, but are 1 and 2"),
    (lambda: tf.string_split("a"), "Shape must be rank 1 but is rank 0"),
    (lambda: tf.reshape([1, 2, 3, 4], [3]), "Cannot reshape a tensor with 4 elements to shape [3] (3 elements)"),
    (lambda: tf.reshape([1, 2, 3, 4], [3, -1]), "Dimension size must be evenly divisible by 3 but is 4"),
    (lambda: tf.Variable([1, 2]).assign([1]), "Dimension 0 in both shapes must be equal, but are 2 and 1."),
    (lambda: tf.SparseTensor([[0]], [1, 2], [2]), "Dimensions 1 and 2 are not compatible"),
    (lambda: tf.TensorShape([1]).merge_with([2]), "Shapes (1,) and (2,) are not compatible"),
    (lambda: tf.TensorShape(None).as_list(), "as_list() is not defined on an unknown TensorShape."),
    (lambda: len(tf.TensorShape(None)), "Cannot take the length of shape with unknown rank."),
    (lambda: list(tf.TensorShape(None)), "Cannot iterate over a shape with unknown rank."),
    (lambda: tf.constant(tf.TensorShape([1, None])), "Cannot convert a partially known TensorShape to a Tensor: (1, ?"),
    (lambda: tf.constant([tf.Dimension(None)]), "Cannot convert an unknown Dimension to a Tensor: ?"),
    (lambda: tf.strings.substr("a", 0, 1, unit="X"), "Attr 'unit' of 'Substr' Op passed string 'X' not in: \"BYTE\""),
    (lambda: tf.substr(["a", "b"], [0, 1], [1]), "Dimension 0 in both shapes must be equal, but are 2 and 1."),
    (lambda: tf.FIFOQueue(9, [tf.int32] * 2, [(), ()]).enqueue_many([[1], [1, 2]]), "Dimensions 1 and 2 are not comp"),
    (lambda: tf.FIFOQueue(9, tf.int32, [()]).enqueue_many([1]), "Shape () must have rank at least 1"),
    (lambda: tf.FIFOQueue(9, tf.int32, [()]).dequeue_many(-1), "Input 'n' must be >= 0, but is -1"),
    (lambda: tf.WholeFileReader().restore_state(["a"]), "Shape must be rank 0 but is rank 1"),
    (lambda: tf.decode_csv(["1"], [[1, 2]]), "Shape of a default must be a length-0 or length-1 vector, or a scalar"),
    (lambda: tf.decode_csv(["1"], [[1]], ";;"), "field_delim should be only 1 char"),
    (lambda: tf.python_io.TFRecordOptions("X"), 'Not a valid compression_type: "X"'),
    (lambda: tf.image.decode_png("", channels=7), "channels must be 0, 1, 3 or 4, got 7"),
    (lambda: tf.get_variable("v", [2], initializer=[1, 2]), "If initializer is a constant, do not specify shape."),
    (lambda: tf.ensure_shape([1, 2], [3]), "Dimension 0 in both shapes must be equal, but are 3 and 2."),
]


@pytest.mark.parametrize(("build", "text"), BUILT)
def test_while_the_graph_is_built(sess, build, text):
    with pytest.raises(ValueError) as caught:
        build()
    assert text in str(caught.value)


TYPES = [
    (lambda: tf.constant([1, "a"]), "Failed to convert object of type <class 'list'> to Tensor. Contents: [1, 'a']."),
    (lambda: tf.constant([None]), "Failed to convert object of type <class 'list'> to Tensor. Contents: [None]."),
    (lambda: tf.constant([1, 2.5], tf.int32), "Expected int32, got 2.5 of type 'float' instead."),
    (lambda: tf.constant(["a", "1"], tf.int32), "Expected int32, got 'a' of type 'str' instead."),
    (lambda: tf.substr("a", 1.0, 1), "Value passed to parameter 'pos' has DataType float32 not in list of allowed val"),
    (lambda: tf.string_join("ab"), "Expected list for 'inputs' argument to 'string_join' Op, not 'ab'."),
    (lambda: tf.decode_csv(["1"], [[True]]), "Value passed to parameter 'record_defaults' has DataType bool not in li"),
    (lambda: tf.cond(tf.constant(True), 1, lambda: 2), "true_fn must be callable."),
    (lambda: tf.Session(graph=5), "graph must be a tf.Graph, but got <class 'int'>"),
    (lambda: tf.Session(config=5), "config must be a tf.ConfigProto, but got <class 'int'>"),
    (lambda: tf.Dimension(3) + "a", "unsupported operand type(s) for +: 'Dimension' and 'str'"),
]


@pytest.mark.parametrize(("build", "text"), TYPES)
def test_types(sess, build, text):
    with pytest.raises(TypeError) as caught:
        build()
    assert text in str(caught.value)


def raising(error):
    def inner():
        raise error("blah")

    return inner()


# Errors of runs
RUNS = [
    (lambda: tf.substr(["hello"], 6, 1), "pos 6 out of range for string b'hello'"),
    (lambda: tf.substr("x", tf.placeholder_with_default([1, 1], None), 1),
     "pos and len should have the same shape, got: "
     "[2] vs. []"),
    (lambda: tf.constant(1) // 0, "Integer division by zero"),
    (lambda: tf.constant([1, 2]) % tf.placeholder_with_default([1, 0], None), "Integer division by zero"),
    (lambda: tf.truncatediv(1, 0), "Integer division by zero"),
    (lambda: tf.sparse_tensor_to_dense(tf.SparseTensor([[5]], [1], [2])),
     "indices[0] = [5] is out of bounds: need 0 <= "
     "index < [2]"),
    (lambda: tf.sparse_tensor_to_dense(tf.SparseTensor([[0], [0]], [1, 2], [2])), "indices[1] = [0] is repeated"),
    (lambda: tf.sparse_to_dense([[1], [0]], [3], 1), "indices[1] = [0] is out of order"),
    (lambda: tf.placeholder(tf.float32, [None, 2], name="p"),
     "You must feed a value for placeholder tensor 'p' with dtype "
     "float and shape [?,2]"),
    (lambda: tf.image.decode_png(b"junk"), "Unknown image file format. One of JPEG, PNG, GIF, BMP required."),
    (lambda: tf.image.encode_jpeg(np.zeros([2, 2, 2], np.uint8)), "image must have 1 or 3 channels, got [2, 2, 2]"),
    (lambda: tf.py_func(lambda: {"a": 1}, [], [tf.int64]), "Unsupported object type dict"),
    (lambda: tf.py_func(lambda: np.zeros(1, [("a", "f4")]), [], [tf.float32]), "Unsupported numpy type"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), RUNS)
def test_runs(sess, build, text):
    assert message(sess, build()).startswith(text)


def test_order_of_indices_need_not_be_checked(sess):
    places = tf.SparseTensor([[1], [0]], [1, 2], [3])
    assert sess.run(tf.sparse_tensor_to_dense(places, validate_indices=False)).tolist() == [2, 1, 0]
    assert sess.run(tf.sparse_to_dense([[1], [1]], [3], [4, 5], validate_indices=False)).tolist() == [0, 5, 0]


def test_python_functions(sess):
    failing = tf.py_func(lambda: raising(KeyError), [], [tf.int64])
    told = message(sess, failing)
    assert told.startswith("KeyError: 'blah'\n") and "in raising" in told and "in inner" in told
    numbers = iter(range(9))
    kept = tf.py_func(lambda: next(numbers), [], tf.int64, stateful=False)
    assert [sess.run(kept) for _ in range(2)] == [0, 0]
    fed = tf.placeholder_with_default(np.int64(1), [])
    called = tf.py_func(lambda x: next(numbers) + x, [fed], tf.int64, stateful=False)
    assert [sess.run(called) for _ in range(2)] == [2, 3]
    assert tf.py_func(lambda: None, [], [], stateful=False) == []


def test_feeds(sess):
    value = tf.placeholder(tf.uint8, name="fed")
    for feed, text in (
        ({value: 300}, "Type of feed value 300 with type <class 'int'> is not compatible with Tensor type"),
        ({value: tf.constant(1)}, "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include"),
        ({5: 1}, "Cannot interpret feed_dict key as Tensor: Can not convert a int into a Tensor."),
        ({tf.no_op(): 1}, "Cannot interpret feed_dict key as Tensor: Can not convert a Operation into a Tensor."),
        ({"x:0": 1}, "Cannot interpret feed_dict key as Tensor: The name 'x:0' refers to a Tensor which does not"),
        ({"x": 1}, "Cannot interpret feed_dict key as Tensor: The name 'x' looks like an (invalid) Operation name"),
        (5, "'feed_dict' must be a dictionary, instead of 'int'."),
    ):
        with pytest.raises(TypeError) as caught:
            sess.run(value, feed)
        assert text in str(caught.value)


def test_tensors_as_text(sess):
    assert str(tf.placeholder(tf.float32, [None, 2], name="p")) == 'Tensor("p:0", shape=(?, 2), dtype=float32)'
    assert str(tf.placeholder(tf.float32, name="q")) == 'Tensor("q:0", dtype=float32)'
    assert repr(tf.TensorShape([1, None])) == "TensorShape([Dimension(1), Dimension(None)])"


def test_values_that_are_shapes(sess):
    assert sess.run(tf.constant([tf.Dimension(3), 4])).tolist() == [3, 4]
    assert sess.run(tf.reshape(tf.range(6), [tf.Dimension(2), -1])).shape == (2, 3)
    assert sess.run(tf.fill(tf.TensorShape([1, 2]), True)).tolist() == [[True, True]]
    assert sess.run(tf.constant(True, tf.float32)) == 1.0
    assert tf.convert_to_tensor(1, preferred_dtype=tf.float32).dtype == tf.float32
    assert tf.convert_to_tensor("a", dtype_hint=tf.float32).dtype == tf.string
    shape = tf.TensorShape([2, None])
    assert [one.size for one in shape.as_proto().dim] == [2, -1] and tf.TensorShape(shape.as_proto()) == shape
    assert tf.TensorShape(tf.TensorShape(None).as_proto()).ndims is None
    assert tf.TensorShape(None)[1:3].as_list() == [None, None] and tf.TensorShape(None)[1:].ndims is None
    side = tf.Dimension(12)
    assert side == "12" and side == 12.0 and side != "_" and side != 12.5 and side * [0] == [0] * 12 == [0] * side
    assert (tf.Dimension(None) == "12") is None


def test_inputs_of_queues_operations(sess):
    queue = tf.FIFOQueue(3, [tf.int32, tf.float32], [(), ()])
    assert [one.dtype for one in queue.enqueue_many(([], [])).inputs] == [tf.resource, tf.int32, tf.float32]
