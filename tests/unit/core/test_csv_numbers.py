"""Numbers in text, against Python's own and against exact fractions."""

import random
import re
import struct
from fractions import Fraction

import numpy as np
import pytest
from helpers.models import csv_model
from helpers.models.csv_model import DTYPES, FLOAT32, FLOAT64, INT32, INT64, number
from hypothesis import example, given, settings, strategies as st

from queuecore._core.io.csv import CsvFormat

parsers = pytest.importorskip("queuecore._core.testing.parsers", reason="no test hooks (QUEUECORE_TESTING=1)")


def level_there(level):
    try:
        CsvFormat([(0, 0, None)], False, ord(","), True, b"", 1 << 20, level)
    except ValueError:
        return False
    return True


LEVELS = [level for level in (0, 1) if level_there(level)]


def same(kind, texts):
    """Each text alone, and in a column, by all kernels: equal to the model, bit for bit, or refused where it stands."""
    expected = [number(kind, text) for text in texts]
    for text, want in zip(texts, expected, strict=True):
        result = parsers.parse_number(kind, text)
        assert (result is None) == (want is None), (text, result, want)
        if want is not None and want == want:
            assert result == want.tobytes(), (text, np.frombuffer(result, DTYPES[kind]), want)
        elif want is not None:
            assert np.isnan(np.frombuffer(result, DTYPES[kind])[0]), text
    fine = [
        (text, want)
        for text, want in zip(texts, expected, strict=True)
        if want is not None and want == want and not set(b'\r\n,"') & set(text)
    ]
    for level in LEVELS:
        form = CsvFormat([(kind, 1, None)], True, ord(","), True, b"", 1 << 30, level)
        data = b"".join(b"," + text + (b"\r\n" if n % 3 == 0 else b"\n") for n, (text, _) in enumerate(fine))
        (column,), _, error, _ = parsers.csv_table(form, data, 1 << 20)
        assert error is None
        for (text, want), result in zip(fine, column, strict=True):
            assert result == want.tobytes(), (text, level, np.frombuffer(result, DTYPES[kind]), want)
        for text in [text for text, want in zip(texts, expected, strict=True) if want is None][:100]:
            if text and not set(b'\r\n,"') & set(text):
                result, _, error, _ = parsers.csv_table(form, b",1\n" * 20 + b"," + text + b"\n,1\n", 1 << 20)
                assert (len(result[0]), error.line, error.field) == (20, 21, 1), text


digits = st.text("0123456789", max_size=25)
long_digits = st.one_of(digits, st.text("0123456789", max_size=1000), st.text("09", max_size=400))
exponents = st.one_of(
    st.just(""), st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 450))
)
signs = st.sampled_from(["", "-", "+"])
decimals = st.builds("{}{}{}{}{}".format, signs, long_digits, st.sampled_from(["", "."]), long_digits, exponents)


@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
@given(st.lists(decimals, min_size=1, max_size=8))
@example(["1e400", "-1e400", "1e-400", "-1e-400", "0e99999999999999999999", "1e-99999999999999999999"])
@example(
    ["9007199254740993", "9007199254740992.9999", "9007199254740993.0000000001", "16777217", "16777217.0000000001"]
)
@example(["1.00000005960464477539062500000000000000000000001", "1.000000059604644775390625"])
@example(["0." + "0" * 340 + "1", "1" + "0" * 340, "0" * 400 + "1", "0." + "0" * 1000, "." + "0" * 30 + "1e30"])
@example(["2.2250738585072011e-308", "2.2250738585072014e-308", "4.9406564584124654e-324", "2.4703282292062327e-324"])
@example(["3.4028235677973366e38", "3.4028235677973365e38", "1.7976931348623158e308", "1.7976931348623159e308"])
@example(["1.40129846432481707e-45", "7.00649232162408535e-46", "7.0064923216240854e-46", "1.1754943508222875e-38"])
@example(
    ["12345678901234567890", "1234567890123456789012345678901234567890", "10000000000000000000", "9999999999999999999"]
)
@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_decimal_floats_are_exact(kind, texts):
    same(kind, [text.encode() for text in texts])


