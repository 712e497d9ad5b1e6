"""Names of files, compression, record files and their writers, LMDB, and the treatment of bad data."""
