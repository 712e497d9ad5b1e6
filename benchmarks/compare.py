"""Two checkouts, both built in place, beside each other: ``python -P benchmarks/compare.py BEFORE [AFTER]``.

Rates: the benchmarks of both run in turn, each in a process of its own, beginning with the other one in each round; a
figure's change is that of the two results of one round. Shown are the median of the rounds and the interval that holds
the true median 95 times of 100. Instructions: the paths of ``hot_paths.py`` under valgrind, which repeats where clocks
don't.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "support")]

import harness  # noqa: E402
from hot_paths import PATHS, RUNS  # noqa: E402

BENCHMARKS = (
    "bench_fixed",
    "bench_records",
    "bench_record_sizes",
    "bench_overheads",
    "bench_data",
    "bench_queues",
    "bench_stdqueue",
)
# Of these units less is better.
COSTS = {"us", "us/MB", "times", "ns", "ns/pair", "ms", "s", "batch times", "seconds", "bytes"}
# By how much a path's instructions may grow.
MOST = 0.02


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval that holds, 95 times of 100, the median of what `values` are drawn from."""
    ordered, n = sorted(values), len(values)
    outside, k = 0.0, 0
    while k < n // 2 and 2 * (outside + math.comb(n, k) / 2**n) <= 0.05:
        outside += math.comb(n, k) / 2**n
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else (ordered[0], ordered[-1])


def script(tree: Path, name: str) -> Path:
    """Return where a checkout has a benchmark."""
    (found,) = [path for path in (tree / "benchmarks").rglob(f"{name}.py") if "results" not in path.parts]
    return found


def python(tree: Path) -> list[str]:
    """Return the command of the Python that a checkout was built for."""
    return [str(tree / ".venv/bin/python"), "-P"]


def figures(tree: Path, name: str, options: Sequence[str]) -> dict[str, tuple[float, str]]:
    """Run a benchmark of a checkout; return its figures with their units."""
    with tempfile.NamedTemporaryFile() as file:
        command = [*python(tree), str(script(tree, name)), "--no-peers", "--json", file.name, *options]
        subprocess.run(command, check=True, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = json.loads(Path(file.name).read_text(encoding="utf-8"))["findings"]
    return {one["name"]: (one["median"], one["unit"]) for one in found if "median" in one}


def rates(trees: Sequence[Path], names: Sequence[str], rounds: int, options: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the benchmarks of both, and yield how each figure changed; above 1 is better."""
    for name in names:
        runs: list[list[dict[str, tuple[float, str]]]] = [[], []]
        for turn in range(rounds):
            for which in (turn % 2, 1 - turn % 2):
                runs[which].append(figures(trees[which], name, options))
            print(f"    {name}: round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
        for figure in runs[1][0]:
            if any(figure not in one for some in runs for one in some):
                continue
            unit = runs[1][0][figure][1]
            before, after = ([one[figure][0] for one in some] for some in runs)
            ratios = [b / a if unit in COSTS else a / b for b, a in zip(before, after, strict=True) if a and b]
            if ratios:
                low, high = interval(ratios)
                yield {
                    **{"benchmark": name, "name": figure, "unit": unit, "change": statistics.median(ratios)},
                    **{"low": low, "high": high, "worse": high < 1, "before": before, "after": after},
                }


def instructions(tree: Path, path: str) -> list[float]:
    """Return how many instructions one more item of a path takes in a checkout, as often as it was counted."""
    with tempfile.TemporaryDirectory() as folder:
        simulator = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder}/part"]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        command = [*simulator, *python(tree), str(HERE / "hot_paths.py"), path]
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tree)
        parts = [Path(folder, f"part.{number}").read_text(encoding="utf-8") for number in range(2, 2 * RUNS + 2)]
    found = [int(re.search(r"^totals: (\d+)", part, re.MULTILINE)[1]) for part in parts]
    return [(more - less) / (2 * PATHS[path][1]) for less, more in zip(found[::2], found[1::2], strict=True)]


def counts(trees: Sequence[Path], paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Count what one more item of each path takes in both."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path in paths:
            before, after = pool.map(lambda tree, path=path: instructions(tree, path), trees)
            change = statistics.median(after) / statistics.median(before) - 1
            yield {"path": path, "change": change, "within": change <= MOST, "before": before, "after": after}


def main() -> int:
    """Compare, print and save; return 1 if a figure became worse beyond its interval, or a count grew too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of the earlier commit, with `make build` done")
    parser.add_argument("after", type=Path, nargs="?", default=HERE.parent, help="the later one; this one by default")
    parser.add_argument("--rounds", type=int, default=11, help="of each benchmark (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="little data in each run: more rounds in the same time")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="only what has one of these in its name")
    parser.add_argument("--rates", action="store_true", help="rates only")
    parser.add_argument("--instructions", action="store_true", help="counts of instructions only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here, every run beside")
    args = parser.parse_args()
    trees = [args.before.resolve(), args.after.resolve()]

    def chosen(names: Sequence[str]) -> list[str]:
        return [name for name in names if not args.only or any(text in name for text in args.only)]

    commits = [harness.commit(tree) for tree in trees]
    # Paths of this machine are of no use to others.
    options = [option for option in sys.argv[1:] if option.startswith("-")]
    result: dict[str, Any] = {"command": ["compare.py", *options], "commits": commits, "rates": [], "instructions": []}
    if not args.instructions:
        result["rates"] = list(rates(trees, chosen(BENCHMARKS), args.rounds, ["--quick"] if args.quick else []))
        for rate in result["rates"]:
            spread = f"{rate['change']:6.3f} [{rate['low']:.3f} .. {rate['high']:.3f}]"
            print(f"{rate['benchmark']:<16} {rate['name']:<70} {spread} {'WORSE' if rate['worse'] else ''}")
    if not args.rates:
        for count in counts(trees, chosen(list(PATHS))):
            result["instructions"].append(count)
            shown = f"{statistics.median(count['before']):12,.0f} {statistics.median(count['after']):12,.0f}"
            verdict = "" if count["within"] else "MORE"
            print(f"{count['path']:<50} {shown} {count['change']:+7.2%} {verdict}", flush=True)
    if args.json:
        harness.write_result(args.json, result)
    worse = any(rate["worse"] for rate in result["rates"])
    return 1 if worse or not all(count["within"] for count in result["instructions"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
