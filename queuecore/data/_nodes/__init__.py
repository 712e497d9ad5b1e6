"""Sources whose elements are handed in, one file a kind, and what runs them."""
