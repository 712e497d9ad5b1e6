"""decode_csv against TensorFlow's own, in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import os
import pathlib
import random
import re
import subprocess

import numpy as np
import pytest
from helpers.tensorflow import csv as tensorflow_csv
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

from queuecore.errors import CsvError, InvalidArgumentError
from queuecore.ops import decode_csv

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(600),
]

DTYPES = ["float32", "float64", "int32", "int64", "S"]
# The sentences that are the same; TensorFlow has other words for two dtypes.
SAME = re.compile(r"Expect \d+ fields but have \d+ in record \d+|Field \d+ is required but missing in record \d+!")
NUMBER = re.compile(r"Field \d+ in record \d+ is not a valid (int32|int64|float|double): ", re.DOTALL)
WORDS = {"float32": "float", "float64": "double"}


def call(records, defaults, **options):
    return {"records": records, "defaults": defaults, "options": options}


NUMBERS = re.findall(
    r"\S+",
    """
    1 -1 +1 -0 007 1.0 .5 1. . 1e3 1e 1e+ 1E-3 e5 nan -nan NaN inf -INFINITY +inf infin 0x10 0x1.8p3 0x.8 0x
    0x.p1 0x1p 0X1P+3 -0x1p-149 0x1.fffffep127 0x1.ffffffp127 1_0 2147483647 2147483648 -2147483648
    -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 1e400 -1e400
    1e-400 1e38 3.4028235677973366e38 1e39 1e-46 1d3 1f --1 +-1 16777217 9007199254740993 0.1 123456.789
    1e99999999999999 1e-99999999999999 00000000000000000000000000001
    """,
)
NUMBERS += [
    "",
    " ",
    " 1",
    "1 ",
    "\t1\v",
    "1 2",
    "+ 1",
    "1e 5",
    "1\0",
    "\01",
    "\0",
    '"1"',
    '"\n1\r"',
    '" 2"',
    '""',
    "\n\r3",
    "1\n",
]

STRUCTURE = [
    "",
    ",",
    "a",
    "a,",
    "a,b",
    "a,b,c",
    '"a","b"',
    '"a,b",c',
    '"a""b",c',
    '"a"b,c',
    'a"b,c',
    '"a" ,b',
    ' "a",b',
    '"a',
    'a,"',
]
STRUCTURE += [
    'a,"b""',
    '"""",""""',
    '"",""',
    "\n",
    "a,\n",
    "a,\nb",
    "\r\na,b",
    "a\nb,c",
    "a\rb,c",
    '"a\nb","\r"',
    "a,b\n",
    "NA,NA",
]
STRUCTURE += ['"NA",b', " NA,NA ", "a,\n,", '"a"\n,b', '"a","b"\n', "a|b", '"|"|b', "\0,\0", "é,ü"]


def calls():
    cases = []
    for dtype in DTYPES[:4]:
        cases += [call([text], [[dtype, 7]]) for text in NUMBERS]
    for text in STRUCTURE:
        cases += [call(["x,y", text], [["S", "d"], ["S", None]], **options) for options in OPTIONS]
        cases += [call(text, [["S", None]], select_cols=[column]) for column in (0, 1, 2)]
    cases.append(call([], [["int32", 1], ["S", "x"]]))
    cases.append(call([["1,a", "2,b"], ["3,c", ",d"]], [["int64", 5], ["S", "x"]]))
    cases += [
        call("1,2", [["int32", 1]] * n, select_cols=cols) for n, cols in [(2, [0, 0]), (2, [1, 0]), (1, [-1]), (2, [0])]
    ]
    cases += [call("1,2", [["int32", 1]], field_delim=delim) for delim in ("", ",,")]
    rng = random.Random(5)
    pieces = ["1", "-2.5", "x", ",", ",", ",", '"', '""', "\n", "\r", " ", "NA", "|", "\0"]
    fields = ["1", "-2", "30", "", "NA", '"4"', '""', " 5", "\n6", "7.5", '"a,b"', '"a""b"']
    for _ in range(int(os.environ.get("QUEUECORE_TENSORFLOW_HISTORIES", "6")) * 200):
        options = rng.choice(OPTIONS)
        if rng.random() < 0.2:
            options = {**options, "select_cols": sorted(rng.sample(range(4), 2))}
        delim = options.get("field_delim", ",")
        records = [
            delim.join(rng.choices(fields, k=2 + 2 * ("select_cols" in options)))
            if rng.random() < 0.8
            else "".join(rng.choices(pieces, k=rng.randrange(9)))
            for _ in range(rng.randrange(1, 3))
        ]
        defaults = [[rng.choice([*DTYPES, "S", "S", "S"]), None] for _ in range(2)]
        defaults = [[dtype, rng.choice([None, "d" if dtype == "S" else 7])] for dtype, _ in defaults]
        cases.append(call(records, defaults, **options))
    return cases


OPTIONS = [
    {},
    {},
    {"na_value": "NA"},
    {"use_quote_delim": False},
    {"field_delim": "|"},
    {"field_delim": '"'},
    {"field_delim": "\n"},
]


def ours(case):
    defaults = [
        np.array([] if value is None else [value.encode() if dtype == "S" else value], dtype)
        for dtype, value in case["defaults"]
    ]
    try:
        columns = decode_csv(tensorflow_csv.as_bytes(case["records"]), defaults, **case["options"])
    except InvalidArgumentError as error:
        return error, None
    told = []
    for column in columns:
        array = np.array(column, object) if isinstance(column, bytes) else column
        flat = [x.decode("latin-1") if isinstance(x, bytes) else x.tobytes().hex() for x in array.reshape(-1)]
        told.append([array.dtype.kind, list(array.shape), flat])
    return None, told


def without_nan_signs(columns):
    return [
        [kind, shape, ["nan" if re.fullmatch("0000c0[7f]f|000000000000f8[7f]f", x) else x for x in flat]]
        for kind, shape, flat in columns
    ]


def test_every_answer_is_tensorflows():
    cases = calls()
    done = subprocess.run(
        [PYTHON, "-P", tensorflow_csv.__file__],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(tensorflow_csv.__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    errors = 0
    for case, (name, sentence, columns) in zip(cases, told, strict=True):
        error, mine = ours(case)
        assert (error is None) == (name is None), (case, error, sentence)
        if name is None:
            assert without_nan_signs(mine) == without_nan_signs(columns), case
            continue
        errors += 1
        assert name in ("InvalidArgumentError", "ValueError"), case
        if match := SAME.match(sentence):
            assert isinstance(error, CsvError) and str(error) == match[0], (case, str(error), sentence)
        elif match := NUMBER.match(sentence):
            words = re.sub("float32|float64", lambda m: WORDS[m[0]], str(error), count=1)
            assert isinstance(error, CsvError) and words.startswith(match[0]), (case, str(error), sentence)
        elif name == "ValueError":
            assert not isinstance(error, CsvError), case
    assert len(cases) / 5 < errors < 4 * len(cases) / 5
