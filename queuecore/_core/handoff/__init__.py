"""Queues: the hand-off in arrival order, typed queues, queues of objects, stage programs."""
