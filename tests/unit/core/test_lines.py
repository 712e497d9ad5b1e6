"""Lines of text: the kernels find and copy the lines that TextLineReader gives, and touch nothing else."""

import random

import pytest
from hypothesis import example, given, settings, strategies as st

import queuecore as qc

parsers = pytest.importorskip("queuecore._core.testing.parsers", reason="no test hooks (QUEUECORE_TESTING=1)")

ROOM = 8192


def pages(level):
    try:
        return parsers.LinesPages(level, ROOM)
    except ValueError:
        return None


LEVELS = [level for level in (0, 1, 2) if pages(level)]


def model(data):
    """Lines of a file, and where they end: past their newlines."""
    lines = data.split(b"\n")
    ends, at = [], 0
    for line in lines:
        at += len(line) + 1
        ends.append(at)
    if not lines[-1]:
        del lines[-1], ends[-1]
    return [line[:-1] if line.endswith(b"\r") else line for line in lines], ends


def splits_of(lines, base=0):
    splits = []
    for line in lines:
        base += len(line)
        splits.append(base)
    return splits


def check(kernels, data, gap=0, behind=0):
    """All the ends of a text, and all its lines, a last one without a newline included."""
    lines, ends = model(data)
    newlines = data.count(b"\n")
    assert kernels.find(data, ROOM, gap) == (ends[:newlines], newlines)
    assert kernels.find(data, newlines, gap) == (ends[:newlines], newlines)
    values = b"".join(lines)
    assert kernels.gather(data, 0, ends, len(values), gap=gap, behind=behind) == (values, splits_of(lines))


def texts(size):
    """Texts of so many bytes, with ends of all kinds in all places."""
    rng = random.Random(size)
    yield b"a" * size
    yield b"\n" * size
    yield (b"\r\n" * size)[:size]
    yield (b"\r\r\n" * size)[:size]
    yield bytes(rng.choices(b"ab\r\n", (20, 20, 1, 2), k=size))
    yield bytes(rng.choices(b"ab\r\n", (50, 50, 1, 1), k=size))
    # Bytes that differ from a newline by one bit, or by one.
    yield bytes(rng.choices(b"\n\x0b\x09\x08\x0e\x02\x1a\x2a\x4a\x8a\x00\xff", k=size))


@pytest.mark.parametrize("level", LEVELS)
def test_every_length(level):
    kernels = pages(level)
    for size in range(201):
        for data in texts(size):
            for gap in (-1, 0, 1, 63):
                check(kernels, data, gap)


@pytest.mark.parametrize("level", LEVELS)
def test_every_alignment(level):
    kernels = pages(level)
    for size in (0, 1, 31, 63, 64, 65, 127, 130, 200, 1100):
        for data in texts(size):
            for gap in range(64):
                check(kernels, data, gap, behind=gap)


@pytest.mark.parametrize("level", LEVELS)
def test_lines_of_every_length(level):
    kernels = pages(level)
    for size in (*range(201), *range(500, 530), 4000):
        for end in (b"\n", b"\r\n", b"\r\r\n"):
            line = bytes(97 + i % 23 for i in range(size)) + end
            for after in (b"", b"x", b"\n" * 70, b"\r\n" * 70, b"y" * 62 + b"\n", b"y" * 63 + b"\n", b"y" * 64 + b"\n"):
                check(kernels, line + after)
                check(kernels, b"\n" + after + line, behind=64)


def test_what_a_line_is():
    for level in LEVELS:
        kernels = pages(level)
        for data, lines in [
            (b"a\nb\n", [b"a", b"b"]),
            (b"a\r\nb\r\n", [b"a", b"b"]),
            (b"a\r\r\nb", [b"a\r", b"b"]),
            (b"a\rb\n\rc\n", [b"a\rb", b"\rc"]),
            (b"\n\r\n\r\r\n", [b"", b"", b"\r"]),
            (b"a\n\r", [b"a", b""]),
            (b"\0\x85\xe2\x80\xa8\x0b\x0c\n", [b"\0\x85\xe2\x80\xa8\x0b\x0c"]),
        ]:
            assert model(data)[0] == lines
            check(kernels, data)


@pytest.mark.parametrize("level", LEVELS)
def test_no_more_ends_than_there_is_room_for(level):
    kernels = pages(level)
    rng = random.Random(1)
    for weight in (1, 5, 60, 10000):
        data = bytes(rng.choices(b"a\n", (60, weight), k=700))
        _, ends = model(data)
        newlines = data.count(b"\n")
        for most in range(newlines + 1):
            assert kernels.find(data, most)[0] == ends[:most]
            # And on from there.
            if 0 < most < newlines:
                rest = [end - ends[most - 1] for end in ends[most:newlines]]
                assert kernels.find(data[ends[most - 1] :], ROOM)[0] == rest


@pytest.mark.parametrize("level", LEVELS)
def test_lines_some_at_a_time(level):
    kernels = pages(level)
    rng = random.Random(2)
    data = bytes(rng.choices(b"abc\r\n", (20, 20, 20, 1, 3), k=3000))
    lines, ends = model(data)
    for count in (1, 2, 7, 64):
        base = 1 << 40
        for first in range(0, len(lines), count):
            some = lines[first : first + count]
            want = b"".join(some), splits_of(some, base)
            begin = ends[first - 1] if first else 0
            got = kernels.gather(data, begin, ends[first : first + count], len(want[0]), base, behind=first % 65)
            assert got == want
            base = want[1][-1]
    assert kernels.gather(data, 5, [], 0) == (b"", [])
    assert kernels.gather(b"", 0, [], 0) == (b"", [])


FILES = st.lists(
    st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b"a", b"bcd", b"e" * 30, b"f" * 63, b"g" * 64, b"h" * 500]),
    max_size=60,
).map(b"".join)


@pytest.mark.thorough
@settings(max_examples=500, deadline=None)
@given(st.one_of(FILES, st.binary(max_size=300)).filter(lambda data: len(data) <= ROOM), st.integers(-1, 64))
@example(b"\n" * 64, -1)
@example(b"\r", 0)
def test_any_text(data, gap):
    for level in LEVELS:
        check(pages(level), data, gap, behind=max(gap, 0))


def test_lines_are_those_of_the_reader(tmp_path):
    data = b"".join(data + b"\n" for size in range(0, 200, 7) for data in texts(size)) + b"end\r"
    (tmp_path / "a.txt").write_bytes(data)
    names = qc.FIFOQueue(1, [str], [()])
    names.enqueue(str(tmp_path / "a.txt"))
    names.close()
    reader = qc.TextLineReader()
    read = []
    with pytest.raises(qc.errors.OutOfRangeError):
        while True:
            read.append(reader.read(names)[1])
    assert read == model(data)[0]


def test_the_fastest_kernels_are_the_last_that_are_there():
    assert parsers.LinesPages.same(-1, LEVELS[-1])
    assert not any(parsers.LinesPages.same(-1, level) for level in LEVELS[:-1])
