"""decode_csv: records into columns, by TensorFlow's rules."""

import csv
import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import queuecore as qc
from queuecore._core.io.csv import CsvStep
from queuecore._elements.component import BYTES
from queuecore.errors import CsvError, DtypeError, InvalidArgumentError
from queuecore.ops import Component, Stage, decode_csv

F32, F64, I32, I64, S = np.float32(0), np.float64(0), np.int32(0), np.int64(0), b""


@pytest.mark.parametrize(
    ("records", "shape"),
    [
        (b"1,a", ()),
        ([b"1,a", b"2,b", b"3,c"], (3,)),
        (np.array([[b"1,a", b"2,b"], [b"3,c", b"4,d"]]), (2, 2)),
        (np.array([["1,a", "2,b"]], object), (1, 2)),
        ([], (0,)),
        (np.empty((2, 0), object), (2, 0)),
    ],
)
def test_columns_have_the_shape_of_the_records(records, shape):
    numbers, texts = decode_csv(records, [0, b""])
    assert numbers.dtype == np.int32 and numbers.shape == shape
    count = int(np.prod(shape))
    assert numbers.reshape(-1).tolist() == list(range(1, count + 1))
    if shape == ():
        assert texts == b"a"
    else:
        assert texts.dtype == object and texts.shape == shape
        assert texts.reshape(-1).tolist() == [b"%c" % (97 + i) for i in range(count)]


@pytest.mark.parametrize(
    ("default", "dtype", "value"),
    [
        (1, np.int32, 1),
        (1.5, np.float32, 1.5),
        ([7], np.int32, 7),
        (np.int64(2**40), np.int64, 2**40),
        (np.float64(0.1), np.float64, 0.1),
        (np.array([3], ">i8"), np.int64, 3),
        (np.array(-2.5, np.float32), np.float32, -2.5),
        (np.float32("nan"), np.float32, None),
        ("é", object, "é".encode()),
        (b"a\0", object, b"a\0"),
        ([b"x"], object, b"x"),
        (np.array(["y"]), object, b"y"),
        (np.array([b"z"], object), object, b"z"),
    ],
)
def test_defaults_and_their_types(default, dtype, value):
    first, _ = decode_csv([b",x"], [default, b""])
    assert first.dtype == dtype
    assert first[0] == value if value is not None else np.isnan(first[0])


@pytest.mark.parametrize(
    ("default", "dtype"),
    [
        ([], np.float32),
        (np.empty(0, np.int64), np.int64),
        (np.empty(0, np.float64), np.float64),
        (np.empty(0, "S"), object),
        (np.empty(0, object), object),
        (np.empty(0, str), object),
    ],
)
def test_no_default_means_required(default, dtype):
    assert decode_csv([b"1,"], [default, 0])[0].dtype == dtype
    for record in (b",1", b'"",1', b"NA,1"):
        with pytest.raises(CsvError, match="Field 0 is required but missing in record 2!$") as caught:
            decode_csv([b"1,1", b"2,2", record], [default, 0], na_value="NA")
        assert (caught.value.record, caught.value.field) == (2, 0)


@pytest.mark.parametrize(
    ("defaults", "error"),
    [
        ([], InvalidArgumentError),
        (None, InvalidArgumentError),
        ([[1, 2]], InvalidArgumentError),
        ([[[1]]], InvalidArgumentError),
        ([[b"a", b"b"]], InvalidArgumentError),
        ([2**31], InvalidArgumentError),
        ([True], DtypeError),
        ([None], DtypeError),
        ([np.float16(1)], DtypeError),
        ([np.uint8(1)], DtypeError),
        ([np.float16], DtypeError),
        ([1j], DtypeError),
        ([{}], DtypeError),
    ],
)
def test_defaults_that_are_refused(defaults, error):
    with pytest.raises(error):
        decode_csv(b"1", defaults)


@pytest.mark.parametrize(
    "options",
    [
        {"field_delim": ""},
        {"field_delim": ",,"},
        {"field_delim": "é"},
        {"select_cols": [0, 0]},
        {"select_cols": [1, 0]},
        {"select_cols": [-1, 0]},
        {"select_cols": [0]},
        {"select_cols": []},
        {"select_cols": [0, 2**31]},
    ],
)
def test_options_that_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        decode_csv(b"1,2", [0, 0], **options)


