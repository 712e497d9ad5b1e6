"""The compiled half of queuecore. Private: nothing here is part of the public interface."""

from importlib.machinery import EXTENSION_SUFFIXES, PathFinder

__all__ = ["require_compiled"]

# Every other compiled module needs this one, so its absence speaks for all.
_PROBE = "atoms.process"


def require_compiled() -> None:
    """Raise an ImportError that names the remedy if this package was never compiled for this Python.

    Raises
    ------
    ImportError
        If no compiled module for this interpreter lies beside this file.
    """
    # find_spec, not an import: an extension that is there but fails to load must say so itself.
    folder, _, module = _PROBE.partition(".")
    spec = PathFinder.find_spec(module, [f"{path}/{folder}" for path in __path__])
    if spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES)):
        return
    raise ImportError(
        f"queuecore is not compiled for this Python ({EXTENSION_SUFFIXES[0]}) in {__path__[0]}.\n"
        "In a source checkout, build it with `make test`, or with\n"
        "    pip install -e . && python setup.py build_ext --inplace\n"
        "If you meant an installed queuecore, this directory hides it: "
        "run from another directory, or with `python -P`.",
        name=f"{__name__}.{_PROBE}",
    )
