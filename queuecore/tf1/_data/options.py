"""Options of datasets: those of `queuecore.data`, with the names that TensorFlow 1 has besides."""

from __future__ import annotations

from typing import ClassVar

import queuecore.data as data
from queuecore.data.settings import OptimizationOptions as Optimizations, Settings

__all__ = ["MapVectorizationOptions", "OptimizationOptions", "Options"]


class MapVectorizationOptions(Settings):
    """TensorFlow 1's options of one of its graph rewrites. They have no effect."""

    types: ClassVar[dict[str, type]] = {"enabled": bool, "use_choose_fastest": bool}


class OptimizationOptions(Optimizations):
    """TensorFlow 1's options of its graph rewrites and its autotuner. They have no effect."""

    types: ClassVar[dict[str, type]] = {
        **Optimizations.types,
        "autotune": bool,
        "autotune_algorithm": int,
        "autotune_buffers": bool,
        "autotune_cpu_budget": int,
        "autotune_ram_budget": int,
        "filter_with_random_uniform_fusion": bool,
        "hoist_random_uniform": bool,
        "map_vectorization": MapVectorizationOptions,
        "reorder_data_discarding_ops": bool,
    }


class Options(data.Options):
    """Options of how a dataset runs; one that is `None` stays as it is.

    All attributes of `queuecore.data.Options`, with the same meaning. TensorFlow 1's ``experimental_autotune``,
    ``experimental_numa_aware``, ``experimental_stateful_whitelist`` and ``experimental_stats`` can be set too, and have
    no effect.
    """

    types: ClassVar[dict[str, type]] = {
        **data.Options.types,
        "experimental_autotune": bool,
        "experimental_numa_aware": bool,
        "experimental_optimization": OptimizationOptions,
        "experimental_stateful_whitelist": object,
        "experimental_stats": object,
    }
