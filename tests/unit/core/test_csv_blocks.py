"""CSV files in blocks: the same rows wherever a block ends, whichever way a row is parsed."""

import csv
import io
import random

import numpy as np
import pytest
from helpers.models import csv_model
from helpers.models.csv_model import DTYPES, FLOAT32, FLOAT64, INT32, INT64, TEXT, number
from hypothesis import example, given, settings, strategies as st

from queuecore._core.io.csv import CsvFormat
from queuecore.errors import CsvError, RecordTooLargeError

parsers = pytest.importorskip("queuecore._core.testing.parsers", reason="no test hooks (QUEUECORE_TESTING=1)")


def level_there(level):
    try:
        form([TEXT], level=level)
    except ValueError:
        return False
    return True


def form(kinds, fields=None, delim=b",", quotes=True, na=b"", limit=64 << 20, level=-1, defaults=None):
    if defaults is None:
        defaults = [b"" if kind == TEXT else None for kind in kinds]
    columns = list(zip(kinds, fields or range(len(kinds)), defaults, strict=True))
    return CsvFormat(columns, fields is not None, delim[0], quotes, na, limit, level)


LEVELS = [level for level in (0, 1) if level_there(level)]


def expected(data, kinds, delim=b",", quotes=True, fields=None):
    """What csv_table should return, by the model: columns, cursor, (sentence, line, record, field) or None."""
    rows, fault = csv_model.rows(data, delim, quotes)
    columns = [[] for _ in kinds]
    columns_read = fields or range(len(kinds))
    for index, row in enumerate(rows):
        position = (row.offset, index, row.line)
        got = len(row.fields)
        if got <= columns_read[-1] or (fields is None and got != len(kinds)):
            return columns, position, (f"expected {columns_read[-1] + 1} fields, got {got}", row.line, index, None)
        values = []
        for kind, field in zip(kinds, columns_read, strict=True):
            text = row.fields[field]
            if kind == TEXT:
                values.append(text)
                continue
            value = number(kind, text) if text else None
            if value is None:
                sentence = f"{shown(text)!r} is no" if text else "required"
                return columns, position, (sentence, row.line, index, field)
            values.append(value.tobytes())
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    after = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    line = 1
    if fault is not None:
        # Where the bad row begins: what lies before it has no fault.
        for end in range(len(data), -1, -1):
            if end >= after and csv_model.rows(data[:end] or b"", delim, quotes)[1] is None:
                before = csv_model.rows(data[:end], delim, quotes)[0]
                if before == rows:
                    after = end
                    break
        return columns, None, (fault[0], fault[1], len(rows), fault[2])
    if rows:
        line = rows[-1].line + 1 + newlines(rows[-1].fields)
    return columns, (len(data), len(rows), line), None


def shown(text):
    return text[:40].decode(errors="backslashreplace") + "…" * (len(text) > 40)


def newlines(fields):
    return sum(len(one.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) - 1 for one in fields)


def assert_as_expected(got, want, place):
    columns, cursor, error, _ = got
    want_columns, want_cursor, fault = want
    assert columns == want_columns, place
    if want_cursor is not None:
        assert cursor == want_cursor, place
    if fault is None:
        assert error is None, place
        return
    sentence, line, record, field = fault
    assert type(error) is CsvError, place
    assert sentence in str(error) and f"'t.csv', line {line}" in str(error), (str(error), place)
    assert (error.path, error.line, error.record, error.field) == ("t.csv", line, record, field), place


