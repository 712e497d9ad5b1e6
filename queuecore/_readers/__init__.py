"""The readers behind `queuecore.readers`: their work, their states, and what they read."""
