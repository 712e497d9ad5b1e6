"""Descriptions of parts of a graph."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QueueRunnerDef"]


@dataclass
class QueueRunnerDef:
    """A queue runner, by names.

    Attributes
    ----------
    queue_name : str
    enqueue_op_name : list of str
    close_op_name, cancel_op_name : str
    queue_closed_exception_types : list of exception classes
    """

    queue_name: str
    enqueue_op_name: list[str]
    close_op_name: str
    cancel_op_name: str
    queue_closed_exception_types: list[type[BaseException]]
