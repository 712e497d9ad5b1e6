"""Strings as code points, characters and other encodings, and tensors in a template's text, as TensorFlow does."""

import pytest
from helpers.tensorflow.peers import asks_tensorflow
from helpers.tensorflow.tf1_cases import asked, differences, recorded

import queuecore.tf1 as tf

CASES = [
    'tf.strings.format("{} and {}", [tf.constant(1), tf.constant([1.5,2])])',
    'tf.strings.format("{}", tf.constant("x"))',
    'tf.strings.format("x", [])',
    'tf.strings.format("{}", [])',
    'tf.strings.format("{}", tf.range(20))',
    'tf.strings.format("{}", tf.range(20), summarize=-1)',
    'tf.strings.format("$t$", tf.constant([[1,2],[3,4]]), placeholder="$t$")',
    'tf.strings.format("{}", tf.constant(["a","b"]))',
    'tf.strings.format("{}", tf.constant([True,False]))',
    'tf.strings.format("{} {}", [tf.constant(1)])',
    'tf.strings.format("{}", tf.constant(1.5))',
    'tf.strings.format("{}", tf.constant([[[1,2,3,4,5,6,7,8]]]))',
    'tf.strings.unicode_decode("h\\u00e9", "UTF-8")',
    'tf.strings.unicode_decode(["h\\u00e9","a",""], "UTF-8")',
    'tf.strings.unicode_decode([["h\\u00e9"],["a"]], "UTF-8")',
    'tf.strings.unicode_decode(["a\\xff"], "UTF-8")',
    'tf.strings.unicode_decode([b"a\\xffb"], "UTF-8", errors="replace")',
    'tf.strings.unicode_decode([b"a\\xffb"], "UTF-8", errors="ignore")',
    'tf.strings.unicode_decode([b"a\\xffb"], "UTF-8", errors="strict")',
    'tf.strings.unicode_decode([b"a\\xe4\\xbd"], "UTF-8", replacement_char=63)',
    'tf.strings.unicode_decode([b"a\\nb"], "UTF-8", replace_control_characters=True)',
    'tf.strings.unicode_decode([b"a"], "UTF-8", errors="bogus")',
    'tf.strings.unicode_decode(["ab"], "BOGUS")',
    'tf.strings.unicode_decode([b"\\x00a\\x00b"], "UTF-16-BE")',
    'tf.strings.unicode_decode_with_offsets("h\\u00e9x", "UTF-8")',
    'tf.strings.unicode_decode_with_offsets(["h\\u00e9x","a"], "UTF-8")',
    'tf.strings.unicode_split(["h\\u00e9","a"], "UTF-8")',
    'tf.strings.unicode_split_with_offsets(["h\\u00e9x","a"], "UTF-8")',
    'tf.strings.unicode_encode([104,233], "UTF-8")',
    'tf.strings.unicode_encode([[104,233],[97,98]], "UTF-16-BE")',
    'tf.strings.unicode_encode(tf.ragged.constant([[104,233],[97]]), "UTF-8")',
    'tf.strings.unicode_encode(tf.ragged.constant([[[104],[233]],[[97]]]), "UTF-32-BE")',
    'tf.strings.unicode_encode([0x110000, 97], "UTF-8")',
    'tf.strings.unicode_encode([0x110000, 97], "UTF-8", errors="ignore")',
    'tf.strings.unicode_encode([0x110000, 97], "UTF-8", errors="strict")',
    'tf.strings.unicode_encode([0x110000, 97], "UTF-8", replacement_char=63)',
    'tf.strings.unicode_encode([97], "X")',
    'tf.strings.unicode_encode(97, "UTF-8")',
    'tf.strings.unicode_transcode("h\\u00e9", "UTF-8", "UTF-16-BE")',
    'tf.strings.unicode_transcode(["h\\u00e9","a"], "UTF-8", "UTF-32-BE")',
    'tf.strings.unicode_transcode([b"a\\xffb"], "UTF-8", "UTF-8")',
    'tf.strings.unicode_transcode([b"a\\xffb"], "UTF-8", "UTF-8", errors="ignore")',
    'tf.strings.unicode_transcode([b"a\\xffb"], "UTF-8", "UTF-8", errors="strict")',
    'tf.strings.unicode_transcode([b"a\\xffb"], "UTF-8", "UTF-8", replacement_char=ord("?"))',
    'tf.strings.unicode_transcode([b"a\\nb\\x00"], "UTF-8", "UTF-8", replace_control_characters=True)',
    'tf.strings.unicode_transcode([b"a\\n"], "UTF-8", "UTF-8", errors="ignore", replace_control_characters=True)',
    'tf.strings.unicode_transcode([b"\\xe9"], "ISO-8859-1", "UTF-8")',
    'tf.strings.unicode_transcode(["a"], "US-ASCII", "UTF-8")',
    'tf.strings.unicode_transcode(["a"], "X", "UTF-8")',
    'tf.strings.unicode_transcode(["a"], "UTF-8", "X")',
    "tf.strings.unicode_decode(tf.ragged.constant([['ab'], ['c', '']]), 'UTF-8')",
    "tf.strings.unicode_encode([[[97], [98]]], 'UTF-8')",
    "tf.strings.unicode_encode([0xD800], 'UTF-8')",
    "tf.strings.format('{} {}', [tf.constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), tf.constant(b'x')], summarize=1)",
]

ANSWERS = dict(zip(CASES, recorded("unicode", CASES, 1), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_as_tensorflow_does(case):
    assert differences(case, 1, ANSWERS[case]) == []


@asks_tensorflow
@pytest.mark.watchdog(600)
def test_the_record_is_tensorflows():
    assert dict(zip(CASES, asked([(one, 1) for one in CASES]), strict=True)) == ANSWERS


def test_ranks_that_are_not_known_are_refused():
    with tf.Graph().as_default():
        for call in (
            lambda: tf.strings.unicode_decode(tf.placeholder(tf.string), "UTF-8"),
            lambda: tf.strings.unicode_encode(tf.placeholder(tf.int32), "UTF-8"),
        ):
            with pytest.raises(ValueError, match="must be statically known"):
                call()
        with pytest.raises(tf.errors.InvalidArgumentError, match="replacement_char out of unicode codepoint range"):
            tf.strings.unicode_decode("a", "UTF-8", replacement_char=-1)


@pytest.mark.parametrize(
    ("encoding", "text", "places"),
    [
        ("UTF-16", "utf-16-be", [0, 2, 6]),  # without a mark the high byte comes first
        ("UTF-16-LE", "utf-16-le", [0, 2, 6]),
        ("UTF-32", "utf-32-be", [0, 4, 8]),
    ],
)
def test_places_of_wide_characters(encoding, text, places):
    with tf.Session() as sess:
        points, starts = sess.run(tf.strings.unicode_decode_with_offsets("a\U0001f600b".encode(text), encoding))
    assert (points.tolist(), starts.tolist()) == ([97, 0x1F600, 98], places)


@pytest.mark.parametrize(("width", "order"), [(2, "le"), (2, "be"), (4, "le"), (4, "be")])
def test_a_byte_order_mark_belongs_to_the_first_character(width, order):
    encoded = "\ufeffab".encode(f"utf-{8 * width}-{order}")
    with tf.Session() as sess:
        points, starts = sess.run(tf.strings.unicode_decode_with_offsets(encoded, f"UTF-{8 * width}"))
    assert (points.tolist(), starts.tolist()) == ([97, 98], [0, 2 * width])
