"""Patterns of file names, against regular expressions over the names that are there, and what TensorFlow answers."""

import glob
import os
import pathlib
import re
import threading

import pytest
from helpers.process import PATIENCE
from hypothesis import HealthCheck, example, given, settings, strategies as st

from queuecore._io.names import expand_patterns
from queuecore.errors import InvalidArgumentError

NAMES = [
    "a", "b", "c1", "c2", ".h", "x1", "x[1]", "dir/a", "dir/b1", "dir/.h", "dir/sub/a", ".d/a", "zz", "A", "späß", "a b"
]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / os.fsdecode(b"\xff\xfe")).write_text("")
    return folder


def there(folder):
    """Everything in a folder, as bytes, folders too; no link is followed."""
    found = []
    for path, folders, files in os.walk(os.fsencode(folder)):
        found += [os.path.relpath(os.path.join(path, name), os.fsencode(folder)) for name in folders + files]
    return found


def matching(folder, pattern):
    """The names that match by a regular expression."""
    text = b""
    for token in re.findall(rb"\[.+?\]|.", os.fsencode(pattern), re.DOTALL):
        if token == b"*":
            text += b"[^/]*"
        elif token == b"?":
            text += b"[^/]"
        elif len(token) > 1:
            text += b"(?!/)[" + token[1:].replace(b"[", rb"\[").replace(b"!", b"^")
        else:
            text += re.escape(token)
    return [name for name in there(folder) if re.fullmatch(text, name, re.DOTALL)]


def relative(names, folder):
    return [os.path.relpath(name, os.fsencode(folder)) for name in names]


PIECES = st.sampled_from(
    ["*", "?", "a", "b", "c", "1", ".", "h", "x", "[ab]", "[!a]", "[a-c]", "dir", "sub", "**", "1]"]
)
COMPONENTS = st.lists(PIECES, min_size=1, max_size=3).map("".join).filter(lambda one: one not in (".", ".."))
PATTERNS = st.lists(COMPONENTS, min_size=1, max_size=3).map("/".join)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=3))
@example(["*", "*/*", "*/*/*", "a"])
@example([os.fsdecode(b"\xff*")])
@example(["x[1]", "x[[]1]"])
def test_names_by_regular_expressions(tree, patterns):
    expected = sorted(name for pattern in patterns for name in matching(tree, pattern))
    given_names = [os.fspath(tree / pattern) for pattern in patterns]
    if expected:
        assert relative(expand_patterns(given_names), tree) == expected
        return
    with pytest.raises(InvalidArgumentError) as caught:
        expand_patterns(given_names)
    assert all(repr(name) in str(caught.value) for name in given_names)


# What TensorFlow 2.21's Dataset.list_files(..., shuffle=False) gave for this folder, with links added to it.
@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("*", [".h", "a", "b", "c1", "c2", "dangling", "loop", "self", "sub", "x1", "x[1]"]),
        ("c?", ["c1", "c2"]),
        ("[ab]", ["a", "b"]),
        ("x[1]", ["x1"]),
        ("*/a", ["loop/a", "sub/a"]),
        (["c*", "a"], ["a", "c1", "c2"]),
        (["a", "a*"], ["a", "a"]),
        (["nope*", "a"], ["a"]),
        (["nope", "a"], ["a"]),
        ("**", [".h", "a", "b", "c1", "c2", "dangling", "loop", "self", "sub", "x1", "x[1]"]),
        ("**/a", ["loop/a", "sub/a"]),
        ("sub", ["sub"]),
        ("loop/a", ["loop/a"]),
        ("*/*/a", ["loop/loop/a", "loop/sub/a"]),
    ],
)
def test_names_by_tensorflow(tmp_path, patterns, expected):
    for name in ("b", "a", ".h", "c1", "c2", "x[1]", "x1"):
        (tmp_path / name).write_text("")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "dangling").symlink_to("nowhere")
    names = [patterns] if isinstance(patterns, str) else patterns
    assert expand_patterns([tmp_path / name for name in names]) == [os.fsencode(tmp_path / name) for name in expected]


@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path])
def test_one_pattern_or_several(tree, kind):
    pattern = kind(os.fspath(tree / "c?"))
    expected = [os.fsencode(tree / name) for name in ("c1", "c2")]
    assert expand_patterns(pattern) == expected
    assert expand_patterns([pattern]) == expected
    assert expand_patterns(one for one in (pattern, pattern)) == sorted(expected * 2)
    assert expand_patterns({pattern}) == expected


def test_folders_are_read_at_a_time(tmp_path, monkeypatch):
    for folder in range(8):
        for below in range(8):
            (tmp_path / str(folder) / str(below)).mkdir(parents=True)
            (tmp_path / str(folder) / str(below) / "a.txt").write_text("")
    names = sorted(glob.glob(os.fsencode(tmp_path / "*/*/*.txt")))
    real, there = os.scandir, threading.Barrier(8)

    def scandir(path):
        if path != os.fsencode(tmp_path):
            there.wait(PATIENCE)  # for seven more
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert expand_patterns(tmp_path / "*/*/*.txt") == names


@pytest.mark.parametrize("bad", [[], (), "", [""], "a\0", [b"\0"], 3, None, [3]])
def test_bad_patterns(bad):
    with pytest.raises(InvalidArgumentError):
        expand_patterns(bad)


@pytest.mark.parametrize("names", [["nope*"], ["nope", "x{1,2}"]])
def test_no_match_is_an_error_that_names_the_patterns(tree, names):
    patterns = [str(tree / name) for name in names]
    with pytest.raises(InvalidArgumentError) as caught:
        expand_patterns(patterns)
    assert all(pattern in str(caught.value) for pattern in patterns)
    assert caught.value.path == patterns[0]
