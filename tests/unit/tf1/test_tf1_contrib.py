"""`tf.contrib` and `tf.lookup`: tables, slim's data library, hyperparameters."""

import collections

import numpy as np
import pytest
from helpers.formats.tfrecords import stream
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

slim = tf.contrib.slim

STATIC = "tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer({keys}, {values}), {default})"
# A table is filled within the run that looks keys up: the lookup waits for the initializer.
USED = (
    "(lambda t: (lambda c: [c.__enter__(), {what}, c.__exit__(None, None, None)][1])"
    "(tf.control_dependencies([tf.tables_initializer()])))({table})"
)
CASES = [
    *(
        USED.format(what=what, table=STATIC.format(keys=keys, values=values, default=default))
        for keys, values, default in (("['a', 'b']", "[1, 2]", "-1"), ("tf.constant([5, 7], tf.int64)", "['x', 'y']",
        "'?'"),
                                      ("['a', 'a']", "[1, 1]", "0"), ("['a', 'a']", "[1, 2]", "0"), ("['a']",
                                      "[1.5]", "0."))
        for what in ("t.lookup(tf.constant([['a', 'c']]))", "t.lookup(tf.constant([5, 6], tf.int64))", "t.size()",
                     "t.lookup(tf.SparseTensor([[0, 0], [0, 2]], ['b', 'z'], [1, 3]))", "t.lookup(tf.constant('a'))")
    ),
    *(
        USED.format(what=what, table="tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer("
                    f"['a', 'b'], tf.constant([0, 1], tf.int64)), {buckets})")
        for buckets in ("3", "1000", "0") for what in ("t.lookup(tf.constant(['a', 'q', 'b', 'rr']))", "t.size()")
    ),
    USED.format(what="t.lookup(tf.constant(['a', 'q']))", table="tf.lookup.StaticVocabularyTable(None, 50)"),
    f"{STATIC.format(keys=['a'], values=[1], default=0)}.lookup(tf.constant(['a']))",
]  # fmt: skip

