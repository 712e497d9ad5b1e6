"""See the module: nothing else here is for Python."""

from queuecore._core.io.names import FileList

def file_sizes(files: FileList, first: int, count: int) -> list[int]: ...
