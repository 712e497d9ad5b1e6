"""Pack a folder of inputs for the fuzzer: corpus.py FOLDER ARCHIVE. The same inputs give the same bytes."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """Write all files of a folder to an archive, by name, without what else a file system knows of them."""
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(folder.iterdir()):
            packed.writestr(zipfile.ZipInfo(path.name), path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