ANSWERS = dict(zip(CASES, recorded("lookup", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_whole_lines_that_are_numbers_and_lines_that_are_none(sess, tmp_path):
    (tmp_path / "a").write_bytes(b"30\n-4\n")
    (tmp_path / "b").write_bytes(b"30\nx\n")
    lookup = tf.contrib.lookup
    table = lookup.HashTable(lookup.TextFileIdTableInitializer(str(tmp_path / "b"), key_dtype=tf.int64), -1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field x in line 1 is not a valid int64"):
        sess.run(table.init)
    (name,) = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
    sess.run(table.init, {name: str(tmp_path / "a")})
    assert sess.run(table[tf.constant([-4, 5], tf.int64)]).tolist() == [1, -1]
    keys, values = sess.run(table.export())
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {30: 0, -4: 1}


def test_a_tables_name_is_that_within_its_scope():
    with tf.name_scope("outer"):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
    assert table.name == "hash_table"


def test_hash_functions_that_are_none(sess):
    lookup = tf.contrib.lookup
    with pytest.raises(TypeError, match="HasherSpec"):
        lookup.index_table_from_tensor(["a"], 1, hasher_spec=3)
    with pytest.raises(ValueError, match="Unknown hasher slow"):
        lookup.index_table_from_tensor(["a"], 1, hasher_spec=lookup.HasherSpec("slow", None)).lookup(tf.constant(["b"]))


def test_tables_of_files(sess, tmp_path):
    path = str(tmp_path / "words")
    (tmp_path / "words").write_bytes(b"the\t5\r\nof\t7\nand\t9\n")
    lookup = tf.contrib.lookup
    table = lookup.index_table_from_file(path, key_column_index=0)
    oov = lookup.index_table_from_file(path, num_oov_buckets=2, vocab_size=2, key_column_index=0)
    strong = lookup.index_table_from_file(path, 3, hasher_spec=lookup.StrongHashSpec([1, 2]), key_column_index=0)
    words = lookup.index_to_string_table_from_file(path, value_column_index=0)
    numbers = lookup.HashTable(lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 1), -1)
    ints = lookup.index_table_from_file(path, key_dtype=tf.int64, key_column_index=1)
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        sess.run(table.lookup(tf.constant(["of"])))
    sess.run(tf.tables_initializer())
    sess.run(tf.tables_initializer())
    asked_for = tf.constant(["of", "x", "the"])
    assert sess.run(table.lookup(asked_for)).tolist() == [1, -1, 0]
    found = sess.run(oov.lookup(tf.constant(["of", "and", "the"]))).tolist()
    assert found[::2] == [1, 0] and found[1] in (2, 3) and sess.run(oov.size()) == 4
    assert sess.run(strong.lookup(asked_for))[1] in (3, 4, 5)
    assert sess.run(words.lookup(tf.constant([2, 9], tf.int64))).tolist() == [b"and", b"UNK"]
    assert sess.run(numbers.lookup(asked_for)).tolist() == [7, -1, 5]
    assert sess.run(ints.lookup(tf.constant([9, 1], tf.int64))).tolist() == [2, -1]
    rows = sess.run(table.lookup(tf.ragged.constant([["of"], [], ["the", "x"]])))
    assert rows.to_list() == [[1], [], [0, -1]]
    with pytest.raises(TypeError, match="Signature mismatch"):
        table.lookup(tf.constant([1]))
    with pytest.raises(TypeError, match="Signature mismatch"):
        oov.lookup(tf.constant([1]))
    for wrong in (
        lambda: lookup.index_table_from_file(""), lambda: lookup.index_table_from_file(path, -1),
        lambda: lookup.index_table_from_file(path, vocab_size=0), lambda: lookup.index_table_from_tensor(None),
        lambda: lookup.StrongHashSpec([1]), lambda: lookup.IdTableWithHashBuckets(None, 0),
        lambda: lookup.TextFileInitializer(path, tf.string, -1, tf.int64, 0),
        lambda: lookup.TextFileInitializer(path, tf.float32, -2, tf.int64, 0),
            lambda: lookup.TextFileInitializer(path, tf.int64, 0, tf.int64, -2),
            lambda: lookup.TextFileInitializer([path], tf.string, -2, tf.int64, -1),
            lambda: lookup.KeyValueTensorInitializer([1, 2], [1]),
        lambda: lookup.index_to_string_table_from_tensor(None), lambda: lookup.index_to_string_table_from_file(""),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
    for bad, text in (
        (lookup.index_table_from_file(path, vocab_size=4), "Invalid vocab_size"),
        (
            lookup.HashTable(lookup.TextFileInitializer(path, tf.string, 0, tf.int64, 3), -1),
            "Invalid number of columns",
        ),
        (
            lookup.HashTable(lookup.TextFileInitializer(path, tf.int64, 0, tf.string, -2), "-"),
            "is not a valid int64",
        ),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            sess.run(bad.init)


def test_tables_of_tensors_and_of_runs(sess):
    lookup = tf.contrib.lookup
    places = lookup.index_table_from_tensor(tf.constant(["a", "b"]), default_value=9)
    numbers = lookup.index_table_from_tensor([4, 6], dtype=tf.int64)
    words = lookup.index_to_string_table_from_tensor(["x", "y"], "none")
    sess.run(tf.tables_initializer())
    assert sess.run(places.lookup(tf.constant(["b", "?"]))).tolist() == [1, 9]
    assert sess.run(numbers.lookup(tf.constant([6], tf.int64))).tolist() == [1]
    assert sess.run(words.lookup(tf.constant([0, 5], tf.int64))).tolist() == [b"x", b"none"]
    table = lookup.MutableHashTable(tf.string, tf.float32, 0.5)
    assert sess.run(table.lookup(tf.constant("a"))) == 0.5
    sess.run(table.insert(["a", "b"], [1.0, 2.0]))
    sess.run(table.insert(["a"], [3.0]))
    sess.run(table.remove(["b", "q"]))
    keys, values = sess.run(table.export())
    assert (keys.tolist(), values.tolist(), sess.run(table.size())) == ([b"a"], [3.0], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape"):
        sess.run(table.insert(["a", "b"], [1.0]))


def test_tables_of_vectors(sess):
    table = tf.contrib.lookup.MutableHashTable(tf.int64, tf.string, ["?", "-"])
    keys = tf.placeholder(tf.int64)
    found = table.lookup(keys)
    assert table.lookup(tf.zeros([4, 3], tf.int64)).shape == (4, 3, 2)
    for given, sides in ([], (0, 2)), ([[]], (1, 0, 2)), (1, (2,)):
        assert sess.run(found, {keys: given}).shape == sides
    sess.run(table.insert(keys, [["a", "b"], ["c", "d"]]), {keys: [5, 6]})
    assert sess.run(found, {keys: [[6, 7]]}).tolist() == [[[b"c", b"d"], [b"?", b"-"]]]
    sess.run(table.insert(tf.constant(6, tf.int64), ["e", "f"]))
    names, values = sess.run(table.export())
    assert (names.tolist(), values.tolist()) == ([5, 6], [[b"a", b"b"], [b"e", b"f"]])
    for wrong in ["a", "b"], [["a", "b"]], [["a"], ["b"]]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected shape \[2, 2\]"):
            sess.run(table.insert(keys, wrong), {keys: [1, 2]})
    for wrong in [["a"]], tf.placeholder(tf.string):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be a vector"):
            tf.contrib.lookup.MutableHashTable(tf.int64, tf.string, wrong)


def test_tables_whose_keys_are_vectors(sess):
    make = tf.lookup.experimental.DenseHashTable
    assert tf.contrib.lookup.MutableDenseHashTable is make
    table = make(tf.string, tf.float32, -1.0, ["", ""], ["x", "x"])
    sess.run(table.insert([["a", "b"], ["b", "a"], ["a", "b"]], [1.0, 2.0, 3.0]))
    assert sess.run(table.lookup(tf.constant([["b", "a"], ["a", "b"], ["a", "a"]]))).tolist() == [2, 3, -1]
    sess.run(table.remove([["b", "a"], ["q", "q"]]))
    names, values = sess.run(table.export())
    assert (names.tolist(), values.tolist(), sess.run(table.size())) == ([[b"a", b"b"]], [3], 1)
    for wrong, told in (
        ([["", ""]], "empty_key"), ([["a", "a"], ["x", "x"]], "deleted_key"), (["a", "b"], r"key shape \[2, 2\]"),
        ("a", r"key shape \[1, 2\]"), ([[["a", "b"]]], "key shape"),
    ):  # fmt: skip
        for fetch in table.lookup(tf.constant(wrong)), table.remove(wrong):
            with pytest.raises(tf.errors.InvalidArgumentError, match=told):
                sess.run(fetch)
    single = make(tf.int64, tf.int64, -1, 0, -1)
    sess.run(single.insert(tf.constant(3, tf.int64), tf.constant(4, tf.int64)))
    assert sess.run(single.lookup(tf.constant(3, tf.int64))) == 4
    for wrong in (
        {"deleted_key": 0}, {"deleted_key": [1]}, {"initial_num_buckets": 3}, {"initial_num_buckets": -2},
        {"empty_key": tf.placeholder(tf.int64)},
    ):  # fmt: skip
        with pytest.raises(tf.errors.InvalidArgumentError):
            make(tf.int64, tf.int64, -1, **{"empty_key": 0, "deleted_key": -1} | wrong)


def example(label, pixels, boxes=()):
    feature = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(pixels)])),
        "image/format": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"raw"])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    for at, side in enumerate(("ymin", "xmin", "ymax", "xmax")):
        numbers = [box[at] for box in boxes]
        feature[f"box/{side}"] = tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


BOXES = {f"box/{side}": tf.VarLenFeature(tf.float32) for side in ("ymin", "xmin", "ymax", "xmax")}


def dataset(pattern, count):
    keys = {
        "image/encoded": tf.FixedLenFeature((), tf.string, ""),
        "image/format": tf.FixedLenFeature((), tf.string, "raw"),
        "label": tf.FixedLenFeature([1], tf.int64),
        **BOXES,
    }
    handlers = {
        "image": slim.tfexample_decoder.Image(shape=[2, 2, 3]),
        "label": slim.tfexample_decoder.Tensor("label", shape=[]),
        "boxes": slim.tfexample_decoder.BoundingBox(prefix="box/"),
    }
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys, handlers)
    return slim.dataset.Dataset(pattern, tf.TFRecordReader, decoder, count, {"label": "a number"}, num_classes=10)


