"""Operations on pictures, and shapes, against TensorFlow's in a child process.

It needs a Python with TensorFlow: the one that runs the tests, or the one that QUEUECORE_TENSORFLOW_PYTHON names.
"""

import itertools
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from helpers.tensorflow.peers import ASKS_TENSORFLOW, PYTHON

import queuecore as qc

PLAYER = pathlib.Path(__file__).parents[2] / "helpers" / "tensorflow" / "pictures.py"

pytestmark = [
    *ASKS_TENSORFLOW,
    pytest.mark.watchdog(300),
]

SIDES = [(1, 1), (2, 3), (5, 7), (7, 5), (10, 14), (31, 33), (64, 3)]


def picture(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.random(shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def calls():
    for (height, width), size, dtype in itertools.product(SIDES, SIDES, ["u1", "f4"]):
        for method in ("bilinear", "nearest"):
            yield picture(dtype, (2, height, width, 3)), "resize", list(size), method
    filters = ["bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "nearest"]
    for (height, width), size, method in itertools.product(SIDES, SIDES, filters):
        for antialias in (False, True):
            yield picture("u1", (height, width, 3)), "resize", list(size), method, antialias
        ratio = max(height / size[0], width / size[1])
        if min(height, width) >= ratio:  # a side of no pixels is an error there
            yield picture("f4", (height, width, 1)), "resize_with_pad", list(size), method, True
    for dtype, method in itertools.product(["i1", "u2", "i2", "i4", "f2", "f8"], ["bilinear", "nearest"]):
        yield picture(dtype, (9, 8, 1)), "resize", [13, 5], method
    for dtype, shape in itertools.product(["u1", "i2", "u2", "f4"], [(1, 1, 3), (17, 19, 3), (2, 41, 43, 3)]):
        for delta in (-0.7, -0.1, 0, 0.3, 1):
            yield picture(dtype, shape), "adjust_brightness", delta
            yield picture(dtype, shape), "adjust_hue", delta
        for factor in (0, 0.3, 1, 2.5):
            yield picture(dtype, shape), "adjust_contrast", factor
            yield picture(dtype, shape), "adjust_saturation", factor
    # Grey, black, white, and pure colours.
    corners = np.array(list(itertools.product([0, 0.5, 1], repeat=3)), "f4").reshape(3, 9, 3)
    for array in (corners, (corners * 255).astype("u1")):
        for amount in (-1, -0.5, -1 / 3, 1 / 6, 0.25, 0.9):
            yield array, "adjust_hue", amount
            yield array, "adjust_saturation", abs(amount) * 3
    boxes = [[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.9], [0.9, 0.8, 0.1, 0.2], [-0.5, 0.2, 0.5, 1.5], [0.5, 0.5, 0.5, 0.5]]
    for dtype, size, method in itertools.product(["u1", "i2", "f4"], SIDES, ["bilinear", "nearest"]):
        yield picture(dtype, (3, 9, 12, 3)), "crop_and_resize", boxes, [0, 2, 1, 0, 2], list(size), method, 7.5
    for k in range(-1, 5):
        yield picture("u1", (5, 8, 3)), "rot90", k
    array = picture("i4", (3, 4, 5))
    yield array, "pad", [[1, 2], [0, 0], [3, 0]], 7
    yield array, "pad", [[2, 1], [0, 0], [3, 4]], 0, "reflect"
    yield array, "pad", [[2, 3], [0, 1], [5, 0]], 0, "symmetric"
    yield array, "slice", [1, 0, 2], [-1, 3, 2]
    yield array, "transpose", [2, 0, 1]
    yield array, "transpose"
    yield array, "reshape", [4, -1]
    yield np.arange(-2, 6, dtype="i4").reshape(2, 4), "one_hot", 4, 5, -1, "float32"


# Of operations whose lists are arrays of a dtype.
OURS = {
    "crop_and_resize": lambda x, boxes, indices, *rest: qc.ops.crop_and_resize(
        x, np.array(boxes, "f4"), np.array(indices, "i4"), *rest
    )
}


def test_as_tensorflow_does(tmp_path):
    cases = list(calls())
    inputs, outputs = tmp_path / "inputs.npz", tmp_path / "outputs.npz"
    np.savez(inputs, **{f"x{index}": array for index, (array, *_) in enumerate(cases)})
    done = subprocess.run(
        [PYTHON, "-P", str(PLAYER), str(inputs), str(outputs)],
        input=json.dumps([rest for _, *rest in cases]),
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(outputs) as results:
        for index, (array, name, *rest) in enumerate(cases):
            expected = results[f"arr_{index}"]
            result = OURS.get(name, getattr(qc.ops, name))(array, *rest)
            label = f"{name}({array.dtype}{list(array.shape)}, {rest})"
            assert result.dtype == expected.dtype, label
            if name.startswith("resize") and rest[1] == "nearest" or not name.startswith(("resize", "adjust")):
                np.testing.assert_array_equal(result, expected, label)
            elif result.dtype.kind == "f":
                # Its kernels may multiply and add at once, and sum in another order; of other filters, it computes the
                # weights in float32 too.
                largest = max(float(np.abs(array.astype("f8")).max()), 1.0)
                wide = name.startswith("resize") and rest[1:] not in (["bilinear"], ["bilinear", False])
                bound = 2e-5 if wide else 4e-6
                if "gaussian" in rest:
                    # The filter ends with a weight of 0.01, and a last bit decides whether an item there still counts.
                    bound = 6e-3
                np.testing.assert_allclose(result, expected, 2e-6, bound * largest, err_msg=label)
            else:
                # At a whole number, a last bit decides between it and the one below.
                difference = np.abs(result.astype("i8") - expected.astype("i8"))
                assert difference.max() <= 1, label
                assert np.count_nonzero(difference) <= max(2, 0.01 * result.size), label
