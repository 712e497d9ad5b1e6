"""Checks of arguments, seeds, warnings, threads, and calls of functions that users give."""
