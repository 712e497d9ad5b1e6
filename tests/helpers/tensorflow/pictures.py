"""Run by a Python with TensorFlow: makes the calls that standard input lists, and saves the arrays they return."""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

OPS = {
    "resize": lambda x, size, method, *antialias: tf.image.resize(x, size, method, False, *antialias),
    "resize_with_pad": lambda x, size, method, *antialias: tf.image.resize_with_pad(x, *size, method, *antialias),
    "rot90": tf.image.rot90,
    "crop_and_resize": lambda x, boxes, *rest: tf.image.crop_and_resize(x, tf.constant(boxes, tf.float32), *rest),
    "adjust_brightness": tf.image.adjust_brightness,
    "adjust_contrast": tf.image.adjust_contrast,
    "adjust_saturation": tf.image.adjust_saturation,
    "adjust_hue": tf.image.adjust_hue,
    "pad": lambda x, paddings, constant, *mode: tf.pad(x, paddings, *mode, constant_values=constant),
    "slice": tf.slice,
    "transpose": tf.transpose,
    "reshape": tf.reshape,
    "one_hot": lambda x, *rest: tf.one_hot(x, *rest[:-1], dtype=rest[-1]),
}

given, made = sys.argv[1:]
with np.load(given) as arrays:
    results = [OPS[name](arrays[f"x{i}"], *rest).numpy() for i, (name, *rest) in enumerate(json.load(sys.stdin))]
np.savez(made, *results)
