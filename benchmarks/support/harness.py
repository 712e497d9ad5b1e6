"""What every benchmark here needs: cores, files, turns, the machine's description, and one form of result.

A benchmark is a file with a function ``run(options) -> dict`` made by :func:`report`; :func:`main` runs it alone, and
``run.py`` runs all of them, each in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import gzip
import importlib
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent

sys.path.insert(0, str(HERE / "native"))


@dataclass
class Options:
    """How a benchmark is run.

    Attributes
    ----------
    quick : bool
        Few rounds, little data: shows that everything works; its figures prove nothing.
    peers : bool
        Also run other loaders, where they are installed.
    data_dir : str or None
        Where the temporary folder with the input files is made.
    case : str
        Only cases whose title has this text are measured, by benchmarks whose cases have titles.
    """

    quick: bool = False
    peers: bool = True
    data_dir: str | None = None
    case: str = ""


def pin(count: int = 2) -> list[int]:
    """Restrict this process to `count` CPUs, on different physical cores, and return them.

    Must be called before a library makes threads: only the calling thread and what it starts later are restricted.
    """
    chosen: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        key = siblings.read_text().strip() if siblings.exists() else str(cpu)
        chosen.setdefault(key, cpu)
    cpus = list(chosen.values())[:count]
    if len(cpus) < count:
        raise SystemExit(f"needs {count} physical cores, this process may use {len(cpus)}")
    os.sched_setaffinity(0, cpus)
    return cpus


def pin_alone() -> None:
    """Restrict this process to one CPU, for figures of CPU time.

    By SCHED_BATCH a thread that was woken doesn't take the CPU from the one that woke it, so there are many batches
    between two switches.
    """
    pin(1)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def native(module: str = "bench_native") -> Any:
    """Return a compiled module of ``native/``, the yardsticks unless another is named; built if need be."""
    import build

    build.build(module)
    return importlib.import_module(module)


@contextlib.contextmanager
def scratch(options: Options) -> Iterator[Path]:
    """Make a folder for input files that is gone afterwards."""
    folder = tempfile.mkdtemp(prefix="queuecore-bench-", dir=options.data_dir)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_files(
    folder: Path, count: int, records: int, record_bytes: int, *, reread: bool = True, seed: int = 1
) -> list[str]:
    """Write `count` files of random records and leave them warm, in the state in which a reader finds them.

    The pages that a writer leaves in the page cache differ from those that reading brings in (sizes of folios, dirty
    bits), and copying from them is quicker. So the files are written to the disk, dropped from the cache, and read once
    from start to end. Read-ahead begins each file with small folios, so the first megabytes of a file are slower than
    the rest; where that would hide what is measured, ``reread=False`` keeps the writer's pages, which are all alike.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    names = []
    for index in range(count):
        name = str(folder / f"data-{index:03}.bin")
        with open(name, "wb", buffering=0) as file:
            left = memoryview(generator.bytes(records * record_bytes))
            while left:
                left = left[file.write(left) :]
        names.append(name)
    if reread:
        reread_files(names)
    return names