@pytest.mark.parametrize("shuffle, readers", [(False, 1), (True, 2)])
def test_a_provider_gives_each_record_of_its_files(tmp_path, shuffle, readers):
    for file in range(2):
        told = [
            example(4 * file + number, range(number, number + 12), [(0.1, 0.2, 0.5, number)] * number)
            for number in range(4)
        ]
        (tmp_path / f"part-{file}").write_bytes(stream(told))
    with tf.Graph().as_default(), tf.Session() as sess:
        source = dataset(str(tmp_path / "part-*"), 8)
        assert source.num_classes == 10
        with pytest.raises(AttributeError, match="'split'"):
            _ = source.split
        provider = slim.dataset_data_provider.DatasetDataProvider(
            source, readers, shuffle=shuffle, num_epochs=1, common_queue_capacity=6, common_queue_min=2, seed=3
        )
        assert provider.list_items() == ["image", "label", "boxes", "record_key"] and provider.num_samples() == 8
        items = provider.get(["image", "label", "boxes", "record_key"])
        sess.run(tf.local_variables_initializer())
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        records = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                records.append(sess.run(items))
        coord.request_stop()
        coord.join(threads)
        labels = [int(record[1]) for record in records]
        assert sorted(labels) == list(range(8)) and (shuffle or labels == list(range(8)))
        for image, label, boxes, key in records:
            assert image.ravel().tolist() == list(range(label % 4, label % 4 + 12)) and image.shape == (2, 2, 3)
            assert boxes.shape == (label % 4, 4) and f"part-{label // 4}:".encode() in key
        with pytest.raises(ValueError, match="'weight' is not provided"):
            provider.get(["weight"])
        with pytest.raises(ValueError, match="cannot also be used"):
            slim.dataset_data_provider.DatasetDataProvider(source, record_key="label")
        with pytest.raises(ValueError, match="No data files found"):
            slim.parallel_reader.parallel_read(str(tmp_path / "none*"), tf.TFRecordReader)


