"""Calls of Python functions with symbols, and the native programs made of them."""
