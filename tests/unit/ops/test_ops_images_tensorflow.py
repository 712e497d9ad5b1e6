"""Decoding of pictures against TensorFlow in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import json
import pathlib
import subprocess

import numpy as np
import pytest
from helpers.formats.pictures import samples, top_down
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

import queuecore as qc

PLAYER = pathlib.Path(__file__).parents[2] / "helpers" / "tensorflow" / "images.py"

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(300),
]

SHALLOW = {f"png-0-{depth}-{interlaced}" for depth in (1, 2, 4) for interlaced in (False, True)}
SHALLOW |= {f"png-3-{depth}" for depth in (1, 2, 4)}


def calls(files):
    for name in files:
        for op in ("decode_jpeg", "decode_png", "decode_bmp", "decode_image"):
            for channels in (0, 1, 3, 4):
                yield name, op, {"channels": channels}
        yield name, "decode_gif", {}
        yield name, "decode_png", {"dtype": "uint16"}
        yield name, "decode_png", {"channels": 3, "dtype": "uint16"}
        # TensorFlow 2.21 dies of other numbers from a BMP whose first row is the top one.
        for dtype in ("uint16", "float32") if name != "bmp-down" else ():
            yield name, "decode_image", {"dtype": dtype}
            yield name, "decode_image", {"dtype": dtype, "channels": 3}
        yield name, "decode_image", {"expand_animations": False}
        if name.startswith("jpeg"):
            for ratio in (2, 4, 8):
                yield name, "decode_jpeg", {"ratio": ratio}
            yield name, "decode_jpeg", {"fancy_upscaling": False}
            yield name, "decode_jpeg", {"dct_method": "INTEGER_ACCURATE"}
            yield name, "decode_jpeg", {"dct_method": "INTEGER_FAST"}


def test_as_tensorflow_does(tmp_path):
    files = samples()
    files["bmp-down"] = top_down(files["bmp"])
    files |= {"empty": b"", "text": b"neither of them", "half": files["png-2-8-False"][:99]}
    inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    np.savez(inputs, **{name: np.frombuffer(data, np.uint8) for name, data in files.items()})
    cases = list(calls(files))
    for _, op, options in cases:
        if op == "decode_jpeg":
            options.setdefault("dct_method", "INTEGER_ACCURATE")
    done = subprocess.run(
        [PYTHON, "-P", str(PLAYER), str(inputs), str(outputs)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(outputs) as results:
        for index, (name, op, options) in enumerate(cases):
            expected = results[f"arr_{index}"]
            label = f"{name}: {op}({options})"
            try:
                received = getattr(qc.ops, op)(files[name], **options)
            except qc.errors.InvalidArgumentError as error:
                assert expected.dtype.kind == "U", f"{label}: {error}"
                continue
            assert (received.dtype, received.shape) == (expected.dtype, expected.shape), label
            if name.startswith("jpeg") and op != "decode_jpeg":
                # By its fast transform, there.
                one = {"uint8": 1, "uint16": 256, "float32": 1 / 255}[str(received.dtype)]
                np.testing.assert_allclose(received.astype("f8"), expected.astype("f8"), 0, 3.01 * one, err_msg=label)
                continue
            if options.get("channels") == 4 and name in SHALLOW:
                # There the alpha of pictures that have none is the largest number of their own depth.
                assert received[..., 3].min() == 255, label
                received, expected = received[..., :3], expected[..., :3]
            np.testing.assert_array_equal(received, expected, label)