def test_handlers_of_items(sess):
    handlers = slim.tfexample_decoder
    table = tf.contrib.lookup.index_table_from_tensor(["a", "b"])
    png = sess.run(tf.image.encode_png(np.full([3, 4, 1], 200, np.uint8)))
    record = tf.train.Example(features=tf.train.Features(feature={
        "numbers": {"float_list": {"value": [1, 2, 3, 4]}}, "height": {"int64_list": {"value": [2]}},
        "width": {"int64_list": {"value": [2]}}, "words": {"bytes_list": {"value": [b"b", b"z"]}},
        "indices": {"int64_list": {"value": [1, 3]}}, "values": {"float_list": {"value": [5, 6]}},
        "length": {"int64_list": {"value": [6]}}, "png": {"bytes_list": {"value": [png]}},
        "kind": {"bytes_list": {"value": [b"png"]}}, "pngs": {"bytes_list": {"value": [png, png]}},
    })).SerializeToString()  # fmt: skip
    features = {name: tf.VarLenFeature(tf.float32) for name in ("numbers", "values", "nothing")}
    features |= {name: tf.VarLenFeature(tf.int64) for name in ("height", "width", "indices", "length")}
    features |= {"words": tf.VarLenFeature(tf.string), "pngs": tf.VarLenFeature(tf.string)}
    features |= {"png": tf.FixedLenFeature([], tf.string), "kind": tf.FixedLenFeature([], tf.string)}
    items = {
        "square": handlers.Tensor("numbers", shape_keys=["height", "width"]),
        "plain": handlers.Tensor("numbers"),
        "places": handlers.LookupTensor("words", table),
        "sparse": handlers.SparseTensor(shape_key="length"),
        "dense": handlers.SparseTensor(shape=[5], densify=True, default_value=-1),
        "called": handlers.ItemHandlerCallback(["numbers", "values"], lambda given: given["numbers"].values * 2),
        "backup": handlers.BackupHandler(handlers.Tensor("nothing"), handlers.Tensor("values")),
        "first": handlers.BackupHandler(handlers.Tensor("values"), handlers.Tensor("numbers")),
        "picture": handlers.Image("png", "kind", channels=1, dtype=tf.float32),
        "pictures": handlers.Image("pngs", "kind", channels=1, repeated=True),
    }
    decoder = handlers.TFExampleDecoder(features, items)
    assert decoder.list_items() == list(items)
    sess.run(tf.tables_initializer())
    results = dict(zip(items, sess.run(decoder.decode(tf.constant(record))), strict=True))
    assert results["square"].tolist() == [[1, 2], [3, 4]] and results["plain"].tolist() == [1, 2, 3, 4]
    assert results["places"].tolist() == [1, -1] and results["sparse"].dense_shape.tolist() == [6]
    assert results["dense"].tolist() == [-1, 5, -1, 6, -1] and results["called"].tolist() == [2, 4, 6, 8]
    assert results["backup"].tolist() == results["first"].tolist() == [5, 6]
    assert (
        results["picture"].shape == (3, 4, 1)
        and results["picture"].dtype == np.float32
        and results["picture"].max() == 200
    )
    assert results["pictures"].shape == (2, 3, 4, 1)
    assert sess.run(decoder.decode(tf.constant(record), ["plain"]))[0].tolist() == [1, 2, 3, 4]
    for wrong in (
        lambda: handlers.Tensor("a", shape_keys="b", shape=[1]), lambda: handlers.BoundingBox(["a"]),
        lambda: handlers.BackupHandler(None, handlers.Tensor("a")),
        lambda: handlers.BackupHandler(handlers.Tensor("a"), None),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()


def test_parallel_readers_and_single_passes(sess, tmp_path):
    for file in range(2):
        (tmp_path / f"{file}").write_text("".join(f"{file}{line}\n" for line in range(3)))
    names = [str(tmp_path / "0"), str(tmp_path / "[1]")]
    single = slim.parallel_reader.single_pass_read(names, tf.TextLineReader, {"skip_header_lines": 1})
    queue = tf.FIFOQueue(10, [tf.string, tf.string], [(), ()])
    reader = slim.parallel_reader.ParallelReader(tf.TextLineReader, queue, 2)
    assert reader.num_readers == 2 and reader.common_queue is queue
    files = tf.train.string_input_producer(slim.parallel_reader.get_data_files(names), num_epochs=1)
    _, values = reader.read_up_to(files, 6)
    with pytest.raises(TypeError, match="must be a queue"):
        slim.parallel_reader.ParallelReader(tf.TextLineReader, None)
    sess.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coord)
    assert [sess.run(single)[1] for _ in range(4)] == [b"01", b"02", b"11", b"12"]
    assert sorted(sess.run(values)) == [b"00", b"01", b"02", b"10", b"11", b"12"]
    with pytest.raises(tf.errors.OutOfRangeError):
        sess.run(values)
    assert sess.run([reader.num_records_produced(), reader.num_work_units_completed()]) == [6, 2]
    coord.request_stop()
    coord.join(threads)


