"""``tf.app``: the beginning of a program. With the package `absl` (absl-py) it is that one's, with its flags."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from queuecore.errors import UnimplementedError

__all__ = ["run"]


def run(main: Callable[..., Any] | None = None, argv: list[str] | None = None) -> Any:
    """Read the flags of the command line, call a program's function, and end the program with what it returns.

    Parameters
    ----------
    main : callable, optional
        Takes the arguments that are no flags. Default: the function ``main`` of the program.
    argv : list of str, optional
        Default: ``sys.argv``.

    Notes
    -----
    Without the package `absl` there are no flags: all arguments are handed on.
    """
    chosen = main or sys.modules["__main__"].main
    if importlib.util.find_spec("absl") is not None:
        from absl import app as absl_app  # type: ignore[import-not-found,import-untyped,unused-ignore]

        return absl_app.run(chosen, argv)
    sys.exit(chosen(sys.argv if argv is None else argv))


def __getattr__(name: str) -> Any:
    if name != "flags":
        raise AttributeError(f"module 'queuecore.tf1.app' has no attribute {name!r}")
    try:
        from absl import flags as found  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise UnimplementedError("tf.flags are those of absl, which isn't here: pip install absl-py") from error
    return found
