"""See the module: nothing here is for Python."""
