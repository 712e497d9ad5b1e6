"""The deferred graph: operations, what is known of their values, and sessions that run them."""
