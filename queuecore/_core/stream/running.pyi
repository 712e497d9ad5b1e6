from typing_extensions import disjoint_base

from queuecore._core.stream.course import Course

@disjoint_base
class Running(Course): ...
