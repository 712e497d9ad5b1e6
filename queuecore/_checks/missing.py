"""Names of peers that aren't there."""

from __future__ import annotations

from queuecore.errors import UnimplementedError

__all__ = ["MissingNameError"]


class MissingNameError(UnimplementedError, AttributeError):
    """A name of TensorFlow's that isn't there. `hasattr` says so, as of any other module."""
