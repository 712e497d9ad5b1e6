"""See the module: nothing else here is for Python."""

from queuecore._core.io.sources import FileList

def file_sizes(files: FileList, first: int, count: int) -> list[int]: ...
