"""CSV text into columns: rows per second of one thread, from memory to memory, beside other readers on the same bytes.

The loop is native and lives in the core's test hooks (``QUEUECORE_TESTING=1`` builds them): it parses blocks of 256 KiB
into the rows of one float32 table. pyarrow reads into columns of its own, with one thread.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))

import harness  # noqa: E402

COLUMNS = 10
FLOAT32 = 0


def texts(rows: int) -> dict[str, bytes]:
    """Return files of ten numbers a row, in the forms in which numbers are usually written."""
    import numpy as np

    rng = np.random.default_rng(1)
    table = rng.normal(size=(rows, COLUMNS)) * 100
    integers = rng.integers(-100_000, 100_000, (rows, COLUMNS))

    def text(form: str, values: Any, quote: str = "") -> bytes:
        lines = (",".join(quote + format(one, form) + quote for one in row) for row in values.tolist())
        return "\n".join(lines).encode() + b"\n"

    return {
        "4 decimals": text(".4f", table),
        "whole numbers": text("d", integers),
        "all digits of a double": text("", table),
        "with exponents": text(".6e", table),
        "quoted": text(".4f", table, '"'),
    }


def run(options: harness.Options) -> dict[str, Any]:
    """Measure each form of numbers, and compare every value with Python's before."""
    import numpy as np

    rows, rounds = (20_000, 3) if options.quick else (500_000, 11)
    absences: dict[str, str] = {}
    findings, raw = [], {}
    try:
        from queuecore._core.io.csv import CsvFormat
        from queuecore._core.testing import parsers
    except ImportError as error:
        raise SystemExit(f"this build has no test hooks: {error}") from error
    plan = CsvFormat([(FLOAT32, i, None) for i in range(COLUMNS)], False, ord(","), True, b"", 64 << 20)
    arrow = None
    if options.peers:
        try:
            import pyarrow
            from pyarrow import csv as arrow
        except ImportError as error:
            absences["pyarrow"] = str(error)

    def with_arrow(data: bytes) -> float:
        names = [str(i) for i in range(COLUMNS)]
        start = time.perf_counter()
        table = arrow.read_csv(
            io.BytesIO(data),
            arrow.ReadOptions(use_threads=False, column_names=names),
            convert_options=arrow.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.float32())),
        )
        seconds = time.perf_counter() - start
        if table.num_rows != rows:
            raise SystemExit("pyarrow read another number of rows")
        return seconds

    for name, data in texts(rows).items():
        columns, _, error, _ = parsers.csv_table(plan, data[: data.index(b"\n", 200_000) + 1], 64 << 10)
        if error is not None:
            raise error
        lines = data[: data.index(b"\n", 200_000)].replace(b'"', b"").split(b"\n")
        want = np.array([[float(one) for one in line.split(b",")] for line in lines]).astype(np.float32)
        got = np.array([np.frombuffer(b"".join(one), np.float32) for one in columns]).T
        # Python's double is rounded twice, which may differ from the text's nearest float32 by its last bit.
        if np.count_nonzero(got != want) > want.size // 100_000:
            raise SystemExit(f"{name}: wrong values")
        contenders = [("queuecore", lambda data=data: rows / parsers.csv_time(plan, data, rows) / 1e6)]
        if arrow is not None:
            contenders.append(("pyarrow", lambda data=data: rows / with_arrow(data) / 1e6))
        times = harness.rotate(contenders, rounds)
        raw[name] = times
        for who, values in times.items():
            findings.append(harness.finding(f"{name}, {who}", "M rows/s", values))
        if arrow is not None:
            ratios = [a / b for a, b in zip(times["queuecore"], times["pyarrow"], strict=True)]
            target = 2.5 if name == "4 decimals" else None
            findings.append(harness.finding(f"{name}, over pyarrow", "x", ratios, at_least=target))
    return harness.report(
        "csv",
        "ten numbers a row to float32, one thread, memory to memory",
        findings,
        raw,
        parameters={"rows": rows, "rounds": rounds, "columns": COLUMNS},
        absences=absences,
    )


if __name__ == "__main__":
    harness.main(run)
