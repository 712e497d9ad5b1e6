"""Elements: dtypes, records, components, and structures of them."""
