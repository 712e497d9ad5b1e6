"""Work on one record: decoding, elementwise operations, pictures, Examples, compiled functions."""
