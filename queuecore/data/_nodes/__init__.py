"""Sources whose elements a thread of Python hands in, one file a kind, and the runs of these sources."""
