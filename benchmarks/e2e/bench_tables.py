"""Rows of Parquet files, beside pyarrow's own reading of the same columns.

The files lie in the page cache: sixteen columns of 32-bit numbers, and pictures of 20,000 random bytes, in Hugging
Face's layout, with a label. queuecore gives batches; pyarrow reads the whole table at once, or batches of that size,
with its own threads. Each pass must have all rows.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import harness  # noqa: E402
from passes import consume, whole_pass  # noqa: E402

SHARE = 0.9
IMAGE_BYTES = 20_000


def write_tables(folder: Path, rows: int) -> dict[str, tuple[str, int, int]]:
    """Write both files; return their names, how many rows they have, and the size of batches."""
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    random = np.random.default_rng(0)
    numbers = {f"x{column}": random.random(rows, np.float32) for column in range(16)}
    count = max(rows // 100, 100)
    layout = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    pictures = [{"bytes": random.bytes(IMAGE_BYTES), "path": None} for _ in range(count)]
    tables = {
        "numbers": (arrow.table(numbers), 65_536, 1024),
        "pictures": (arrow.table({"image": arrow.array(pictures, layout), "label": np.arange(count)}), 500, 64),
    }
    files = {}
    for name, (table, group, batch) in tables.items():
        path = str(folder / f"{name}.parquet")
        parquet.write_table(table, path, row_group_size=group)
        files[name] = path, table.num_rows, batch
    return files


def contenders_of(path: str, batch: int) -> dict[str, Callable[[], tuple[int, float]]]:
    """Return the ways to read a file: each gives how many rows, in how many seconds."""
    from queuecore.data import ParquetDataset

    parquet = importlib.import_module("pyarrow.parquet")
    return {
        "queuecore": lambda: whole_pass(ParquetDataset(path).batch(batch)),
        "pyarrow, at once": lambda: consume(read() for read in [lambda: parquet.read_table(path)]),
        "pyarrow, batches": lambda: consume(parquet.ParquetFile(path).iter_batches(batch)),
    }


def run(options: harness.Options) -> dict[str, Any]:
    """Measure whole passes of both files."""
    rows, rounds = (20_000, 2) if options.quick else (1_000_000, 7)
    findings: list[dict[str, Any]] = []
    raw: dict[str, Any] = {}
    with harness.scratch(options) as folder:
        for name, (path, count, batch) in write_tables(folder, rows).items():

            def rate(read: Callable[[], tuple[int, float]], expected: int = count) -> float:
                given, seconds = read()
                if given != expected:
                    raise SystemExit(f"{given} rows came, of {expected}")
                return given / seconds

            ways = contenders_of(path, batch)
            rates = harness.rotate([(way, lambda read=read: rate(read)) for way, read in ways.items()], rounds)
            findings += [harness.finding(f"{name}: {way}", "rows/s", runs) for way, runs in rates.items()]
            ratios = [own / peer for own, peer in zip(rates["queuecore"], rates["pyarrow, at once"], strict=True)]
            findings.append(harness.finding(f"{name}: queuecore to pyarrow", "times", ratios, at_least=SHARE))
            raw |= {f"{name}: {way}": runs for way, runs in rates.items()}
    return harness.report(
        "tables",
        "how fast do rows of Parquet files become batches?",
        findings,
        raw,
        parameters={"rows": rows, "image_bytes": IMAGE_BYTES, "rounds": rounds},
    )


if __name__ == "__main__":
    harness.main(run)