def test_labels_and_the_global_step(sess):
    made = slim.one_hot_encoding(tf.constant([1, 0]), 3, outputs_collections="labels")
    assert sess.run(made).tolist() == [[0, 1, 0], [1, 0, 0]] and tf.get_collection("labels") == [made]
    assert made.dtype is tf.float32
    step = tf.contrib.framework.get_or_create_global_step()
    assert tf.train.get_global_step() is step


def test_hyperparameters():
    hparams = tf.contrib.training.HParams(size=3, rate=0.5, name="a", on=True, sizes=[1, 2], nothing=None)
    assert hparams.size == 3 and "rate" in hparams and hparams.get("none", 7) == 7 and hparams.get("name") == "a"
    hparams.parse("size=4, rate=1,name=b c,on=false,sizes=[5,6,7],sizes[1]=9")
    assert hparams.values() == {
        "size": 4, "rate": 1.0, "name": "b c", "on": False, "sizes": [5, 9, 7], "nothing": None
    }  # fmt: skip
    hparams.override_from_dict({"rate": 2, "size": np.int64(8)}).parse_json('{"sizes": [1]}')
    assert (hparams.rate, hparams.size, hparams.sizes) == (2.0, 8, [1]) and type(hparams.rate) is float
    assert hparams.to_json(sort_keys=True).startswith('{"name": "b c", "nothing": null, "on": false')
    hparams.del_hparam("nothing")
    hparams.del_hparam("nothing")
    assert repr(hparams) == "HParams(name='b c', on=False, rate=2.0, size=8, sizes=[1])"
    for text in (
        "other=1",
        "size=x",
        "size=1,size=2",
        "on=maybe",
        "sizes[4]=1",
        "size=[1]",
        "sizes=1",
        "?",
        "size[0]=1",
    ):
        with pytest.raises(ValueError):
            hparams.parse(text)
    for name, value in (("size", 1.5), ("size", True), ("name", 3), ("on", 1)):
        with pytest.raises(ValueError, match="cast"):
            hparams.set_hparam(name, value)
    with pytest.raises(KeyError):
        hparams.set_hparam("other", 1)
    with pytest.raises(ValueError, match="reserved"):
        hparams.add_hparam("values", 1)
    with pytest.raises(ValueError, match="empty"):
        hparams.add_hparam("empty", [])


