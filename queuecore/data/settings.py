"""tf.data's groups of options: each can be set as there, and none has an effect here."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, ClassVar, Self

from queuecore.errors import DtypeError

__all__ = [
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "DistributeOptions",
    "ExternalStatePolicy",
    "OptimizationOptions",
    "ServiceOptions",
    "Settings",
    "ThreadingOptions",
]


class AutoShardPolicy(IntEnum):
    """Rules by which tf.data divides a dataset among workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class AutotuneAlgorithm(Enum):
    """Algorithms of tf.data's autotuner."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class ExternalStatePolicy(Enum):
    """Answers of tf.data to state that a saved place can't hold."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


class Settings:
    """A group of options that are accepted as tf.data's are, and have no effect. Abstract.

    Raises
    ------
    AttributeError
        If another attribute is set, or asked for.
    DtypeError
        If a value isn't of the attribute's type.
    ValueError
        If they come from `Dataset.options`, and one is set.

    Notes
    -----
    One that isn't set is `None`.
    """

    # The type of each attribute; a group is made when it is asked for.
    types: ClassVar[dict[str, type]] = {}
    # Other names of attributes.
    aliases: ClassVar[dict[str, str]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, after checks."""
        name = self.aliases.get(name, name)
        if "_fixed" in vars(self):
            # tf.data's words: programs match on them.
            raise ValueError(
                "Mutating `tf.data.Options()` returned by `tf.data.Dataset.options()` has no effect. Use "
                "`tf.data.Dataset.with_options(options)` to set or update dataset options."
            )
        self.check(name, value)
        vars(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that isn't set."""
        name = self.aliases.get(name, name)
        if name in vars(self):
            return vars(self)[name]
        if name not in self.types:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if not issubclass(self.types[name], Settings):
            return None
        made = vars(self)[name] = self.types[name]()
        if "_fixed" in vars(self):
            made.fix()
        return made

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same attributes set."""
        return self.shown() == other.shown() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        """Return the same number for all: they may be changed."""
        return hash(type(self))

    def __repr__(self) -> str:
        """Return what is set."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"

    def check(self, name: str, value: Any) -> None:
        """Raise an error if an attribute can't have a value, in tf.data's words.

        Parameters
        ----------
        name : str
            The attribute.
        value : object
            The value.
        """
        kind = self.types.get(name)
        if kind is None:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        if not isinstance(value, kind):
            raise DtypeError(f'Property "{name}" must be of type {kind}, got: {value} (type: {type(value)})')

    def shown(self) -> dict[str, Any]:
        """Return what is set, by name.

        Returns
        -------
        dict
        """
        return {
            name: value
            for name, value in vars(self).items()
            if name != "_fixed" and value is not None and not (isinstance(value, Settings) and not value.shown())
        }

    def merged(self, later: Self) -> Self:
        """Return a copy, with everything that `later` sets put in its place.

        Parameters
        ----------
        later : Settings
            Options of which those that are set win. A `framework_type` is appended.

        Returns
        -------
        Settings
            Of the same class. It can be changed.
        """
        # All was checked when it was given. Not again: a log that can't be written any more is of no concern before
        # something is to be logged.
        copy = object.__new__(type(self))
        values = vars(copy)
        for given in (self, later):
            for name, value in vars(given).items():
                if value is None:  # most are not set
                    values.setdefault(name)
                    continue
                mine = values.get(name)
                if isinstance(value, Settings):
                    values[name] = (mine or type(value)()).merged(value)
                elif isinstance(value, list):
                    values[name] = [*(mine or ()), *value]
                elif name != "_fixed":
                    values[name] = value
        return copy

    def fix(self) -> Self:
        """Let nobody set attributes any more, and return the object."""
        vars(self)["_fixed"] = True
        for value in vars(self).values():
            if isinstance(value, Settings):
                value.fix()
        return self


class AutotuneOptions(Settings):
    """tf.data's options of its autotuner. They have no effect: queuecore chooses by itself."""

    types: ClassVar[dict[str, type]] = {
        "autotune_algorithm": AutotuneAlgorithm,
        "cpu_budget": int,
        "enabled": bool,
        "initial_parallelism": int,
        "min_parallelism": int,
        "ram_budget": int,
    }


class DistributeOptions(Settings):
    """tf.data's options for several workers. They have no effect: see `Dataset.shard`."""

    types: ClassVar[dict[str, type]] = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that isn't set; the policy is `AutoShardPolicy.AUTO`."""
        return AutoShardPolicy.AUTO if name == "auto_shard_policy" else super().__getattr__(name)


class OptimizationOptions(Settings):
    """tf.data's options of its graph rewrites. They have no effect: there is no such graph."""

    types: ClassVar[dict[str, type]] = dict.fromkeys(
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
        bool,
    )


class ServiceOptions(Settings):
    """tf.data's options of its service. They have no effect: there is no service."""

    types: ClassVar[dict[str, type]] = {"pinned": bool}


class ThreadingOptions(Settings):
    """tf.data's options of its threads. They have no effect: see `Options.num_threads`."""

    types: ClassVar[dict[str, type]] = {"max_intra_op_parallelism": int, "private_threadpool_size": int}
