"""Methods of `queuecore.data.Dataset`, in groups: its bases."""
