"""From file bytes to records: reading, decompression, framings and their parsers."""