def reread_files(names: Sequence[str]) -> None:
    """Drop written files from the page cache, and read them once."""
    buffer = bytearray(2**20)
    for name in names:
        with open(name, "rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    for name in names:
        with open(name, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def rotate(contenders: Sequence[tuple[str, Callable[[], Any]]], rounds: int) -> dict[str, list[Any]]:
    """Run all contenders in each of `rounds` rounds, beginning with another one each time; one round more comes first.

    Returns
    -------
    dict of str to list
        What each contender returned, by round, without the first, uncounted round.
    """
    raw: dict[str, list[Any]] = {name: [] for name, _ in contenders}
    for turn in range(-1, rounds):
        for step in range(len(contenders)):
            name, run = contenders[(turn + step) % len(contenders)]
            gc.collect()
            result = run()
            if turn >= 0:
                raw[name].append(result)
        print(f"    round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    return raw


def two_sides(
    put: Callable[[int], object], get: Callable[[int], float], each_side: int, count: int
) -> tuple[float, float]:
    """Pass so many objects from threads that put to as many that get.

    Each thread makes one call, with its share of them. Returns objects a second, and the sum of what `get` returned.
    """
    share = count // each_side
    sums: list[float] = []  # appending is atomic
    workers = [threading.Thread(target=put, args=(share,)) for _ in range(each_side)]
    workers += [threading.Thread(target=lambda: sums.append(get(share))) for _ in range(each_side)]
    begun = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return each_side * share / (time.perf_counter() - begun), sum(sums)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, extremes and quartiles."""
    ordered = sorted(values)
    quartiles = statistics.quantiles(ordered, n=4) if len(ordered) > 1 else [ordered[0]] * 3
    return {
        "median": statistics.median(ordered),
        "min": ordered[0],
        "max": ordered[-1],
        "quartile_1": quartiles[0],
        "quartile_3": quartiles[2],
        "runs": len(ordered),
    }


def finding(
    name: str, unit: str, values: Sequence[float], *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    """Describe one figure: its spread, and whether its median reaches the target."""
    stats = spread(values)
    result: dict[str, Any] = {"name": name, "unit": unit, **stats}
    if at_least is not None:
        result |= {"target": f">= {at_least:g}", "reached": stats["median"] >= at_least}
    if at_most is not None:
        result |= {"target": f"<= {at_most:g}", "reached": stats["median"] <= at_most}
    return result


def unmeasured(
    name: str, unit: str, why: str, *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    """Describe a figure that couldn't be taken, and why; its target is neither reached nor missed."""
    result: dict[str, Any] = {"name": name, "unit": unit, "not_measured": why}
    target = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}" if at_most is not None else None
    return result if target is None else result | {"target": target, "reached": None}


def report(
    name: str,
    subject: str,
    findings: Sequence[dict[str, Any]],
    raw: Any,
    *,
    parameters: dict[str, Any],
    notes: Sequence[str] = (),
    absences: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Put a benchmark's result together."""
    return {
        "name": name,
        "what": subject,
        "command": [Path(sys.executable).name, *sys.argv],
        "parameters": parameters,
        "notes": list(notes),
        "absent": absences or {},
        "findings": list(findings),
        "raw": raw,
    }


def print_report(result: dict[str, Any]) -> None:
    """Print the findings as a table."""
    print(f"{result['name']}: {result['what']}")
    for line in result["findings"]:
        if "not_measured" in line:
            print(f"  {line['name']:<70} {'not measured':>14} {line['unit']:<14} ({line['not_measured']})")
            continue
        verdict = "" if "target" not in line else f"   {line['target']:>8} {'reached' if line['reached'] else 'MISSED'}"
        if "no_target" in line:
            verdict = f"   no target: {line['no_target']}"
        figure = f"{line['median']:>14,.3f} {line['unit']:<14} [{line['min']:,.3f} .. {line['max']:,.3f}]"
        print(f"  {line['name']:<70} {figure}{verdict}")
    for peer, why in result["absent"].items():
        print(f"  {peer}: absent ({why})")
    for note in result["notes"]:
        print(f"  note: {note}")
    sys.stdout.flush()


def _first_line(*command: str, folder: Path = ROOT) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.partition("\n")[0].strip() or None


def _text_of(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def cpu_name() -> str:
    """Return the processor's name."""
    for line in (_text_of("/proc/cpuinfo") or "").splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine(cpus: Sequence[int]) -> dict[str, Any]:
    """Describe the machine and the programs, as far as a figure depends on them."""
    import Cython
    import numpy as np

    governor = _text_of(f"/sys/devices/system/cpu/cpu{cpus[0]}/cpufreq/scaling_governor")
    memory = re.search(r"MemTotal:\s*(\d+)", _text_of("/proc/meminfo") or "")
    return {
        "cpu": cpu_name(),
        "cpus_of_the_machine": os.cpu_count(),
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
        "cpus_pinned": list(cpus),
        "governor": governor or "not shown by the system",
        "huge_pages": _text_of("/sys/kernel/mm/transparent_hugepage/enabled"),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cython": Cython.__version__,
        "compiler": native().compiler(),
        "load_average": list(os.getloadavg()),
    }


def commit(checkout: Path = ROOT) -> str:
    """Return the short hash of a checkout's commit, "-dirty" after it if files differ, or "uncommitted"."""
    head = _first_line("git", "rev-parse", "--short", "HEAD", folder=checkout)
    if head is None:
        return "uncommitted"
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", ":!benchmarks/results"], capture_output=True, text=True, cwd=checkout
    )
    return head if changed.returncode == 0 and not changed.stdout.strip() else f"{head}-dirty"


def slug(text: str) -> str:
    """Make a text fit for a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


def save(results: Sequence[dict[str, Any]], about: dict[str, Any], folder: Path) -> Path:
    """Write ``<commit>.<cpu>.<date>.<compiler>.json`` and return its path. An earlier file is never overwritten."""
    version = commit()
    compiler = re.match(r"(\w+)\s+(\d+)", about["compiler"])
    parts = [
        version,
        slug(about["cpu"]),
        time.strftime("%Y-%m-%d"),
        f"{compiler[1]}{compiler[2]}" if compiler else slug(about["compiler"]),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (".".join(parts) + ".json")
    again = 2
    while path.exists():
        path = folder / (".".join([*parts[:2], f"{parts[2]}-{again}", parts[3]]) + ".json")
        again += 1
    document = {
        "format": 2,
        "commit": version,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": [Path(sys.executable).name, *sys.argv],
        "machine": about,
        "benchmarks": list(results),
    }
    write_result(path, document)
    return path


# What holds the numbers of single runs.
SINGLE_RUNS = ("raw", "before", "after")


def write_result(path: Path, document: dict[str, Any]) -> None:
    """Write a result as JSON, and the numbers of its single runs into one compressed file beside it.

    Where a list of numbers was, the result has its median. ``<name>.runs.json.gz`` is the whole document.
    """

    def summary(key: str, value: Any) -> Any:
        if key == "raw":
            return None
        if isinstance(value, dict):
            return {name: kept for name, one in value.items() if (kept := summary(name, one)) is not None}
        if isinstance(value, list):
            numbers = key in SINGLE_RUNS and all(isinstance(one, int | float) for one in value)
            return statistics.median(value) if numbers and value else [summary("", one) for one in value]
        return value

    path.write_text(json.dumps(summary("", document), indent=1) + "\n", encoding="utf-8")
    whole = json.dumps(document, separators=(",", ":")).encode()
    # No time in it: the same runs give the same file.
    path.with_suffix(".runs.json.gz").write_bytes(gzip.compress(whole, mtime=0))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all benchmarks share."""
    parser.add_argument("--quick", action="store_true", help="few rounds, little data: a check that it runs, no more")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave other loaders out")
    parser.add_argument("--data-dir", metavar="FOLDER", help="where the temporary input files go")
    parser.add_argument(
        "--case", default="", metavar="TEXT", help="of bench_cold: only cases whose title has this text"
    )


def main(run: Callable[[Options], dict[str, Any]], cores: int | None = 2) -> None:
    """Run one benchmark alone: pin, run, print, and write the result where ``--json`` says.

    `cores` is how many it is restricted to; `None`: it may use all.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="also write the result here")
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0)) if cores is None else pin(cores)
    native()
    result = run(Options(args.quick, args.peers, args.data_dir, args.case))
    result["cpus"] = cpus
    print_report(result)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
