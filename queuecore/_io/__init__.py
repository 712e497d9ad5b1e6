"""Names of files, compression, LMDB, and what becomes of bad data."""
