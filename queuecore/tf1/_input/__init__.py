"""Queues, readers, runners, and the functions that fill queues with files, slices and batches."""
