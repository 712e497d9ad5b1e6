"""Options of datasets, and the groups of them that have no effect."""

from __future__ import annotations

from typing import ClassVar

import queuecore.data as data
from queuecore.data.settings import (
    AutotuneOptions,
    DistributeOptions,
    OptimizationOptions as Optimizations,
    Settings,
    ThreadingOptions,
)

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
        "filter_with_random_uniform_fusion": bool,
        "hoist_random_uniform": bool,
        "map_vectorization": MapVectorizationOptions,
        "reorder_data_discarding_ops": bool,
    }


class Options:
    """Options of how a dataset runs; one that is `None` stays as it is.

    Attributes
    ----------
    deterministic, experimental_deterministic : bool, optional
        Whether elements keep their order where several are made at a time. Default: they do.
    num_threads : int, optional
        The number of native threads, as in `queuecore.data.Options`.

    autotune, experimental_distribute, experimental_optimization, experimental_threading, threading
        Groups of options, which have no effect.

    Notes
    -----
    Any other attribute of TensorFlow's can be set, and has no effect.
    """

    def __init__(self) -> None:
        self.deterministic: bool | None = None
        self.experimental_deterministic: bool | None = None
        self.num_threads: int | None = None
        self.autotune = AutotuneOptions()
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.threading = self.experimental_threading = ThreadingOptions()

    def merge(self, options: Options) -> Options:
        """Return both; what the other one sets wins."""
        made = Options()
        for one in (self, options):
            for name, value in vars(one).items():
                if isinstance(value, Settings) and name in vars(made):
                    value = vars(made)[name].merged(value)
                if value is not None:
                    setattr(made, name, value)
        return made

    def eager(self) -> data.Options:
        """Return them as `queuecore.data` takes them."""
        order = self.experimental_deterministic if self.deterministic is None else self.deterministic
        return data.Options(deterministic=order, num_threads=self.num_threads)
