"""``tf.contrib.staging``: places where elements wait for the next run."""

from queuecore.tf1._graph.refused import refusing as _refusing
from queuecore.tf1._input.staging import MapStagingArea, StagingArea

__all__ = ["MapStagingArea", "StagingArea"]


__getattr__ = _refusing("tf.contrib.staging")
