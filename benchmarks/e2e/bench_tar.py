"""Samples of tar archives, beside the `preadv` floor of the archives and beside webdataset.

The archives lie in the page cache. Their samples are one file of 3,072 random bytes each, or such a file and a label;
they come in batches of 128. webdataset is set up as its documentation shows, in one process; neither side decodes
anything. Each run stands between two runs of the floor, which reads the same archives in pieces of a batch.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import Group, Pass, consume, whole_pass  # noqa: E402

BATCH = 128
ARCHIVES = 4
IMAGE_BYTES = 3072
FLOOR_SHARE = 0.6
PEER_FACTOR = 20


def write_archives(folder: Path, count: int, keys: list[str]) -> list[str]:
    """Write so many samples in a few archives; return their names."""
    random = np.random.default_rng(0)
    names = []
    for number in range(ARCHIVES):
        names.append(str(folder / f"{'-'.join(keys)}-{number}.tar"))
        with tarfile.open(names[-1], "w", format=tarfile.USTAR_FORMAT) as tar:
            for sample in range(count // ARCHIVES):
                for key in keys:
                    content = b"%d" % (sample % 1000) if key == "cls" else random.bytes(IMAGE_BYTES)
                    member = tarfile.TarInfo(f"{number}/{sample:06}.{key}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return names


def group_of(folder: Path, count: int, keys: list[str], peers: bool) -> Group:
    """Return queuecore and webdataset over the same archives."""
    from queuecore.data import Options, TarDataset

    names = write_archives(folder, count, keys)
    nbytes = sum(Path(name).stat().st_size for name in names)
    group = Group(" + ".join(keys), names, nbytes // count, BATCH)
    dataset = TarDataset(names, keys)

    def queuecore(threads: int) -> Pass:
        return whole_pass(dataset.batch(BATCH).with_options(Options(num_threads=threads)))

    group.add("queuecore, 1 thread", lambda: queuecore(1))
    group.add("queuecore, 2 threads", lambda: queuecore(2), at_least=FLOOR_SHARE)
    group.add("queuecore, shuffled, 2 threads", lambda: whole_pass(dataset.shuffle(2000, seed=1).batch(BATCH)))

    def webdataset(module: Any) -> Any:
        def run() -> Pass:
            samples = module.WebDataset(names, shardshuffle=False, empty_check=False).to_tuple(*keys)
            return consume(samples.batched(BATCH, collation_fn=lambda rows: tuple(map(list, zip(*rows, strict=True)))))

        return run

    if peers:
        group.add_peer("webdataset", "webdataset", webdataset)
    return group


def run(options: harness.Options) -> dict[str, Any]:
    """Measure whole passes of both kinds of archives."""
    count, rounds = (4_000, 2) if options.quick else (100_000, 7)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    absences: dict[str, str] = {}
    with harness.scratch(options) as folder:
        for keys in (["jpg"], ["jpg", "cls"]):
            group = group_of(folder, count, keys, options.peers)
            found, runs = group.measure(rounds)
            for passes in runs.values():
                if any(each["records"] != count for each in passes):
                    raise SystemExit(f"other than {count} samples came")
            findings += found
            if "webdataset" in runs:
                rates = [
                    [each["records_per_s"] for each in runs[name]] for name in ("queuecore, 2 threads", "webdataset")
                ]
                ratios = [own / peer for own, peer in zip(*rates, strict=True)]
                findings.append(
                    harness.finding(f"{group.title}: queuecore to webdataset", "times", ratios, at_least=PEER_FACTOR)
                )
            raw |= {f"{group.title}: {name}": passes for name, passes in runs.items()}
            absences |= group.absences
    return harness.report(
        "tar",
        "how fast do samples come out of tar archives?",
        findings,
        raw,
        parameters={"samples": count, "image_bytes": IMAGE_BYTES, "batch": BATCH, "rounds": rounds},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
