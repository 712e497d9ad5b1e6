"""Lines, TFRecords and CSV as datasets: records without known places, in order, for any threads and sizes of blocks."""

import gc
import json
import os
import pickle
import random

import numpy as np
import pytest
from helpers.data.blocks import KINDS, chains, content, flat, plain, played, pull, read_lines, run, small, source
from helpers.data.chains import THREADS, apply, threads, write_files
from helpers.formats.compressed import CODED, ENCODINGS, compress, number
from helpers.formats.example_messages import example, feature
from helpers.formats.tfrecords import stream
from hypothesis import HealthCheck, given, settings, strategies as st

import queuecore as qc
from queuecore._core.io.codecs import library
from queuecore._core.stream.describe import Frames
from queuecore.data import (
    UNKNOWN_CARDINALITY,
    ArraySpec,
    CsvDataset,
    FixedLengthRecordDataset,
    Options,
    TextLineDataset,
    TFRecordDataset,
    WholeFileDataset,
)
from queuecore.errors import InvalidArgumentError, NotFoundError, RecordTooLargeError, ResumeMismatchError

CHAINS = [
    [],
    [("batch", 7, False)],
    [("batch", 7, True), ("repeat", 3)],
    [("repeat", 3), ("batch", 13, False)],
    [("repeat", 2), ("batch", 13, True), ("skip", 4)],
    [("take", 20), ("repeat", 3), ("batch", 8, False)],
    [("skip", 13), ("take", 50), ("repeat", 2), ("take", 70), ("batch", 6, False)],
    [("batch", 3, True), ("batch", 4, True), ("repeat", 2)],
]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_every_size_of_blocks_at_every_border(tmp_path, kind):
    parts = [content(kind, count, seed) for seed, count in enumerate([0, 60, 1, 33])]
    paths = write_files(tmp_path, [text for text, _ in parts])
    expected = flat([records for _, records in parts])
    state = random.Random(kind)
    for piece in [*range(1, 65), 100, 1000]:
        for headroom in (1, 16, 64):
            ds = threads(
                small(source(kind, paths), piece, headroom).batch(state.choice([1, 3, 7, 50])), state.choice(THREADS)
            )
            got, error = run(ds)
            assert error is None
            assert flat(got) == expected, (piece, headroom)


@pytest.mark.parametrize("anew", [False, True])
def test_a_compressed_file_that_goes_away_while_open_gives_all_of_its_bytes(tmp_path, anew):
    lines = [b"%08x" % number for number in random.Random(0).choices(range(1 << 32), k=100_000)]
    path = tmp_path / "part"
    path.write_bytes(compress("GZIP", b"\n".join(lines)))
    with iter(threads(small(TextLineDataset([path], "GZIP"), 4096).batch(100).prefetch(1), 1)) as it:
        results = flat([plain(next(it))])
        open_now = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
        assert str(path) in open_now  # most of it is still to be read
        if anew:  # the descriptor keeps the file that was there before
            (tmp_path / "new").write_bytes(compress("GZIP", b"another\n" * 1000))
            os.replace(tmp_path / "new", path)
        else:
            path.unlink()
        results += flat([plain(batch) for batch in it])
    assert results == lines


@pytest.mark.thorough
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_records_much_longer_than_blocks(tmp_path, compression):
    state = random.Random(0)
    records = [state.randbytes(state.choice([0, 5, 3000, 70_000, 400_000, 1_200_000])) for _ in range(40)]
    lines = [record.replace(b"\n", b"").replace(b"\r", b"") for record in records]
    (tmp_path / "a").write_bytes(stream(records) if compression is None else compress("GZIP", stream(records), 1))
    text = b"\n".join(lines) + b"\n"
    (tmp_path / "b").write_bytes(text if compression is None else compress("GZIP", text, 1))
    for workers in THREADS:
        for batch in (1, 7, 100):
            got, error = run(threads(TFRecordDataset(tmp_path / "a", compression).batch(batch), workers))
            assert error is None
            assert flat(got) == records
            got, error = run(threads(TextLineDataset([tmp_path / "b"] * 2, compression).batch(batch), workers))
            assert error is None
            assert flat(got) == lines * 2