def test_input_that_is_no_bytes():
    with pytest.raises(DtypeError):
        decode_csv(5, [0])
    with pytest.raises(DtypeError):
        decode_csv([b"1", None], [0])
    with pytest.raises(DtypeError):
        decode_csv([[b"1"], [b"2", b"3"]], [0])
    with pytest.raises(DtypeError):
        decode_csv(np.arange(3), [0])


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (b"a,b", [b"a", b"b"]),
        (b"a,", [b"a", b""]),
        (b",", [b"", b""]),
        (b' a ,"b"', [b" a ", b"b"]),
        (b'"a,b","c\nd\r\n"', [b"a,b", b"c\nd\r\n"]),
        (b'"a""b",""""', [b'a"b', b'"']),
        (b'"",""""""', [b"", b'""']),
        (b"\n\ra,\r\n\nb", [b"a", b"b"]),  # before a field's first character
        (b"a\0b,\0", [b"a\0b", b"\0"]),
        (b"\xff\xfe,\x80", [b"\xff\xfe", b"\x80"]),
    ],
)
def test_records_that_can_be_split(record, fields):
    assert decode_csv(record, [S, S]) == fields


@pytest.mark.parametrize(
    "record",
    [
        b'a"b,c',
        b'"a"b,c',
        b'"a" ,c',
        b' "a",c',
        b'a,"',
        b'a,"b',
        b'a,"b""',
        b'a,"b"c"',
        b"a\nb,c",
        b"a,b\r",
        b"a,b\n",
        b"a,\n",  # passed over, so that there is one field
    ],
)
def test_records_that_cannot_be_split(record):
    with pytest.raises(CsvError) as caught:
        decode_csv([b"a,b", record], [S, S])
    assert caught.value.record == 1 and caught.value.field is None
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("record", "count"), [(b"", 0), (b"\n", 0), (b"1", 1), (b"1,2,3", 3), (b"1,2,", 3), (b"x,y,z", 3)]
)
def test_another_number_of_fields(record, count):
    with pytest.raises(CsvError, match=f"^Expect 2 fields but have {count} in record 1$"):
        decode_csv([b"1,2", record], [0, 0])


def test_quotes_may_be_data():
    assert decode_csv(b'"a,b"', [S, S], use_quote_delim=False) == [b'"a', b'b"']
    with pytest.raises(CsvError):
        decode_csv(b'"a\nb"', [S], use_quote_delim=False)


@pytest.mark.parametrize(
    ("record", "delim", "fields"),
    [
        (b"a;b,c", ";", [b"a", b"b,c"]),
        (b"a\tb", b"\t", [b"a", b"b"]),
        (b"a\0b", "\0", [b"a", b"b"]),
        (b"a\xffb", b"\xff", [b"a", b"b"]),
        (b"axb", "x", [b"a", b"b"]),
        # TensorFlow's answers, for what nobody should do.
        (b'"a""b', '"', [b"a", b"b"]),
        (b'a"', '"', [b"a", b""]),
        (b"a\nb", "\n", [b"a", b"b"]),
        (b"a\n", "\n", [b"a", b""]),
    ],
)
def test_delimiters(record, delim, fields):
    assert decode_csv(record, [S, S], field_delim=delim) == fields


def test_missing_values():
    records = [b"1,2", b"NA,", b'"NA",""', b",NA", b" NA,1"]
    texts, numbers = decode_csv(records, [b"none", -1], na_value="NA")
    assert texts.tolist() == [b"1", b"none", b"none", b"none", b" NA"]
    assert numbers.tolist() == [2, -1, -1, -1, 1]
    # Also one that is a number, or that only quotes can write.
    assert decode_csv([b"-1", b"-10"], [7], na_value="-1")[0].tolist() == [7, -10]
    assert decode_csv([b'"a""b"', b'"a""c"'], [b"none"], na_value=b'a"b')[0].tolist() == [b"none", b'a"c']


def test_selected_columns():
    records = [b"1,x,3,y", b'4,"a,b",6,1"2']
    got = decode_csv(records, [0, 0.0], select_cols=[0, 2])
    assert [one.tolist() for one in got] == [[1, 4], [3.0, 6.0]]
    assert decode_csv(b"1,", [0, b"d"], select_cols=np.array([0, 1])) == [1, b"d"]
    for record, count in ((b"1,2", 1), (b"", 0)):
        with pytest.raises(CsvError, match=f"Expect 2 fields but have {count} in record 0"):
            decode_csv(record, [0, 0], select_cols=[0, 5])
    with pytest.raises(CsvError):  # before the last one that is wanted
        decode_csv(b'x"y,2', [0], select_cols=[1])


