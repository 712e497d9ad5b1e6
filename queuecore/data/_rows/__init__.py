"""Elements in memory: as rows of columns, and as objects."""