BORDERS = [
    b'1,a\n2,"b\nc"\n3,d\n',
    b'1,a\r\n2,"b\r\nc"\r\n3,d\r\n',
    b'1,a\r2,"b\rc"\r3,d\r',
    b'1,a\n2,"b,""c"""\n3,',
    b'\xef\xbb\xbf1,a\n2,""\n3,"d"',
    b'1,a\r\n2,"b"\r3,\xef\xbb\xbf\n4,x',
    b"1," + b"a" * 70 + b'\n2,"' + b'""\n\r' * 20 + b'"\r\n3,b\n',
    b"".join(b"%d,%d\n" % (i, i * i) for i in range(60)),
    b"".join(b"%d,%d\r\n" % (i, i * i) for i in range(60)),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("data", BORDERS, ids=range(len(BORDERS)))
def test_every_block_size(data, level):
    want = expected(data, [INT32, TEXT])
    assert want[2] is None and len(want[0][0]) >= 3
    if data.startswith(b"1,"):
        text = io.StringIO(data.decode("latin-1"), newline="")
        assert [row[1].encode("latin-1") for row in csv.reader(text, strict=True)] == want[0][1]
    plan = form([INT32, TEXT], level=level)
    for size in (*range(1, 65), 1 << 16):
        for most in (1, 2, 1000):
            for cut in (False, True):
                got = parsers.csv_table(plan, data, size, most, cut)
                assert_as_expected(got, want, (size, most, cut))


def test_byte_order_mark_is_none_elsewhere_and_may_be_all_there_is():
    plan = form([TEXT])
    for size in range(1, 5):
        for data, rows in [
            (b"", []),
            (b"\xef\xbb\xbf", []),
            (b"\xef\xbb", [b"\xef\xbb"]),
            (b"\xef", [b"\xef"]),
            (b"\xef\xbbx", [b"\xef\xbbx"]),
            (b"\xef\xbb\xbf\n", [b""]),
            (b'\xef\xbb\xbf"a"', [b"a"]),
            (b"a\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        ]:
            for cut in (False, True):
                columns, _, error, _ = parsers.csv_table(plan, data, size, cut=cut)
                assert (columns, error) == ([rows], None), (data, size)


def test_a_blank_line_is_a_row_with_one_empty_field():
    columns, cursor, error, _ = parsers.csv_table(form([TEXT]), b"a\n\n\r\nb\r\r", 7)
    assert (columns, cursor, error) == ([[b"a", b"", b"", b"b", b""]], (8, 5, 6), None)
    _, _, error, _ = parsers.csv_table(form([TEXT, TEXT]), b"a,b\n\nc,d\n", 100)
    assert "line 2: expected 2 fields, got 1" in str(error)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("data", [b'\r\n"\n"', b'a\n\r\n"b\n"\n', b'\r\r\n"b,\n"\r\n', b'1\r\n\r\n"\r\n"', b'\r"\n"'])
def test_a_blank_line_that_a_piece_ends_in_changes_nothing(data, size):
    plan = form([TEXT], level=0)
    want = expected(data, [TEXT], b",", True, None)
    for cut in (False, True):
        assert_as_expected(parsers.csv_table(plan, data, size, 1000, cut), want, (size, cut))


FILES = st.lists(
    st.sampled_from(
        [b"1", b"-2.5", b"a", b",", b",", b",", b'"', b'"', b'""', b"\n", b"\n", b"\r\n", b"\r", b" ", b"\0", b"x" * 60]
    ),
    max_size=40,
).map(b"".join)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(FILES, st.integers(1, 64), st.integers(1, 4), st.sampled_from([b",", b";", b"1", b"\0"]), st.booleans())
@example(b'"a"b,c\n', 3, 2, b",", True)
@example(b'a"b,c\n', 3, 2, b",", True)
@example(b'1,2\n"3\n\n', 4, 2, b",", True)
@example(b"1\r1", 2, 1, b",", True)
def test_any_file_is_parsed_as_the_model_parses_it(data, size, width, delim, quotes):
    for kinds, fields in (([TEXT] * width, None), ([FLOAT64] + [TEXT] * (width - 1), None), ([TEXT], [width - 1])):
        want = expected(data, kinds, delim, quotes, fields)
        for level in LEVELS:
            plan = form(kinds, fields, delim, quotes, level=level)
            for cut in (False, True):
                got = parsers.csv_table(plan, data, size, 1000, cut)
                assert_as_expected(got, want, (level, cut, kinds, fields))


def table_text(rng, rows, columns, newline=b"\n"):
    kinds = [rng.choice([FLOAT32, FLOAT64, INT32, INT64, TEXT]) for _ in range(columns)]

    def cell(kind):
        if kind == TEXT:
            text = bytes(rng.choice(b'ab,"\n\rcdefgh') for _ in range(rng.randrange(12)))
            plain = not set(b'",\n\r') & set(text)
            return (text if plain else b'"' + text.replace(b'"', b'""') + b'"'), text
        if kind in (INT32, INT64):
            value = rng.randrange(-(2**31), 2**31) >> rng.randrange(31)
            text = b"%d" % value
        else:
            value = rng.choice(
                [rng.uniform(-1e6, 1e6), rng.gauss(0, 1), float(rng.randrange(1000)), rng.gauss(0, 1) * 1e200]
            )
            text = rng.choice([repr(value), f"{value:.3f}", f"{value:.6e}"]).encode()
        text = rng.choice([text, text, text, b" " + text, b"+" + text if text[:1] != b"-" else text])
        return text, number(kind, text).tobytes()

    table = [[cell(kind) for kind in kinds] for _ in range(rows)]
    data = newline.join(b",".join(text for text, _ in row) for row in table) + newline
    return kinds, data, [[row[i][1] for row in table] for i in range(columns)]


@pytest.mark.thorough
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("level", LEVELS)
def test_tables_larger_than_what_is_parsed_at_once(level, newline):
    rng = random.Random(3)
    for rows, columns in ((3000, 1), (3000, 7), (40, 300), (3, 5000)):
        kinds, data, want = table_text(rng, rows, columns, newline)
        for size in (1000, 1 << 20):
            for cut in (False, True):
                got, (offset, row, _), error, _ = parsers.csv_table(form(kinds, level=level), data, size, 700, cut)
                assert error is None
                assert got == want
                assert (offset, row) == (len(data), rows)


def test_selected_columns_of_rows_of_different_widths():
    data = b"".join(b"%d,%d,%d" % (i, 2 * i, 3 * i) + b",x" * (i % 3) + b"\n" for i in range(500)) + b"7,14\n"
    for level in LEVELS:
        got, _, error, _ = parsers.csv_table(form([INT64, INT64], [0, 2], level=level), data, 5000)
        assert [np.frombuffer(b"".join(one), np.int64).tolist() for one in got] == [
            list(range(500)),
            [3 * i for i in range(500)],
        ]
        assert "line 501: expected 3 fields, got 2" in str(error)


@pytest.mark.parametrize("level", LEVELS)
def test_missing_numbers_and_strings(level):
    kinds = [FLOAT32, FLOAT64, INT32, INT64, TEXT]
    defaults = [np.array(5 + i, DTYPES[kind]).tobytes() for i, kind in enumerate(kinds[:4])] + [b"none"]
    data = b"1,2,3,4,a\n,,,,\r\n-1,-1,-1,-1,-1\n" * 40 + b'"","-1",,"-1",""'
    plan = form(kinds, na=b"-1", level=level, defaults=defaults)
    got, _, error, _ = parsers.csv_table(plan, data, 300)
    assert error is None
    for i, kind in enumerate(kinds[:4]):
        one, default = (np.array(x, DTYPES[kind]).tobytes() for x in (1 + i, 5 + i))
        assert got[i] == [one, default, default] * 40 + [default]
    assert got[4] == [b"a", b"none", b"none"] * 40 + [b"none"]


# Row 27 of the list of faults.


@pytest.mark.parametrize("cut", [False, True])
def test_a_quote_that_is_never_closed_is_named_by_the_line_that_opens_it(cut):
    data = b'1,a\n2,"b\nb"\n3,"c\nd,e\n\n4,f\n'
    for size in range(1, 40):
        columns, cursor, error, _ = parsers.csv_table(form([INT32, TEXT]), data, size, 100, cut)
        assert columns[1] == [b"a", b"b\nb"]
        assert type(error) is CsvError
        assert str(error) == "'t.csv', line 4, column 2: the quote that opens here is never closed"
        assert (error.record, error.offset, error.field) == (2, data.index(b'"c'), 1)
        assert cursor == (data.index(b"3,"), 2, 4)


@pytest.mark.parametrize("cut", [False, True])
def test_a_bad_number_with_doubled_quotes_has_its_place(cut):
    data = b'a,1\nb,"2""3"\nc,4\n'
    for size in (1, 5, 100):
        _, _, error, _ = parsers.csv_table(form([TEXT, INT32]), data, size, 100, cut)
        assert (error.record, error.line, error.field, error.offset) == (1, 2, 1, data.index(b'2""3'))


@pytest.mark.parametrize("quote", [b"", b'"'])
@pytest.mark.parametrize("cut", [False, True])
def test_a_row_over_the_limit_is_refused_before_it_is_all_there(quote, cut):
    for size in (1, 7, 64):
        for newline in (b"\n", b"\r\n", b"\r", b""):
            fits = b"1\n" + quote + b"x" * (100 - 2 * len(quote)) + quote + newline
            columns, _, error, _ = parsers.csv_table(form([TEXT], limit=100), fits, size, 100, cut)
            assert error is None and len(columns[0]) == 2
            for more in (b"x", b"x" * 5000):
                data = fits.replace(b"xx", b"xx" + more, 1)
                columns, cursor, error, _ = parsers.csv_table(form([TEXT], limit=100), data, size, 100, cut)
                assert type(error) is RecordTooLargeError
                assert isinstance(error, MemoryError)
                assert (error.record, error.offset, columns[0]) == (1, 2, [b"1"])
                assert "line 2: a row of more than 100 bytes" in str(error)


def test_the_usual_limit_holds_for_a_line_without_end():
    data = b'1\n"' + bytes(1 << 20) * 70
    for cut in (False, True):
        _, cursor, error, _ = parsers.csv_table(form([TEXT]), data, 34 << 20, 100, cut)
        assert type(error) is RecordTooLargeError and cursor[0] == 2


@pytest.mark.parametrize("cut", [False, True])
def test_what_comes_after_the_limit_is_not_looked_at(cut):
    for size in (1, 7, 50, 5000):
        for rest in (b'x"x', b"x,x", b'"'):
            data = b"1\n" + b"x" * 200 + rest + b"\n"
            _, _, error, _ = parsers.csv_table(form([TEXT], limit=100), data, size, 100, cut)
            assert type(error) is RecordTooLargeError
    for size in (1, 7, 50, 5000):
        _, _, error, _ = parsers.csv_table(form([TEXT], limit=100), b'1\nx"' + b"x" * 200 + b"\n", size)
        assert type(error) is CsvError


def test_a_row_with_an_open_quote_over_the_limit_is_too_large_even_when_the_file_has_ended():
    data = b'1\n"' + b"x" * 1000
    for size in (10, 5000):
        _, _, error, _ = parsers.csv_table(form([TEXT], limit=100), data, size)
        assert type(error) is RecordTooLargeError


# Row 28.

BAD_ROWS = [
    (b"1", "expected 3 fields, got 1", None),
    (b"1,2,3,4", "expected 3 fields, got 4", None),
    (b"1,,3", "column 2: a value is required here", 1),
    (b"x,2,3", "column 1: 'x' is no int32", 0),
    (b"1,2,3x", "column 3: '3x' is no float64", 2),
    (b"99999999999,2,3", "column 1: '99999999999' is no int32", 0),
    (b'"1,5",2,3', "column 1: '1,5' is no int32", 0),
    (b'1,2,"3" ', "column 3: a quote inside a quoted field that is not doubled", 2),
    (b'1,2"2,3', "column 2: a quote inside a field that is not quoted", 1),
    (b"1,2,\x003", "column 3: '\\x003' is no float64", 2),  # row 30
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("bad", "sentence", "field"), BAD_ROWS)
def test_a_bad_row_is_named_and_can_be_skipped(bad, sentence, field, level):
    plan = form([INT32, TEXT, FLOAT64], level=level, defaults=[None, None, None])
    good = b"".join(b"%d,a,%d.5\r\n" % (i, i) for i in range(100))
    data = good + bad + b"\n" + good + bad + b"\n7,b,8"
    for size in (1, 13, 64, 1 << 16):
        columns, cursor, error, _ = parsers.csv_table(plan, data, size)
        assert type(error) is CsvError
        assert f"'t.csv', line 101{':' if field is None else ','} {sentence}" in str(error)
        assert (error.record, error.field, cursor) == (100, field, (len(good), 100, 101))
        assert len(good) <= error.offset <= len(good) + len(bad)
        assert len(columns[0]) == 100
        columns, cursor, error, skipped = parsers.csv_table(plan, data, size, skip=True)
        assert (error, skipped) == (None, 2)
        assert [np.frombuffer(one, np.int32)[0] for one in columns[0]] == [*range(100), *range(100), 7]
        assert cursor == (len(data), 203, 204)


def test_a_header_can_be_cut_off():
    data = b'\xef\xbb\xbf"a\nb",x\r\nc,d\n1,2\n'
    for size in range(1, 30):
        columns, cursor, error, _ = parsers.csv_table(form([TEXT, TEXT]), data, size, header_rows=2)
        assert (columns, cursor, error) == ([[b"1"], [b"2"]], (len(data), 3, 5), None)


# Row 30.


@pytest.mark.parametrize("level", LEVELS)
def test_nul_bytes_and_invalid_text_stay_in_strings(level):
    data = b'1,\0a\0\n2,\xff\xfe\n3,"\0"\n' * 30
    columns, _, error, _ = parsers.csv_table(form([INT32, TEXT], level=level), data, 100)
    assert error is None
    assert columns[1] == [b"\0a\0", b"\xff\xfe", b"\0"] * 30


@pytest.mark.thorough
def test_mutated_files_break_nothing():
    # What counts here is that no sanitizer has anything to say; that all ways agree shows that they did the work.
    rng = random.Random(11)
    for _ in range(150):
        kinds, data, _ = table_text(rng, rng.randrange(1, 30), rng.randrange(1, 6), rng.choice([b"\n", b"\r\n"]))
        text = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(text))
            if rng.random() < 0.5:
                text[at] = rng.choice(b'",\n\r\0 1.e-x')
            else:
                del text[at : at + rng.randrange(1, 20)]
            text = text or bytearray(b"x")
        data = bytes(text)
        answers = []
        for level in LEVELS:
            for cut in (False, True):
                for size in (rng.randrange(1, 65), 1 << 16):
                    plan = form(kinds, level=level, limit=1 << 20)
                    columns, cursor, error, _ = parsers.csv_table(plan, data, size, rng.choice([1, 3, 1000]), cut)
                    answers.append((columns, cursor, str(error)))
        assert all(one == answers[0] for one in answers)
        assert_as_expected((*answers[0][:2], error, 0), expected(data, kinds), data)


@pytest.mark.doors
def test_against_pyarrow():
    pa_csv = pytest.importorskip("pyarrow.csv", reason="pyarrow is not installed: make doors")
    rng = np.random.default_rng(2)
    table = rng.normal(size=(5000, 4)) * 10.0 ** rng.integers(-20, 20, (5000, 1))
    data = b"\n".join(b",".join(repr(float(one)).encode() for one in row) for row in table) + b"\n"
    theirs = pa_csv.read_csv(io.BytesIO(data), pa_csv.ReadOptions(autogenerate_column_names=True))
    got, _, error, _ = parsers.csv_table(form([FLOAT64] * 4), data, 1 << 16)
    assert error is None
    for mine, column in zip(got, theirs.columns, strict=True):
        np.testing.assert_array_equal(np.frombuffer(b"".join(mine), np.float64), column.to_numpy())
