"""The queues behind `queuecore.queues`."""