@pytest.mark.parametrize("encoding", CODED)
@pytest.mark.parametrize("kind", KINDS)
def test_compressed(tmp_path, kind, encoding):
    number(encoding)
    parts = [content(kind, count, seed) for seed, count in enumerate([0, 500, 1, 300])]
    paths = write_files(tmp_path, [compress(encoding, text) for text, _ in parts])
    expected = flat([records for _, records in parts])
    for workers in THREADS:
        got, error = run(threads(small(source(kind, paths, encoding), 1000).repeat(2).batch(7), workers))
        assert error is None
        assert flat(got) == expected * 2


def test_the_plan_names_the_library(tmp_path):
    for word in ENCODINGS:
        where = f"decompressed by {library(number(word))}, cut"
        (tmp_path / "a").write_bytes(b"")
        assert where in TextLineDataset(tmp_path / "a", word).plan()
        assert where in FixedLengthRecordDataset(tmp_path / "a", 3, compression_type=word).plan()


def test_fixed_length_records_that_are_compressed(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (1000, 13), dtype=np.uint8)
    body = b"headr" + b"".join(row.tobytes() + b"gap" for row in rows)[:-3] + b"foot"
    (tmp_path / "plain").write_bytes(body)
    (tmp_path / "gz").write_bytes(compress("GZIP", body))
    record = np.dtype([("a", ">u4"), ("b", "u1", (3, 3))])
    options = {"header_bytes": 5, "footer_bytes": 4, "hop_bytes": 16, "record": record}
    expected = [plain(one) for one in FixedLengthRecordDataset([tmp_path / "plain"] * 2, **options).batch(10)]
    for piece in (1, 7, 100, 1 << 18):
        ds = FixedLengthRecordDataset([tmp_path / "gz"] * 2, compression_type="GZIP", **options)
        assert ds.element_spec == {"a": ArraySpec((), np.dtype("u4")), "b": ArraySpec((3, 3), np.dtype("u1"))}
        got, error = run(small(ds, piece).batch(10))
        assert error is None
        assert got == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=chains(), data=st.data())
def test_chains_of_steps(tmp_path_factory, ops, data):
    kind = data.draw(st.sampled_from(KINDS))
    parts = [
        content(kind, count, seed)
        for seed, count in enumerate(data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=3)))
    ]
    paths = write_files(tmp_path_factory.mktemp("chains"), [text for text, _ in parts])
    ds = apply(small(source(kind, paths), data.draw(st.sampled_from([1, 50, 1 << 18]))), ops)
    expected = played(flat([records for _, records in parts]), ops)
    if kind == "csv" and sum(op[0] == "batch" for op in ops) > 1:
        ds, expected = ds.take(0), []  # rows of rows come out as columns of columns
    got, error = run(threads(ds, data.draw(st.sampled_from(THREADS))))
    assert error is None
    assert got == expected


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ops", CHAINS)
def test_a_saved_place(tmp_path, kind, ops):
    if kind == "csv" and sum(op[0] == "batch" for op in ops) > 1:
        ops = CHAINS[1]
    parts = [content(kind, count, seed) for seed, count in enumerate([40, 0, 33])]
    paths = write_files(tmp_path, [text for text, _ in parts])
    fresh = apply(small(source(kind, paths), 70), ops)
    states, expected = [], []
    with iter(threads(fresh, 2)) as it:
        states.append(json.dumps(it.state_dict()))
        for element in it:
            expected.append(plain(element))
            states.append(json.dumps(it.state_dict()))
    assert expected == played(flat([records for _, records in parts]), ops)
    for index, state in enumerate(states):
        ds = apply(small(source(kind, paths), 50 + index), ops)
        with iter(threads(ds, THREADS[index % 3])) as it:
            it.load_state_dict(json.loads(state))
            assert pull(it, None if index % 5 == 0 else 2)[0] == expected[index:][: None if index % 5 == 0 else 2]


