"""See the module: nothing else here is for Python."""
from queuecore._core.io.sources import FileList

def first_cut(
    files: FileList, record_bytes: int, header_bytes: int, footer_bytes: int, hop_bytes: int
) -> tuple[int, int] | None: ...