# tf.contrib.framework

nest = tf.contrib.framework.nest


def test_sorting_in_contrib():
    framework = tf.contrib.framework
    with tf.Session() as sess:
        assert sess.run(framework.sort([3, 1, 2], direction="DESCENDING")).tolist() == [3, 2, 1]
        assert sess.run(framework.argsort([3, 1, 2])).tolist() == [1, 2, 0]
    for function in (framework.sort, framework.argsort):
        with pytest.raises(ValueError):
            function(tf.constant([1, 2]), axis=1)


def test_structures_that_end_where_a_shallow_one_does():
    deep = {"x": [(1, 2), {"k": 3}], "a": (4, [5])}
    shallow = {"a": (None, None), "x": [None, None]}
    assert nest.flatten_up_to(shallow, deep) == [4, [5], (1, 2), {"k": 3}]
    assert nest.flatten_up_to(0, deep) == [deep]
    counted = nest.map_structure_up_to(shallow, lambda name, part: (name, nest.flatten(part)), shallow, deep)
    assert counted == {"a": ((None, [4]), (None, [5])), "x": [(None, [1, 2]), (None, [3])]}
    assert nest.map_structure_up_to([0], len, ((1, 2, 3),), check_types=False) == [3]
    with pytest.raises(ValueError, match="no sequences"):
        nest.map_structure_up_to(shallow, len)


