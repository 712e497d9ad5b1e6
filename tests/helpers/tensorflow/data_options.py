"""The attributes of tf.data 2.21's options, each with its type; as a program, those of the TensorFlow at hand."""

from __future__ import annotations

import json
import os
from enum import Enum
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

_POLICIES = {"AUTO": 0, "DATA": 2, "FILE": 1, "HINT": 3, "OFF": -1}
_ALGORITHMS = {"DEFAULT": 0, "GRADIENT_DESCENT": 2, "HILL_CLIMB": 1, "MAX_PARALLELISM": 3, "STAGE_BASED": 4}
_THREADING = {"max_intra_op_parallelism": "int", "private_threadpool_size": "int"}

OPTIONS = {
    "autotune": {
        "autotune_algorithm": _ALGORITHMS,
        "cpu_budget": "int",
        "enabled": "bool",
        "initial_parallelism": "int",
        "min_parallelism": "int",
        "ram_budget": "int",
    },
    "dataset_name": "str",
    "deterministic": "bool",
    "experimental_deterministic": "bool",
    "experimental_distribute": {"auto_shard_policy": _POLICIES, "num_devices": "int"},
    "experimental_external_state_policy": {"FAIL": 2, "IGNORE": 1, "WARN": 0},
    "experimental_optimization": dict.fromkeys(
        (
            "apply_default_optimizations",
            "filter_fusion",
            "filter_parallelization",
            "inject_prefetch",
            "map_and_batch_fusion",
            "map_and_filter_fusion",
            "map_fusion",
            "map_parallelization",
            "noop_elimination",
            "parallel_batch",
            "seq_interleave_prefetch",
            "shuffle_and_repeat_fusion",
        ),
        "bool",
    ),
    "experimental_service": {"pinned": "bool"},
    "experimental_slack": "bool",
    "experimental_symbolic_checkpoint": "bool",
    "experimental_threading": _THREADING,
    "experimental_warm_start": "bool",
    "framework_type": "list",
    "threading": _THREADING,
}


def of(options: Any, names: Any = OPTIONS) -> dict[str, Any]:
    """Return the attributes of a library's options, as `OPTIONS` has them: by what can be set."""
    attributes: dict[str, Any] = {}
    for name, inner in names.items():
        group = getattr(options, name)
        if isinstance(inner, dict) and not isinstance(group, Enum) and type(group).__name__.endswith("Options"):
            attributes[name] = of(group, inner)
            continue
        try:
            setattr(options, name, object())
        except (TypeError, ValueError) as error:
            attributes[name] = _type(str(error), options, name)
    return attributes


def _type(refusal: str, options: Any, name: str) -> Any:
    for kind, value in (("int", 3), ("bool", True), ("str", "a"), ("list", ["a"])):
        try:
            setattr(options, name, value)
        except (TypeError, ValueError):
            continue
        return kind
    enums = {kind.__name__: kind for kind in _enums(options)}
    words = refusal.split("<enum '")[1].split("'")[0]
    return {one.name: one.value for one in enums[words]}


def _enums(options: Any) -> list[type[Enum]]:
    if type(options).__module__.startswith("queuecore"):
        from queuecore.data import settings as module
    else:
        from tensorflow.data import experimental as module
    return [module.AutoShardPolicy, module.AutotuneAlgorithm, module.ExternalStatePolicy]


if __name__ == "__main__":
    import tensorflow as tf

    print(json.dumps(of(tf.data.Options())))
