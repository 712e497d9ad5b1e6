"""Random numbers, of TensorFlow's generator: the same for the same seeds."""

from __future__ import annotations

__all__: list[str] = []
