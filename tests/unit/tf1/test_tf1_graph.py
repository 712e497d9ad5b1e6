"""Graphs of TensorFlow 1: scopes of several threads, names of elements, devices, counters.

What is expected is what TensorFlow's documentation of `tf.Graph` says, and the texts of its own errors.
"""

import threading

import pytest

import queuecore.tf1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def in_threads(works):
    """Run each function to its first yield, one after the other; then each to its end, in the same order."""
    steps = [(threading.Event(), threading.Event()) for _ in works]
    errors = []

    def run(work, inside, go_on):
        try:
            parts = work()
            next(parts)
            inside.set()
            go_on.wait(20)
            list(parts)
        except BaseException as error:
            errors.append(error)
            inside.set()

    threads = []
    for work, (inside, go_on) in zip(works, steps, strict=True):
        threads.append(threading.Thread(target=run, args=(work, inside, go_on)))
        threads[-1].start()
        inside.wait(20)
    for thread, (_, go_on) in zip(threads, steps, strict=True):
        go_on.set()
        thread.join(20)
    assert errors == []


def test_names_are_each_threads_own(graph):
    def named(at):
        def work():
            with graph.name_scope(f"thread{at}"):
                yield
                graph.create_op("NoOp", [], [], lambda run: None, "op")

        return work

    in_threads([named(at) for at in range(3)])
    assert [op.name for op in graph.get_operations()] == ["thread0/op", "thread1/op", "thread2/op"]
    with graph.name_scope("outer"):
        assert graph.get_name_scope() == "outer"
        assert tf.constant(1, name="inner").op.name == "outer/inner"
    assert graph.get_name_scope() == ""


@pytest.mark.parametrize("own", [True, False])
def test_dependencies_and_devices_of_threads(graph, own):
    outer = tf.no_op("outer")
    before = [tf.no_op(f"before{index}") for index in range(3)]

    def depending(index):
        def work():
            with graph.control_dependencies([before[index]]), graph.device(f"/cpu:{index}"):
                yield
                with graph.as_default():
                    tf.no_op(f"after{index}")

        return work

    with graph.control_dependencies([outer]), graph.device("/job:ps"):
        if own:
            graph.switch_to_thread_local()
            graph.switch_to_thread_local()
        in_threads([depending(index) for index in range(3)])
        assert tf.no_op().control_inputs[:1] == [outer]
    after = [graph.get_operation_by_name(f"after{index}") for index in range(3)]
    if own:
        assert [op.control_inputs for op in after] == [[outer, one] for one in before]
        assert [op.device for op in after] == ["/cpu:0", "/cpu:1", "/cpu:2"]
    else:  # what a thread sets holds for all of them
        assert after[0].control_inputs == [outer, *before] and after[0].device == "/cpu:2"
    if own:
        assert tf.no_op().control_inputs == [] and tf.no_op().device == ""


def test_devices(graph):
    names = []

    def place(op):
        names.append(op.name)
        return "/cpu:7" if op.type == "NoOp" else None

    with tf.device("/cpu:1"):
        with tf.device(place):
            assert tf.no_op("a").device == "/cpu:7"
            assert tf.constant(1, name="b").device == ""
        with tf.device(None):
            assert tf.no_op("c").device == ""
        with graph.colocate_with(tf.constant(1)):
            assert tf.no_op("d").device == "/cpu:1"
    assert names == ["a", "b"]
    assert tf.no_op("e").colocation_groups() == [b"loc:@e"]


WRONG = [
    (lambda g: g.get_tensor_by_name("x"), ValueError, "looks like an (invalid) Operation name, not a Tensor"),
    (
        lambda g: g.get_tensor_by_name("a"),
        ValueError,
        "The name 'a' refers to an Operation, not a Tensor. Tensor names",
    ),
    (lambda g: g.get_tensor_by_name("x:0"), KeyError, "The operation, 'x', does not exist in the graph."),
    (lambda g: g.get_tensor_by_name("a:1"), KeyError, "The operation, 'a', exists but only has 1 outputs."),
    (lambda g: g.get_tensor_by_name("a:b:c"), ValueError, "looks a like a Tensor name, but is not a valid one"),
    (lambda g: g.get_tensor_by_name(5), TypeError, "Tensor names are strings (or similar), not int."),
    (lambda g: g.get_operation_by_name("x"), KeyError, "The name 'x' refers to an Operation not in the graph."),
    (lambda g: g.get_operation_by_name("a:0"), ValueError, "Name 'a:0' appears to refer to a Tensor, not a Operation."),
    (lambda g: g.get_operation_by_name(b"a"), TypeError, "Operation names are strings (or similar), not bytes."),
    (lambda g: g.as_graph_element(5), TypeError, "Can not convert a int into a Tensor or Operation."),
    (
        lambda g: g.as_graph_element(tf.no_op(), allow_operation=False),
        TypeError,
        "Can not convert a Operation into a T",
    ),
    (lambda g: g.as_graph_element("a", False, False), ValueError, "allow_tensor and allow_operation can't both be"),
    (
        lambda g: tf.Graph().as_graph_element(g.get_tensor_by_name("a:0")),
        ValueError,
        "is not an element of this graph.",
    ),
]


@pytest.mark.parametrize(("ask", "error", "text"), WRONG)
def test_elements_that_are_not_there(graph, ask, error, text):
    tf.constant(1, name="a")
    with pytest.raises(error) as caught:
        ask(graph)
    assert text in str(caught.value)


def test_elements(graph):
    made = tf.constant(1, name="a")
    assert graph.get_tensor_by_name("a:0") is made and graph.get_operation_by_name("a") is made.op
    assert graph.as_graph_element("a") is made.op and made.op.values() == (made,)


def test_counters(graph):
    counter, steps = tf.Variable(0), tf.Variable(1, dtype=tf.int64)
    count, other = counter.count_up_to(2), tf.count_up_to(steps, 3)
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value Variable"):
            sess.run(count)
        sess.run(tf.global_variables_initializer())
        assert [sess.run(count), sess.run(count)] == [0, 1]
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError) as caught:
                sess.run(count)
            assert caught.value.message.startswith("Reached limit of 2") and caught.value.op is count.op
        assert sess.run(counter) == 2
        assert [sess.run(other), sess.run(other)] == [1, 2]
        with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 3"):
            other.eval()
    assert other.dtype == tf.int64 and other.shape == ()
    with pytest.raises(TypeError, match="Value passed to parameter 'ref' has DataType float32"):
        tf.Variable(1.0).count_up_to(3)
    with pytest.raises(ValueError):
        tf.Variable([1]).count_up_to(3)
