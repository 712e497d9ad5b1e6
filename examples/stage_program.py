"""Fill a shuffling queue from files by stage programs: no thread of theirs takes the GIL.

The files hold records of CIFAR-10's layout, a label and a picture of one size. Two programs, each a reader with the
decoding behind it, share the names of the files. A runner gives each a native thread, and the loop takes batches.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import queuecore as qc

FILES, RECORDS, BATCH = 4, 100, 32
RECORD = np.dtype([("label", np.uint8), ("image", np.uint8, (3, 8, 8))])


def write(folder: Path) -> None:
    """Write the files. The first bytes of a picture say which record it is."""
    random = np.random.default_rng(0)
    for file in range(FILES):
        records = np.zeros(RECORDS, RECORD)
        records["image"] = random.integers(0, 256, records["image"].shape)
        records["image"][:, 0, 0, 0], records["image"][:, 0, 0, 1] = file, np.arange(RECORDS)
        records["label"] = np.arange(RECORDS) % 10
        records.tofile(folder / f"part-{file}.bin")


def main() -> None:
    """Read every record once, in a random order."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        names = qc.FIFOQueue(FILES, [str])
        for path in sorted(Path(folder).glob("*.bin")):
            names.enqueue(str(path))
        names.close()  # the programs end when no name is left

        queue = qc.RandomShuffleQueue(
            200, 100, [np.uint8, np.uint8], [(), RECORD["image"].shape], names=["label", "image"], seed=1
        )
        programs = [
            qc.StageProgram(qc.FixedLengthRecordReader(RECORD.itemsize), names, qc.ops.decode_raw(out_type=RECORD))
            for _ in range(2)
        ]
        print(programs[0].explain())

        coord = qc.Coordinator()
        threads = qc.QueueRunner(queue, programs).create_threads(coord, start=True)
        numbers = []
        try:
            while True:
                batch = queue.dequeue_up_to(BATCH)  # the last one is shorter
                which = batch["image"][:, 0, 0, :2].astype(int)
                assert np.array_equal(batch["label"], which[:, 1] % 10)
                numbers += (which[:, 0] * RECORDS + which[:, 1]).tolist()
        except qc.errors.OutOfRangeError:
            pass  # the programs are done, and so is the queue
        coord.request_stop()
        coord.join(threads)

    assert sorted(numbers) == list(range(FILES * RECORDS))
    assert numbers != sorted(numbers)
    print(f"{len(numbers)} records of {FILES} files, each once, shuffled")


if __name__ == "__main__":
    main()