def decimal_text(value):
    """A fraction whose denominator is a power of two, with all of its digits."""
    shift = value.denominator.bit_length() - 1
    whole = str(abs(value.numerator) * 5**shift)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole[:-shift].rjust(1, '0')}.{whole[-shift:].rjust(shift, '0')}" if shift else sign + whole


def halfway(kind, bits):
    """Exactly between a float and the next one."""
    code, size = ("<f", 4) if kind == FLOAT32 else ("<d", 8)
    low, high = (struct.unpack(code, (bits + i).to_bytes(size, "little"))[0] for i in (0, 1))
    return (Fraction(low) + Fraction(high)) / 2


@settings(max_examples=150, deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_halfway_cases_go_to_the_even_one(kind, data):
    # All finite ones but the last, whose next is infinity.
    bits = data.draw(st.integers(0, 0x7F7FFFFE if kind == FLOAT32 else 0x7FEFFFFFFFFFFFFE))
    text = decimal_text(halfway(kind, bits))
    point = "" if "." in text else "."
    digits_only = text.replace(".", "").lstrip("0")
    texts = [text, text + point + "0" * 30 + "1", "-" + text, text + "e0", text + point + "0" * 800 + "1"]
    # One less in the last digit: a little below.
    texts.append(re.sub(r"([1-9])(\.?0*)$", lambda m: str(int(m[1]) - 1) + m[2].replace("0", "9"), text))
    # As an integer with an exponent, and cut after 19 digits.
    places = len(text.partition(".")[2])
    texts += [f"{digits_only}e-{places}", f"{digits_only[:19]}e{len(digits_only[19:]) - places}"]
    same(kind, [one.encode() for one in texts])


def test_short_texts_beside_halfway_cases_are_not_rounded_twice():
    # So near to the middle of two float32 that the nearest double is that middle, which would go to the even one.
    rng = random.Random(6)
    texts, twice = [], 0
    for _ in range(1500):
        middle = halfway(FLOAT32, rng.randrange(0x30000000, 0x60000000))
        digits, _, exponent = f"{float(middle):.15e}".partition("e")
        number_of = int(digits.replace(".", ""))
        for near in (number_of - 1, number_of, number_of + 1):
            texts.append(f"{near}e{int(exponent) - 15}".encode())
            exact = Fraction(near) * Fraction(10) ** (int(exponent) - 15)
            twice += np.float32(float(exact)) != csv_model.nearest32(exact) and near < 2**53
        if 0 <= int(exponent) < 16:
            texts.append(f"{float(middle):.{15 - int(exponent)}f}".encode())
    assert twice > 40  # else this shows nothing
    same(FLOAT32, texts)


def test_every_power_of_ten_and_two():
    texts = [b"%de%d" % (m, q) for q in range(-400, 400) for m in (1, 9, 18446744073709551615, 8301034833169298227)]
    texts += [b"0x1p%d" % q for q in range(-1100, 1100)]
    for kind in (FLOAT32, FLOAT64):
        same(kind, texts)


def test_exponents_beyond_every_integer():
    huge = [2**58, 2**60 - 1, 2**60, 2**63 - 1, 2**63, 2**64, 11326427779315745195, 10**19 - 1, 10**19, 10**20, 10**40]
    forms = [b"00.5e%d", b"00.5e-%d", b"1e%d", b"1e-%d", b"0e%d", b"0e-%d", b"0x.8p%d", b"0x.8p-%d"]
    texts = [form % exponent for form in forms for exponent in huge]
    for kind in (FLOAT32, FLOAT64):
        same(kind, texts)


@pytest.mark.thorough
def test_shortest_and_fixed_texts_of_random_floats():
    rng = random.Random(7)
    doubles = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(3000)]
    doubles += [rng.uniform(-1000, 1000) for _ in range(2000)]
    doubles = [one for one in doubles if one == one]
    texts = [repr(one) for one in doubles] + [f"{one:.18e}" for one in doubles]
    texts += [f"{one:.{rng.randrange(18)}f}" for one in doubles if abs(one) < 1e15]
    for kind in (FLOAT32, FLOAT64):
        same(kind, [text.encode() for text in texts])


