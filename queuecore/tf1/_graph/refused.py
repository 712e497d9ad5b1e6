"""Names of TensorFlow's that have nothing to do with input, or aren't there yet: the error names the alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from queuecore._checks.missing import MissingNameError

__all__ = ["MissingNameError", "refusing", "refusing_members"]

# By module the names that TensorFlow has and this package doesn't
_NAMES = {
    "tf": """
        AggregationMethod angle approx_top_k arg_max arg_min AttrValue audio autograph batch_gather
        batch_scatter_update batch_to_space batch_to_space_nd betainc check_pinned cholesky cholesky_solve
        clip_by_average_norm clip_by_global_norm clip_by_norm ConditionalAccumulator ConditionalAccumulatorBase
        config confusion_matrix conv conv2d_backprop_filter_v2 conv2d_backprop_input_v2
        convert_to_tensor_or_indexed_slices convert_to_tensor_or_sparse_tensor create_partitioned_variables
        CriticalSection cross custom_gradient CXX11_ABI_FLAG CXX_VERSION delete_session_tensor depth_to_space
        dequantize deserialize_many_sparse DeviceSpec diag_part digamma distribute distributions div_no_nan
        edit_distance einsum erf erfc estimator executing_eagerly_outside_functions experimental
        extract_image_patches extract_volume_patches fake_quant_with_min_max_args
        fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient
        fake_quant_with_min_max_vars_per_channel fake_quant_with_min_max_vars_per_channel_gradient
        feature_column fft fft2d fft3d fftnd fingerprint fixed_size_partitioner function get_logger
        get_seed get_session_handle get_session_tensor global_norm glorot_normal_initializer
        glorot_uniform_initializer grad_pass_through gradients GradientTape GRAPH_DEF_VERSION_MIN_CONSUMER
        GRAPH_DEF_VERSION_MIN_PRODUCER graph_util GraphDef guarantee_const hessians histogram_fixed_width_bins
        ifft ifft2d ifft3d ifftnd igamma igammac import_graph_def IndexedSlices IndexedSlicesSpec irfftnd
        is_symbolic_tensor keras layers lbeta lgamma linalg lite load_file_system_library load_library
        load_op_library log_sigmoid LogMessage losses make_ndarray make_template make_tensor_proto matmul
        matrix_band_part matrix_determinant matrix_diag matrix_diag_part matrix_inverse matrix_set_diag
        matrix_solve matrix_solve_ls matrix_square_root matrix_transpose matrix_triangular_solve MetaGraphDef
        metrics min_max_variable_partitioner mixed_precision mlir Module MONOLITHIC_BUILD multinomial
        NameAttrList nn no_gradient no_regularizer NodeDef NoGradient nondifferentiable_batch_function
        NoneTensorSpec norm NotDifferentiable OptimizerOptions OptionalSpec orthogonal_initializer
        parallel_stack polygamma print profiler qr quantization quantize quantize_v2
        quantized_concat ragged_fill_empty_rows ragged_fill_empty_rows_grad random_gamma
        random_index_shuffle raw_ops realdiv recompute_grad register_tensor_conversion_function
        RegisterGradient repeat required_space_to_batch_paddings resource_loader rfftnd saved_model
        scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub
        scatter_nd_update scatter_sub scatter_update self_adjoint_eig self_adjoint_eigvals serialize_many_sparse
        serialize_sparse sets signal space_to_batch space_to_batch_nd space_to_depth sparse_mask sparse_matmul
        sparse_maximum sparse_merge sparse_minimum sparse_reduce_max sparse_reduce_max_sparse
        sparse_reduce_sum_sparse sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum sparse_softmax
        sparse_tensor_dense_matmul SparseConditionalAccumulator spectral svd switch_case
        sysconfig tensor_scatter_add tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min
        tensor_scatter_nd_sub tensor_scatter_nd_update tensor_scatter_sub tensor_scatter_update
        TensorArraySpec tensordot TensorInfo timestamp tpu trace truncated_normal_initializer
        truncatemod type_spec_from_value types TypeSpec UnconnectedGradients uniform_unit_scaling_initializer
        unravel_index unsorted_segment_sqrt_n user_ops variable_axis_size_partitioner variable_creator_scope
        variable_op_scope VariableAggregation VariableSynchronization variance_scaling_initializer
        vectorized_map where_v2 wrap_function xla zeta
    """,
    "tf.train": """
        AdadeltaOptimizer AdagradDAOptimizer AdagradOptimizer AdamOptimizer basic_train_loop Checkpoint
        checkpoint_exists CheckpointManager CheckpointOptions checkpoints_iterator CheckpointSaverHook
        CheckpointSaverListener ChiefSessionCreator ClusterDef ClusterSpec cosine_decay cosine_decay_restarts
        do_quantize_training_on_graphdef experimental exponential_decay ExponentialMovingAverage
        export_meta_graph FeedFnHook FinalOpsHook FtrlOptimizer generate_checkpoint_state_proto
        get_checkpoint_mtimes get_checkpoint_state GlobalStepWaiterHook GradientDescentOptimizer
        import_meta_graph init_from_checkpoint inverse_time_decay JobDef latest_checkpoint linear_cosine_decay
        list_variables load_checkpoint load_variable LoggingTensorHook MomentumOptimizer MonitoredSession
        MonitoredTrainingSession NanLossDuringTrainingError NanTensorHook natural_exp_decay NewCheckpointReader
        noisy_linear_cosine_decay Optimizer piecewise_constant piecewise_constant_decay polynomial_decay
        ProfilerHook ProximalAdagradOptimizer ProximalGradientDescentOptimizer remove_checkpoint
        replica_device_setter RMSPropOptimizer Saver SaverDef Scaffold sdca_fprint sdca_optimizer sdca_shrink_l1
        SecondOrStepTimer Server ServerDef SessionCreator SessionManager SessionRunArgs SessionRunContext
        SessionRunHook SessionRunValues SingularMonitoredSession StepCounterHook StopAtStepHook SummarySaverHook
        Supervisor SyncReplicasOptimizer update_checkpoint_state VocabInfo warm_start WorkerSessionCreator
        write_graph
    """,
    "tf.data": """
        DatasetSpec NumpyIterator
    """,
    "tf.data.experimental": """
        bytes_produced_stats CheckpointInputPipelineHook DatasetStructure distributed_save
        enable_debug_mode from_variant get_model_proto latency_stats make_saveable_from_iterator
        OptionalStructure RaggedTensorStructure service set_stats_aggregator
        SparseTensorStructure StatsAggregator StatsOptions Structure TensorArrayStructure TensorStructure to_variant
    """,
    "tf.image": """
        adjust_jpeg_quality combined_non_max_suppression crop_and_resize decode_jxl decode_webp extract_glimpse
        extract_image_patches extract_patches generate_bounding_box_proposals image_gradients
        non_max_suppression non_max_suppression_overlaps non_max_suppression_padded
        non_max_suppression_with_scores psnr random_jpeg_quality resize_image_with_pad ResizeMethodV1 rgb_to_yiq
        rgb_to_yuv sobel_edges ssim ssim_multiscale total_variation yiq_to_rgb yuv_to_rgb
    """,
    "tf.io": """
        decode_jxl decode_proto decode_webp deserialize_many_sparse encode_proto serialize_many_sparse
        serialize_sparse write_graph
    """,
    "tf.math": """
        angle approx_max_k approx_min_k bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc confusion_matrix
        cumulative_logsumexp digamma divide_no_nan erf erfc erfcinv erfinv igamma igammac in_top_k l2_normalize
        lbeta lgamma log_sigmoid log_softmax multiply_no_nan ndtri nextafter polygamma polyval reciprocal_no_nan
        reduce_euclidean_norm reduce_std reduce_variance sobol_sample softmax softplus softsign special top_k
        unsorted_segment_sqrt_n xdivy xlog1py xlogy zero_fraction zeta
    """,
    "tf.ragged": """
        boolean_mask cross cross_hashed stack_dynamic_partitions
    """,
    "tf.random": """
        Algorithm all_candidate_sampler categorical create_rng_state experimental
        fixed_unigram_candidate_sampler fold_in gamma Generator get_global_generator get_seed
        learned_unigram_candidate_sampler log_uniform_candidate_sampler multinomial set_global_generator
        split stateless_binomial stateless_categorical stateless_gamma stateless_multinomial stateless_normal
        stateless_parameterized_truncated_normal stateless_poisson stateless_truncated_normal stateless_uniform
        uniform_candidate_sampler
    """,
    "tf.strings": """
        ngrams unicode_script unsorted_segment_join
    """,
    "tf.summary": """
        all_v2_summary_ops get_summary_description initialize SummaryDescription TaggedRunMetadata
    """,
    "tf.test": """
        assert_equal_graph_def Benchmark benchmark_config compute_gradient compute_gradient_error
        create_local_cluster disable_with_predicate experimental is_built_with_rocm is_built_with_xla
        is_cpu_target_available StubOutForTesting with_eager_op_as_function
    """,
    "tf.sparse": """
        bincount cross cross_hashed expand_dims eye from_dense mask matmul maximum merge minimum reduce_max
        reduce_max_sparse reduce_sum_sparse segment_mean segment_sqrt_n segment_sum softmax sparse_dense_matmul
        SparseConditionalAccumulator
    """,
    "tf.debugging": """
        assert_shapes disable_check_numerics disable_traceback_filtering enable_check_numerics
        enable_traceback_filtering experimental get_log_device_placement is_traceback_filtering_enabled
        set_log_device_placement
    """,
    "tf.dtypes": """
        experimental
    """,
    "tf.initializers": """
        glorot_normal glorot_uniform he_normal he_uniform identity lecun_normal lecun_uniform orthogonal
        truncated_normal uniform_unit_scaling variance_scaling
    """,
    "tf.manip": """
        batch_to_space_nd space_to_batch_nd
    """,
}
_KNOWN = {module: frozenset(names.split()) for module, names in _NAMES.items()}
# Modules of which no list is complete: each name that isn't there is taken for one of TensorFlow's
_OPEN = ("tf.contrib",)


_WAY_OUT = (
    "Take batches out of the graph with Session.run, and compute with them in NumPy, CuPy, PyTorch or JAX: "
    "docs/frameworks.md shows how"
)


def refusing(module: str) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module.

    It raises `MissingNameError` for names of TensorFlow's that aren't there, and `AttributeError` for all others.
    """

    def missing(name: str) -> NoReturn:
        known = name in _KNOWN.get(module, ()) or module.startswith(_OPEN) and not name.startswith("_")
        if known:
            raise MissingNameError(
                f"{module}.{name}: it isn't in queuecore.tf1, which feeds a training loop, and is none. {_WAY_OUT}"
            )
        raise AttributeError(f"module 'queuecore.{module.replace('tf', 'tf1', 1)}' has no attribute {name!r}")

    return missing


def refusing_members(owner: str, names: str) -> Callable[[Any, str], NoReturn]:
    """Return a ``__getattr__`` for a class: as `refusing`, for these names of the class's members."""
    known = frozenset(names.split())

    def missing(self: Any, name: str) -> NoReturn:
        if name in known:
            raise MissingNameError(f"{owner}.{name}: it isn't in queuecore.tf1. {_WAY_OUT}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    return missing
