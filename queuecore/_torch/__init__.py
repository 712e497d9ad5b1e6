"""The rooms behind `queuecore.torch`: tensors, datasets, and a loader with its crews of workers."""