@pytest.mark.thorough
def test_a_saved_place_reads_from_there(tmp_path):
    # Not from the start of the data: what comes before is never read again.
    paths = write_files(tmp_path, [b"".join(b"%d\n" % n for n in range(100_000))] * 20)
    ds = TextLineDataset(paths).repeat(3).batch(1000)
    with iter(ds) as it:
        first = pull(it, 5500)[0]
        state = it.state_dict()
        rest = pull(it)[0]
    assert len(first) + len(rest) == 6000
    with iter(ds) as it:
        it.load_state_dict(state)
        assert pull(it)[0] == rest
        assert it.stats()["bytes_read"] < 6 * paths[0].stat().st_size
    paths[0].write_bytes(b"other\n")
    with iter(ds) as it, pytest.raises(ResumeMismatchError):
        it.load_state_dict(state)


# ---- maps ------------------------------------------------------------------------------------------------------------

FEATURES = {
    "image": qc.ops.FixedLenFeature((), bytes),
    "label": qc.ops.FixedLenFeature((), np.int64),
    "box": qc.ops.FixedLenFeature((2,), np.float32, (0.0, 1.0)),
    "some": qc.ops.VarLenFeature(np.float32),
    "words": qc.ops.VarLenFeature(bytes),
    "steps": qc.ops.FixedLenSequenceFeature((2,), np.int64, allow_missing=True, default_value=-1),
    "rows": qc.ops.RaggedFeature(np.int64),
}


def messages(count):
    examples = []
    for n in range(count):
        features = {"image": feature(b"i" * (n % 7)), "label": feature(n)}
        if n % 3:
            features |= {
                "some": feature(*[float(k) for k in range(n % 4)], kind=np.float32),
                "box": feature(1.5, float(n)),
            }
        if n % 2:
            features |= {
                "words": feature(*[b"w%d" % k for k in range(n % 5)], kind=bytes),
                "rows": feature(*range(n % 6), kind=np.int64),
            }
            features["steps"] = feature(*range(2 * (n % 3)), kind=np.int64)
        examples.append(example(**features))
    return examples


