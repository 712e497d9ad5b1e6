"""The deferred graph: operations, the facts known of their values, and sessions that run them."""
