"""Seeing what iterators do: traces."""
