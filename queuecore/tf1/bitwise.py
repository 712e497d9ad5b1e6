"""``tf.bitwise``: the bits of integers."""

import numpy as np

from queuecore.tf1._ops.math import elementwise, unary

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"]

bitwise_and = elementwise("BitwiseAnd", np.bitwise_and)
bitwise_or = elementwise("BitwiseOr", np.bitwise_or)
bitwise_xor = elementwise("BitwiseXor", np.bitwise_xor)
left_shift = elementwise("LeftShift", np.left_shift)
right_shift = elementwise("RightShift", np.right_shift)
invert = unary("Invert", np.invert)
