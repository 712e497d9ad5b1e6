"""Names of TensorFlow's that have nothing to do with input: the error names the alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from queuecore.errors import UnimplementedError

__all__ = ["refusing"]

_MATHS = """
    AggregationMethod GradientTape IndexedSlices TensorArray broadcast_dynamic_shape cholesky cholesky_solve
    clip_by_average_norm clip_by_global_norm clip_by_norm confusion_matrix contrib cross custom_gradient distribute
    distributions einsum estimator feature_column fft fft2d fft3d foldl foldr function glorot_normal_initializer
    glorot_uniform_initializer global_norm gradients hessians ifft ifft2d ifft3d import_graph_def keras layers linalg
    losses matmul matrix_band_part matrix_determinant matrix_diag matrix_inverse matrix_solve matrix_transpose
    metrics nn norm orthogonal_initializer qr saved_model scan self_adjoint_eig sparse_matmul
    sparse_tensor_dense_matmul stop_gradient svd tensordot tpu trace truncated_normal_initializer
    uniform_unit_scaling_initializer variance_scaling_initializer
"""
_TRAINING = """
    AdadeltaOptimizer AdagradDAOptimizer AdagradOptimizer AdamOptimizer Checkpoint CheckpointManager
    ExponentialMovingAverage FtrlOptimizer GradientDescentOptimizer MomentumOptimizer MonitoredSession
    MonitoredTrainingSession Optimizer ProximalAdagradOptimizer ProximalGradientDescentOptimizer RMSPropOptimizer Saver
    Scaffold Server SessionRunHook Supervisor SyncReplicasOptimizer cosine_decay exponential_decay inverse_time_decay
    natural_exp_decay piecewise_constant polynomial_decay
"""
_PICTURES = """
    ResizeMethodV1 crop_and_resize decode_and_crop_jpeg draw_bounding_boxes extract_glimpse
    extract_jpeg_shape hsv_to_rgb image_gradients non_max_suppression psnr rgb_to_hsv
    sample_distorted_bounding_box ssim total_variation
"""
_KNOWN = {"tf": frozenset(_MATHS.split()), "tf.train": frozenset(_TRAINING.split())}
_KNOWN["tf.image"] = frozenset(_PICTURES.split())


def refusing(module: str) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module.

    It raises `UnimplementedError` for names of TensorFlow's that an input program doesn't need, and
    `AttributeError` for all others.
    """

    def missing(name: str) -> NoReturn:
        if name in _KNOWN[module]:
            raise UnimplementedError(
                f"{module}.{name}: queuecore.tf1 feeds a training loop, and is none. Take batches out of the graph "
                "with Session.run, and compute with them in CuPy, PyTorch or JAX: docs/frameworks.md shows how"
            )
        raise AttributeError(f"module 'queuecore.{module.replace('tf', 'tf1', 1)}' has no attribute {name!r}")

    return missing