@pytest.mark.thorough
def test_the_numbers_of_most_files():
    # Up to 16 characters: those that the vector kernels take.
    rng = random.Random(8)
    texts = []
    for _ in range(20000):
        count = rng.randrange(1, 17)
        text = "".join(rng.choice("0123456789") for _ in range(count))
        point = rng.randrange(2 * count)
        text = text[:point] + "." + text[point:] if point < count else text
        texts.append((rng.choice(["", "", "-"]) + text).encode())
    for kind in (FLOAT32, FLOAT64, INT32, INT64):
        same(kind, texts)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            "{}0{}{}{}{}{}".format,
            signs,
            st.sampled_from("xX"),
            st.text("0123456789abcdefABCDEF", max_size=24),
            st.sampled_from(["", "."]),
            st.text("0123456789abcdef", max_size=24),
            st.one_of(
                st.just(""),
                st.builds("p{}".format, st.integers(-1200, 1200)),
                st.builds("P+{}".format, st.integers(0, 9)),
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
@example(
    ["0x1.fffffefp127", "0x1.ffffffp127", "0x1p-150", "0x1.000001p-150", "0x0p99999999999999999999", "0x1p-9999999999"]
)
@example(["0x1.00000100000000000000000000000000001", "0x1.00000100000000000000000000000000000", "0x1.000003"])
@example(["0x1.00000000000008", "0x1.000000000000080000000001", "0x1.00000000000018", "0x.8p1", "0x.", "0xp1"])
@pytest.mark.parametrize("kind", [FLOAT32, FLOAT64])
def test_hexadecimal_floats_are_exact(kind, texts):
    same(kind, [text.encode() for text in texts])


integers = st.builds("{}{}{}".format, signs, st.sampled_from(["", "0", "0" * 30]), st.integers(0, 2**66))


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(st.lists(integers, min_size=1, max_size=8))
@example(["2147483647", "2147483648", "-2147483648", "-2147483649", "+2147483647"])
@example(["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" * 40])
@pytest.mark.parametrize("kind", [INT32, INT64])
def test_integers(kind, texts):
    same(kind, [text.encode() for text in texts])


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@given(st.text("0123456789+-.eExXpPabfinty_ \t\n\v\0", max_size=12))
@example("nan(1)")
@example("-NaN")
@example("+iNfInItY")
@example("1e+")
@example("1_0")
@example("0x")
@example("1.5.")
@example("-.")
@example("1\x00")
@example(" \t\n\v\f\r-1.5e1\r\f\v\n\t ")
@pytest.mark.parametrize("kind", list(DTYPES))
def test_what_is_a_number_and_what_is_none(kind, text):
    same(kind, [text.encode()])


def test_zeros_and_nans_keep_their_sign():
    for kind in (FLOAT32, FLOAT64):
        for text in (b"-0", b"-0.0", b"-1e-999", b"-0x0p0", b"-nan"):
            assert np.signbit(np.frombuffer(parsers.parse_number(kind, text), DTYPES[kind])[0])
        for text in (b"0", b"+0.0", b"1e-999", b"nan"):
            assert not np.signbit(np.frombuffer(parsers.parse_number(kind, text), DTYPES[kind])[0])


def test_powers_of_five():
    for q, got in parsers.powers_of_five().items():
        if q >= 0:
            value = 5**q << 128 >> (5**q).bit_length()
        else:
            value = (1 << (5**-q).bit_length() + 127) // 5**-q + (q >= -27)
        assert got == divmod(value, 1 << 64), q


def test_the_model_rounds_as_numpy_does_where_that_is_right():
    # Of a float32's own text, and of doubles that are no tie, NumPy's two roundings give the nearest.
    rng = random.Random(9)
    for _ in range(2000):
        value = np.frombuffer(rng.randbytes(4), np.float32)[0]
        if np.isfinite(value):
            assert csv_model.nearest32(Fraction(float(value))) == value
    assert csv_model.nearest32(halfway(FLOAT32, 0x3F800000)) == np.float32(1)
    assert csv_model.nearest32(halfway(FLOAT32, 0x3F800001)) == np.nextafter(np.nextafter(np.float32(1), 2), 2)