def same(result, expected):
    for name, want in expected.items():
        if isinstance(want, qc.Sparse):
            assert result[name].indices.tolist() == want.indices.tolist()
            assert result[name].dense_shape.tolist() == want.dense_shape.tolist()
            assert plain(result[name].values) == plain(want.values)
        else:
            assert type(result[name]) is type(want), name
            assert plain(result[name]) == plain(want), name
            assert getattr(result[name], "dtype", None) == getattr(want, "dtype", None)
    assert list(result) == list(expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("workers", THREADS)
@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_examples_are_what_eager_parsing_makes_of_the_batch(tmp_path, batch, workers):
    records = messages(300)
    (tmp_path / "a").write_bytes(stream(records))
    stage = qc.ops.parse_single_example(features=FEATURES)
    for ds in (
        small(TFRecordDataset(tmp_path / "a"), 5000).map(stage).batch(batch),
        TFRecordDataset(tmp_path / "a").batch(batch).map(qc.ops.parse_example(features=FEATURES)),
    ):
        with iter(threads(ds, workers)) as it:
            for start in range(0, len(records), batch):
                same(next(it), qc.ops.parse_example(records[start : start + batch], FEATURES))
            with pytest.raises(StopIteration):
                next(it)


def test_examples_one_by_one(tmp_path):
    records = messages(50)
    (tmp_path / "a").write_bytes(stream(records))
    ds = TFRecordDataset(tmp_path / "a").map(qc.ops.parse_single_example(features=FEATURES))
    assert ds.element_spec["words"] == ArraySpec((None,), np.dtype("S"))
    assert ds.batch(3, True).element_spec["box"] == ArraySpec((3, 2), np.dtype("f4"))
    for element, record in zip(ds, records, strict=True):
        expected = qc.ops.parse_single_example(record, FEATURES)
        assert list(element) == list(expected)
        for name, want in expected.items():
            if isinstance(want, qc.Sparse):
                assert element[name].indices.tolist() == want.indices.tolist()
                assert plain(element[name].values) == plain(want.values)
            else:
                assert plain(element[name]) == plain(want)


def test_shapes_that_only_the_data_knows(tmp_path):
    rows = [bytes(range(n, n + 6)) for n in range(40)]
    (tmp_path / "a").write_bytes(stream(rows))
    ds = TFRecordDataset(tmp_path / "a").map(qc.ops.decode_raw(out_type=np.uint8)).map(qc.ops.cast(dtype=np.float32))
    assert ds.batch(4).element_spec == ArraySpec((None, None), np.dtype("f4"))
    for workers in THREADS:
        got = [batch.copy() for batch in threads(ds.batch(7), workers)]
        assert np.concatenate(got).tolist() == [list(row) for row in rows]
        assert got[0].dtype == np.float32
    assert [one.tolist() for one in ds] == [list(row) for row in rows]
    turned = ds.map(qc.ops.reshape(shape=(2, -1))).map(qc.ops.transpose(perm=(1, 0)))
    assert next(iter(turned.batch(40))).tolist() == [np.array(list(row)).reshape(2, 3).T.tolist() for row in rows]


def test_unequal_shapes_are_an_error(tmp_path):
    (tmp_path / "a").write_bytes(stream([b"ab"] * 10 + [b"abc"]))
    ds = TFRecordDataset(tmp_path / "a").map(qc.ops.decode_raw(out_type=np.uint8))
    got, error = run(ds.batch(4))
    assert got == [[[97, 98]] * 4] * 2
    assert type(error) is InvalidArgumentError
    assert "[2]" in str(error)
    assert "[3]" in str(error)
    assert [len(one) for one in run(ds.batch(1))[0]] == [1] * 11


@pytest.mark.parametrize("kind", ["plain", "shuffled", "csv"])
def test_maps_of_other_sources(tmp_path, kind):
    table = np.arange(3000, dtype=np.int32).reshape(1000, 3)
    stage = qc.ops.on(1, qc.ops.compose(qc.ops.cast(dtype=np.float32), qc.ops.scale(a=0.5, b=1.0)))
    if kind == "csv":
        (tmp_path / "a").write_text("".join(",".join(map(str, row)) + "\n" for row in table))
        bare = CsvDataset(tmp_path / "a", [0, 0, 0])
    else:
        table.tofile(tmp_path / "a")
        bare = FixedLengthRecordDataset(tmp_path / "a", record=np.dtype([("x", "i4"), ("y", "i4"), ("z", "i4")]))
    bare = bare.shuffle(100, 3, False) if kind == "shuffled" else bare
    names = [0, 1, 2] if kind == "csv" else ["x", "y", "z"]
    for workers in THREADS:
        for element, want in zip(
            threads(bare.map(stage).batch(64), workers), threads(bare.batch(64), workers), strict=True
        ):
            assert element[names[0]].tolist() == want[names[0]].tolist()
            assert element[names[1]].tolist() == (want[names[1]] * 0.5 + 1).tolist()
            assert element[names[1]].dtype == np.float32
            assert element[names[2]].tolist() == want[names[2]].tolist()


def test_random_maps_do_not_depend_on_threads(tmp_path):
    rows = np.random.default_rng(0).integers(0, 255, (200, 4, 5, 1), dtype=np.uint8)
    (tmp_path / "a").write_bytes(stream([row.tobytes() for row in rows]))
    rows.tofile(tmp_path / "b")
    flip = qc.ops.compose(
        qc.ops.decode_raw(out_type=np.uint8, fixed_length=20),
        qc.ops.reshape(shape=(4, 5, 1)),
        qc.ops.random_flip_left_right(seed=7),
    )
    first = None
    for workers in THREADS:
        results = [
            batch.copy()
            for batch in threads(small(TFRecordDataset(tmp_path / "a"), 300).map(flip).repeat(2).batch(40), workers)
        ]
        results = np.concatenate(results)
        first = results if first is None else first
        assert (results == first).all()
    assert all(
        (one == row).all() or (one == row[:, ::-1]).all() for one, row in zip(first, [*rows, *rows], strict=True)
    )
    assert (first[:200] != first[200:]).any()  # another pass, other pictures
    fixed = (
        FixedLengthRecordDataset(tmp_path / "b", 20)
        .map(qc.ops.reshape(shape=(4, 5, 1)))
        .map(qc.ops.random_flip_left_right(seed=7))
    )
    assert (np.concatenate([batch.copy() for batch in fixed.repeat(2).batch(50)]) == first).all()


# ---- what a user sees ------------------------------------------------------------------------------------------------


def test_the_header_of_each_file_is_left_out(tmp_path):
    text = b'"na""me",x\r\na,1\nb,2\n'
    paths = write_files(tmp_path, [text, b"only a header\n", b"", b"no end", text])
    assert list(TextLineDataset(paths, skip_header_lines=2)) == [b"b,2", b"b,2"]
    paths = write_files(tmp_path, [text, b"only,header\n", b"", b"no,end", text])
    got = list(small(CsvDataset(paths, [bytes, 0], header=True), 3))
    assert [(name, int(x)) for name, x in got] == [(b"a", 1), (b"b", 2)] * 2


def test_csv_options(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf1;x;'a';NA\n2;y;'b;4.5\n")
    ds = CsvDataset(
        tmp_path / "a", [np.int64, 7.5], field_delim=";", use_quote_delim=False, na_value="NA", select_cols=[0, 3]
    )
    assert [(int(n), float(x)) for n, x in ds] == [(1, 7.5), (2, 4.5)]
    assert ds.element_spec == (ArraySpec((), np.dtype("i8")), ArraySpec((), np.dtype("f4")))


def test_what_is_held_stays(tmp_path):
    lines = [b"%d" % n * (n % 5) for n in range(5000)]
    (tmp_path / "a").write_bytes(b"\n".join(lines) + b"\n")
    ds = TextLineDataset(tmp_path / "a").batch(50).with_options(Options(max_leases=3))
    with iter(ds) as it:
        with pytest.warns(RuntimeWarning, match="copies"):
            batches = list(it)
        assert it.stats()["copied_batches"] == len(batches) - 3
    del it
    gc.collect()
    assert flat([batch.to_list() for batch in batches]) == lines
    splits = batches[0].row_splits
    del batches
    gc.collect()
    assert splits[-1] == sum(map(len, lines[:50]))


def test_iterators_that_are_dropped_while_threads_parse(tmp_path):
    # The steps belong to Python objects, which must outlive the threads and not the iterator.
    (tmp_path / "a").write_bytes(stream(messages(500)))
    (tmp_path / "b").write_bytes(content("csv", 5000)[0])
    for _ in range(100):
        it = iter(
            threads(
                TFRecordDataset(tmp_path / "a").map(qc.ops.parse_single_example(features=FEATURES)).repeat().batch(8), 4
            )
        )
        next(it)
        del it
        it = iter(threads(CsvDataset(tmp_path / "b", [0, b"", 0.0]).repeat().batch(8), 4))
        kept = next(it)
        del it
        assert len(kept) == 3


def test_what_is_not_known(tmp_path):
    (tmp_path / "a").write_bytes(b"a\nb\n")
    ds = TextLineDataset(tmp_path / "a")
    assert ds.cardinality() == UNKNOWN_CARDINALITY
    assert ds.batch(2).take(5).cardinality() == UNKNOWN_CARDINALITY
    assert ds.repeat().cardinality() == -1
    assert ds.take(0).cardinality() == 0
    with pytest.raises(TypeError, match="unknown"):
        len(ds)
    assert ds
    assert repr(ds.batch(2)) == f"<TextLineDataset of {tmp_path}/a>.batch(2, False)"
    copy = pickle.loads(pickle.dumps(ds.batch(3)))
    assert run(copy)[0] == [[b"a", b"b"]]
    (tmp_path / "c").write_bytes(b"1,2\n")
    assert run(pickle.loads(pickle.dumps(CsvDataset(tmp_path / "c", [0, 0]))))[0] == [(1, 2)]


def test_an_operation_on_whole_batches(tmp_path):
    (tmp_path / "a").write_bytes(b"abcd\nefgh\nij\n")
    ds = TextLineDataset(tmp_path / "a").map(qc.ops.decode_raw(out_type="u1", fixed_length=4)).batch(2)
    got, error = run(ds.map(qc.ops.reshape(shape=(4, -1))))
    assert error is None
    assert got == [[[97, 98], [99, 100], [101, 102], [103, 104]], [[105], [106], [0], [0]]]


def test_what_can_not_be(tmp_path):
    (tmp_path / "a").write_bytes(b"a\nb\n")
    ds = TextLineDataset(tmp_path / "a")
    with pytest.raises(qc.errors.DtypeError):
        ds.map(qc.ops.cast(dtype=np.float32))
    with pytest.raises(InvalidArgumentError, match="compression_type"):
        TextLineDataset(tmp_path / "a", "bzip2")
    with pytest.raises(InvalidArgumentError, match="skip_header_lines"):
        TextLineDataset(tmp_path / "a", skip_header_lines=-1)
    with pytest.raises(InvalidArgumentError, match="field_delim"):
        CsvDataset(tmp_path / "a", [0], field_delim="\n")
    with pytest.raises(InvalidArgumentError, match="record_defaults"):
        CsvDataset(tmp_path / "a", [])
    with pytest.raises(InvalidArgumentError, match="max_record_bytes"):
        Options(max_record_bytes=0)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(max_size=200) | st.text(alphabet="a\r\n", max_size=60).map(str.encode), piece=st.integers(1, 70))
def test_any_bytes_as_lines(tmp_path_factory, text, piece):
    path = tmp_path_factory.mktemp("lines") / "a"
    path.write_bytes(text)
    assert list(threads(small(TextLineDataset(path), piece), 2)) == read_lines(text)


# ---- whole files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_whole_files(tmp_path, compression):
    state = random.Random(0)
    contents = [state.randbytes(size) for size in (10, 0, 1, 300_000, 256 << 10, 1_000_000, 7)]
    packed = contents if compression is None else [compress(compression, content, 1) for content in contents]
    paths = write_files(tmp_path, packed)
    expected = [(str(path).encode(), content) for path, content in zip(paths, contents, strict=True)]
    for workers in THREADS:
        for piece in (1000, 1 << 18):
            ds = threads(small(WholeFileDataset(paths, compression), piece), workers)
            assert list(ds.repeat(2)) == expected * 2
            assert flat(run(ds.batch(3))[0]) == expected
            with iter(ds.batch(2)) as it:
                next(it)
                place = it.state_dict()
            with iter(ds.batch(2)) as it:
                it.load_state_dict(place)
                assert flat(pull(it)[0]) == expected[2:]
    got, error = run(WholeFileDataset(paths, compression).with_options(Options(max_record_bytes=300_000)))
    assert got == expected[:5]
    assert type(error) is RecordTooLargeError
    assert error.path == str(paths[5])
    with iter(
        WholeFileDataset(paths, compression).with_options(Options(max_record_bytes=300_000, on_error="skip"))
    ) as it:
        assert pull(it)[0] == expected[:5] + expected[6:]
        assert it.stats()["skipped_files"] == 1


def test_the_number_of_whole_files_is_known(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("")
    ds = qc.data.WholeFileDataset([tmp_path / "a", tmp_path / "b", tmp_path / "gone"])
    assert (len(ds), len(ds.batch(2)), len(ds.shuffle(2).skip(1)), ds.repeat().cardinality()) == (
        3,
        2,
        2,
        qc.data.INFINITE_CARDINALITY,
    )
    with pytest.raises(NotFoundError, match="gone"):
        list(ds.skip(2))  # elements that are left out are not read, and the others still are


def test_pictures_of_a_folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 9, 3), dtype=np.uint8)
    for index, one in enumerate(pixels):
        image.fromarray(one).save(tmp_path / f"{index:02}.png")
    (tmp_path / "07.png").write_bytes(b"no picture")
    decode = qc.ops.on(1, qc.ops.decode_png(channels=3), qc.ops.cast(dtype=np.float32))
    ds = WholeFileDataset(str(tmp_path / "*.png")).map(decode).batch(6).with_options(Options(on_error="skip"))
    for workers in THREADS:
        got = [(names.to_list(), batch.copy()) for names, batch in threads(ds, workers)]
        assert sum((names for names, _ in got), []) == [
            str(tmp_path / f"{index:02}.png").encode() for index in range(20) if index != 7
        ]
        assert (np.concatenate([batch for _, batch in got]) == np.delete(pixels, 7, 0)).all()


def test_a_stream_has_no_framing_of_readers():
    for word in ("identity", "nothing", "Lines", "", "rows"):
        with pytest.raises(ValueError, match=f"{word}.* is no framing of a stream"):
            Frames(word, 1, 1)
