"""Chains: sources, steps, the results of stages, and saved places."""