@pytest.mark.parametrize(
    ("shallow", "deep", "error", "message"),
    [
        ([0], 5, TypeError, "must also be a sequence"),
        ([0], (1,), TypeError, "sequence type"),
        ([0, [0]], [1, [2, 3]], ValueError, "length"),
        ({"a": 0}, {"b": 0}, ValueError, "keys"),
    ],
)
def test_structures_that_do_not_go_as_deep(shallow, deep, error, message):
    with pytest.raises(error, match=message):
        nest.assert_shallow_structure(shallow, deep)


def test_how_deep_a_function_says():
    structure = {"list": [1, [2, 3]], "pair": (4, [5])}
    deep = nest.get_traverse_shallow_structure(lambda part: not isinstance(part, tuple), structure)
    assert deep == {"list": [True, [True, True]], "pair": False}
    deep = nest.get_traverse_shallow_structure(
        lambda part: (False, True) if isinstance(part, tuple) else True, structure
    )
    assert deep == {"list": [True, [True, True]], "pair": (False, [True])}
    for function in (lambda part: [True], lambda part: 1, lambda part: {"list": 1, "pair": True}):
        with pytest.raises(TypeError):
            nest.get_traverse_shallow_structure(function, structure)


def test_where_the_items_of_a_structure_are():
    pair = collections.namedtuple("pair", "left right")
    structure = {"b": [7], "a": pair(1, {2: 8})}
    assert list(nest.yield_flat_paths(structure)) == [("a", "left"), ("a", "right", 2), ("b", 0)]
    assert nest.flatten_with_joined_string_paths(structure, ".") == [("a.left", 1), ("a.right.2", 8), ("b.0", 7)]
    assert nest.map_structure_with_paths(lambda path, item: f"{path}={item}", structure) == {
        "b": ["b/0=7"], "a": pair("a/left=1", {2: "a/right/2=8"}),
    }  # fmt: skip
    assert list(nest.yield_flat_paths(3)) == [()]


def test_dicts_whose_keys_are_structures():
    assert nest.flatten_dict_items({("a", ("b", "c")): (1, (2, 3)), "d": [4]}) == {"a": 1, "b": 2, "c": 3, "d": [4]}
    for wrong in ({("a", "a"): (1, 2)}, {("a", "b"): (1,)}):
        with pytest.raises(ValueError):
            nest.flatten_dict_items(wrong)
    with pytest.raises(TypeError):
        nest.flatten_dict_items([1])


def test_what_is_a_structure():
    sparse = tf.SparseTensor([[0]], [1], [2])
    assert [nest.is_sequence(one) for one in ([], {}, (1,), "ab", {1}, sparse)] == [True, True, True] + 3 * [False]
    assert nest.is_sequence_or_composite(sparse) and not nest.is_sequence_or_composite(1)


def test_errors_of_structures_show_both_wholes_and_the_difference():
    with pytest.raises(ValueError, match="nested structure(?s:.*)More specifically: .*is a sequence"):
        tf.nest.assert_same_structure({"a": [1, 2]}, {"a": [1, (2,)]})
    with pytest.raises(TypeError, match="sequence type"):
        tf.nest.assert_same_structure([(1,)], [[1]])
    with pytest.raises(ValueError, match="number of elements"):
        tf.nest.map_structure(max, (1, 2), (1, 2, 3))
    with pytest.raises(ValueError, match="Only valid keyword"):
        tf.nest.map_structure(abs, [1], check_type=False)
    with pytest.raises(ValueError, match="is a scalar"):
        tf.nest.pack_sequence_as(0, [1, 2])
    # Named tuples of one name and fields are of one type, subclasses of them are not.
    first, second = (collections.namedtuple("same", "x y") for _ in range(2))
    tf.nest.assert_same_structure(first(1, 2), second(3, 4))
    with pytest.raises(TypeError):
        tf.nest.assert_same_structure(first(1, 2), collections.namedtuple("same", "y x")(1, 2))
