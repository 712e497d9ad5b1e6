"""A running stream: planned under a turn, executed outside it, delivered as arrays."""