@pytest.mark.parametrize(
    ("default", "texts"),
    [
        (I32, ["0x10", "1.0", "1e5", "1_0", "2147483648", "-2147483649", "+", "-", " ", "1 2", "+-1", "1\0", "\01"]),
        (I64, ["9223372036854775808", "-9223372036854775809", "nan", "1.", "1" * 400]),
        (F32, ["1_0", "1e", "1e+", ".", "0x", "0x1p", "nan(1)", "infin", "1f", "1d3", "\0", "1\0", " ", "1e 5", "--1"]),
        (F64, ["e5", "0x.p1", "+", "1..2", "1,5".replace(",", ";"), "ß"]),
    ],
)
def test_numbers_that_are_none(default, texts):
    dtype = np.asarray(default).dtype
    for text in texts:
        with pytest.raises(CsvError) as caught:
            decode_csv([b"5,5", b"5," + text.encode()], [default, default])
        assert str(caught.value).startswith(f"Field 1 in record 1 is not a valid {dtype}: ")
        assert (caught.value.record, caught.value.field) == (1, 1)


def test_numbers_too_large_and_too_small():
    record = b"1e400,-1e400,1e-400,3.5e38,1e-46"
    got = decode_csv(record, [F64, F64, F64, F32, F32])
    assert [float(one) for one in got] == [np.inf, -np.inf, 0.0, np.inf, 0.0]


def test_an_error_names_the_text_and_can_be_pickled():
    with pytest.raises(CsvError) as caught:
        decode_csv(np.array([[b"1,2"], [b'3,"x""y"']]), [0, 0])
    assert str(caught.value) == 'Field 1 in record 1 is not a valid int32: x"y'
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.record, copy.field) == (str(caught.value), 1, 1)


def test_the_first_bad_record_counts_and_in_it_its_structure():
    with pytest.raises(CsvError, match="Field 1 in record 0"):
        decode_csv([b"1,x", b"1"], [0, 0])
    with pytest.raises(CsvError, match="Expect 2 fields"):
        decode_csv([b"x,2,3"], [0, 0])


def test_without_input_it_is_a_stage():
    stage = decode_csv(record_defaults=[0, 1.0, np.float64(2), np.int64(3), "a"], field_delim="|")
    assert isinstance(stage, Stage)
    assert repr(stage) == "decode_csv(int32, float32, float64, int64, bytes)"
    step = stage.bind([Component(BYTES, (None,))])
    assert isinstance(step, CsvStep)
    assert [(one.dtype, one.shape) for one in step.outputs] == [
        (np.dtype(word), (None,)) for word in ("i4", "f4", "f8", "i8", "S")
    ]
    got = step(np.array([b"||||", b"1|2|3|4|b"], object))
    assert [one.tolist() for one in got] == [[0, 1], [1.0, 2.0], [2.0, 3.0], [3, 4], [b"a", b"b"]]
    with pytest.raises(CsvError, match="Field 0 in record 1"):
        step(np.array([b"||||", b"x||||"], object))
    for wrong in ([], [Component(np.dtype("i4"), ())], [Component(BYTES, ()), Component(BYTES, ())]):
        with pytest.raises(InvalidArgumentError):
            stage.bind(wrong)


def test_a_step_is_made_once():
    step = decode_csv(record_defaults=[0]).bind([Component(BYTES, ())])
    with pytest.raises(TypeError):
        step.__init__(step.inputs, step.outputs, step.format)
    with pytest.raises(TypeError):
        step.format.__init__([], False, 44, True, b"", 1)


def test_many_columns_and_a_large_batch():
    rng = np.random.default_rng(1)
    table = rng.integers(-(2**31), 2**31, (300, 700))
    records = [",".join(map(str, row)).encode() for row in table]
    np.testing.assert_array_equal(np.array(decode_csv(records, [0] * 700)).T, table)
    wanted = sorted(rng.choice(700, 20, replace=False).tolist())
    np.testing.assert_array_equal(np.array(decode_csv(records, [I64] * 20, select_cols=wanted)).T, table[:, wanted])


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.binary(max_size=8), min_size=n, max_size=n), min_size=1, max_size=5)
    ),
    st.sampled_from([",", ";", "\t"]),
)
def test_what_pythons_csv_module_writes(table, delim):
    records = []
    for row in table:
        text = io.StringIO()
        csv.writer(text, delimiter=delim, lineterminator="", quoting=csv.QUOTE_ALL).writerow(
            [one.decode("latin-1") for one in row]
        )
        records.append(text.getvalue().encode("latin-1"))
    got = decode_csv(records, [b""] * len(table[0]), field_delim=delim)
    assert [list(row) for row in zip(*got, strict=True)] == table


def test_it_is_public():
    assert qc.ops.decode_csv is decode_csv and "decode_csv" in qc.ops.__all__
