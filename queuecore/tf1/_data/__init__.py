"""Datasets and iterators in a graph."""
