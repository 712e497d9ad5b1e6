"""Whole passes over files, beside the `preadv` floor of the same files."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from typing import Any

import harness

Pass = tuple[int, float]


def rows_of(batch: Any) -> int:
    """Return the number of rows of a batch, whatever loader it comes from."""
    while isinstance(batch, (dict, tuple)):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
    return len(batch)


def consume(batches: Any) -> Pass:
    """Count the rows of all batches, and time it."""
    rows = 0
    start = time.perf_counter()
    for batch in batches:
        rows += rows_of(batch)
    return rows, time.perf_counter() - start


def whole_pass(dataset: Any) -> Pass:
    """Time one iteration from ``iter()`` until its threads have ended."""
    start = time.perf_counter()
    with iter(dataset) as batches:
        rows, _ = consume(batches)
    return rows, time.perf_counter() - start


class Group:
    """Contenders over the same files, with the floor around each of their runs."""

    def __init__(self, title: str, names: list[str], record_bytes: int, batch: int) -> None:
        self.title = title
        self.names = names
        self.record_bytes = record_bytes
        self.batch = batch
        self.contenders: list[tuple[str, Callable[[], Pass], float | None]] = []
        self.absences: dict[str, str] = {}
        self.peers: dict[str, str] = {}

    def add(self, name: str, run: Callable[[], Pass], at_least: float | None = None) -> None:
        """Add a contender, with its target as a share of the floor."""
        self.contenders.append((name, run, at_least))

    def add_peer(self, name: str, module: str, make: Callable[[Any], Callable[[], Pass]]) -> None:
        """Add another loader if it can be imported and set up; otherwise note that it is absent, and why."""
        try:
            self.add(name, make(importlib.import_module(module)))
        except ImportError as error:
            self.absences[f"{name} ({self.title})"] = str(error)
        else:
            self.peers[module] = _version(module)

    def measure(self, rounds: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Run everything in turns; return the findings and the raw runs."""
        yardstick = harness.native()
        chunk = self.batch * self.record_bytes

        def floor() -> float:
            nbytes, elapsed = yardstick.floor_pass(self.names, chunk)
            return nbytes / elapsed * 1e9

        def between_floors(run: Callable[[], Pass]) -> dict[str, float]:
            before = floor()
            rows, seconds = run()
            gc.collect()
            after = floor()
            rate = rows / seconds
            return {
                "records": rows,
                "seconds": seconds,
                "records_per_s": rate,
                "floor_before_records_per_s": before / self.record_bytes,
                "floor_after_records_per_s": after / self.record_bytes,
                "of_the_floor": rate * self.record_bytes / ((before + after) / 2),
            }

        raw = harness.rotate([(name, lambda run=run: between_floors(run)) for name, run, _ in self.contenders], rounds)
        findings = []
        passes = [pass_ for runs in raw.values() for pass_ in runs]
        floors = [pass_[f"floor_{when}_records_per_s"] / 1e6 for pass_ in passes for when in ("before", "after")]
        findings.append(harness.finding(f"{self.title}: preadv floor", "M records/s", floors))
        for name, _, target in self.contenders:
            full = f"{self.title}: {name}"
            findings.append(
                harness.finding(full, "of the floor", [pass_["of_the_floor"] for pass_ in raw[name]], at_least=target)
            )
            findings.append(harness.finding(full, "M records/s", [pass_["records_per_s"] / 1e6 for pass_ in raw[name]]))
        return findings, raw


def _version(module: str) -> str:
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    try:
        return version(packages_distributions()[module][0])
    except (KeyError, PackageNotFoundError):
        return ""
