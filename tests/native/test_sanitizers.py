"""The native core under many threads: as it is built here, and under the sanitizers (`make sanitize`).

Under a sanitizer the clean jobs must give no report, and each planted bug must give one: a sanitizer that reports
nothing may be one that is not there.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

DRIVER = Path(__file__).with_name("driver.py")
TREE = os.environ.get("QUEUECORE_SANITIZED_TREE", "")
KINDS = os.environ.get("QUEUECORE_SANITIZED_KIND", "").split(",") if TREE else []
# Each has an exit status that nothing else uses.
REPORTED = {"thread": 66, "address": 67, "undefined": 68}
SUPPRESSIONS = Path(__file__).with_name("tsan_suppressions.txt")

# Tests of what is written in Python, upon native code that others test.
PYTHON = {
    f"test_data_{name}"
    for name in ("autotune", "cache", "combine", "interleave", "iterators", "matrix", "patterns", "reduce", "trace")
}

# Tests of what native code does with memory.
UNIT = (
    *("core/test_crc32c", "core/test_fuzz", "core/test_lines", "core/test_tfrecord", "data/test_order"),
    *("device/test_device", "elements/test_record", "ops/test_decode_compressed", "ops/test_example"),
    *("ops/test_ops_images", "ops/test_ops_raw", "programs/test_programs", "readers/test_readers", "trace/test_trace"),
)

# Without a sanitizer this is a quick look; under one it is the job.
SCALE = 10.0 if TREE else 0.5


def package_folder() -> Path:
    """Return the folder of the package that children import. Not imported here: a tree under a sanitizer can't be."""
    if TREE:
        return Path(TREE, "queuecore")
    spec = importlib.util.find_spec("queuecore")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


needs_hooks = pytest.mark.skipif(
    not list(package_folder().glob("_core/testing/load.*.so")),
    reason="this build has no test hooks (QUEUECORE_TESTING=1)",
)


def library(name: str) -> str:
    """Return the path of one of the compiler's libraries."""
    command = [*os.environ.get("CXX", "g++").split(), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50).stdout.strip()
    assert os.path.isabs(found), f"{name} is not installed"
    return os.path.realpath(found)


def sanitizer_environment() -> dict[str, str]:
    """Return what a child needs so that the sanitizer is there before Python is."""
    # In the program from its start: loaded with the extension, the thread sanitizer finds no room for its thread-local
    # storage, and the address sanitizer has missed every allocation so far. libstdc++ must come with it, because its
    # __cxa_throw is looked up once, at the start.
    first = "libtsan.so" if "thread" in KINDS else "libasan.so"
    return {
        "LD_PRELOAD": f"{library(first)} {library('libstdc++.so')}",
        # Python's own allocator hands out pieces of large blocks, whose ends no sanitizer knows.
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "TSAN_OPTIONS": f"exitcode={REPORTED['thread']} history_size=7 suppressions={SUPPRESSIONS}",
        # Python keeps memory until the process ends, which is no leak of ours.
        "ASAN_OPTIONS": f"exitcode={REPORTED['address']} detect_leaks=0 detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": f"exitcode={REPORTED['undefined']} print_stacktrace=1 halt_on_error=1",
    }


@functools.cache
def fixed_addresses() -> list[str]:
    """Return a command prefix that keeps the address space in the places the thread sanitizer knows, where it may."""
    prefix = ["setarch", os.uname().machine, "--addr-no-randomize"]
    try:
        done = subprocess.run([*prefix, "true"], capture_output=True, timeout=50)
    except FileNotFoundError:
        return []
    return prefix if done.returncode == 0 else []


def run_python(*arguments: str, timeout: float = 500 if TREE else 50, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a child process, under the sanitizer if there is one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "QUEUECORE"))}
    prefix: list[str] = []
    if TREE:
        environment |= {"PYTHONPATH": TREE, **sanitizer_environment()}
        prefix = fixed_addresses()
    command = [*prefix, sys.executable, "-P", *arguments]
    return subprocess.run(command, env=environment | more, capture_output=True, text=True, timeout=timeout)


def run(job: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one job of the driver."""
    return run_python(str(DRIVER), job, str(SCALE), QUEUECORE_EXPECT=str(package_folder()), **more)


def found(job: str, **more: str) -> dict:
    """Run a job that must end without a report, and return what it found."""
    done = run(job, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_hooks
@pytest.mark.parametrize(
    "job",
    [
        *("window", "parking", "slots", "buffers", "fifo", "blocking", "queues", "stops"),
        *("compressed", "pictures"),
    ],
)
def test_native_threads(job):
    result = found(job)
    assert result
    for counts in result.values():  # of what must not happen
        assert counts
        assert set(counts) == {0}


def test_whole_pipelines_give_the_same_batches_with_any_number_of_threads():
    result = found("pipeline")
    assert result["records"] == 2500
    assert result["in order"] == {"rows": 2500, "orders": 1}
    assert result["shuffled"] == {"rows": 5000, "orders": 1}
    assert result["cut"] == {"rows": 1001 // 32 * 32, "orders": 1}


def test_records_without_known_places():
    result = found("records")
    rows = {"lines": 4200, "csv": 2100, "strings": 1500, "numbers": 1300, "skipped": 1497}
    rows |= {"shuffled": 4500, "rows": 6300}
    assert result == {kind: {"rows": count, "orders": 1} for kind, count in rows.items()}


def test_streams_behind_streams():
    # Four of five rows stay at each node but one, of two passes over 1200.
    result = found("handed")
    assert {kind: one["orders"] for kind, one in result.items()} == {"rows": 1, "chosen": 1, "objects": 1}
    assert result["rows"]["rows"] == 1536 and result["objects"]["rows"] == 1920
    assert 1100 < result["chosen"]["rows"] < 1400


@needs_hooks
def test_cold_files_by_each_backend():
    """The thread sanitizer is told what the kernel writes."""
    assert found("cold") == {"rows": 2500, "orders": 1}


def test_iterators_end_while_threads_work_for_them():
    assert found("early_end")["kept"] >= 4


def test_stage_programs():
    """Their threads are Python's, but run without the GIL."""
    assert found("programs") == {"missing": 0}


def test_batches_to_a_device(fake_cuda_folder):
    """The fake finds what comes too early or too late; under the thread sanitizer, also where no byte was wrong."""
    from helpers.device.fake_cuda import build

    driver = build(fake_cuda_folder, *(["-fsanitize=thread"] if "thread" in KINDS else []))
    assert set(found("device", QUEUECORE_LIBCUDA=str(driver))["missing"]) == {0}


def test_damaged_examples_are_parsed_or_refused():
    result = found("example")
    assert min(result.values()) > sum(result.values()) / 10


def assert_tests_pass(folder: Path, *arguments: str) -> None:
    """Run tests of ours under the sanitizer."""
    # -s: a report must not end in pytest's own capture.
    done = run_python(
        *("-m", "pytest", "-s", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder / 'temp'}"),
        *(f"--numprocesses={len(os.sched_getaffinity(0))}", "--max-worker-restart=0", *arguments),
        timeout=1800,
        QUEUECORE_WATCHDOG="600",
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-20000:]


@pytest.mark.skipif("address" not in KINDS, reason="for the address sanitizer: run `make sanitize`")
@pytest.mark.watchdog(1800)
def test_bad_input_and_every_order(tmp_path):
    # What the other tests provoke is where memory goes wrong.
    tests = DRIVER.parents[1]
    assert_tests_pass(
        tmp_path,
        # The sanitizer's allocator may be locked by another thread at a fork, and stays so in the child.
        *("-k", "not fork"),
        # More cases of what the quick tests run, and what runs long without a sanitizer.
        *("-m", "not (thorough or doors or peers or gpu)"),
        # A hundred processes, killed before a sanitizer says anything.
        *("--ignore", "tests/faults/test_data_kill.py"),
        str(tests / "faults"),
        *(str(tests / "unit" / f"{name}.py") for name in UNIT),
        *sorted(str(one) for one in tests.glob("unit/data/test_data*.py") if one.stem not in PYTHON),
    )


@pytest.mark.skipif("address" not in KINDS, reason="for the address sanitizer: run `make sanitize`")
@pytest.mark.watchdog(1800)
def test_csv(tmp_path):
    # Whatever the text is: nothing is read but its bytes.
    assert_tests_pass(tmp_path, *sorted(str(one) for one in DRIVER.parents[1].glob("unit/*/test_csv*.py")))


@pytest.mark.parametrize(
    ("kind", "job", "report"),
    [
        ("thread", "race", "ThreadSanitizer: data race"),
        ("address", "overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("undefined", "shift", "shift exponent"),
    ],
)
def test_planted_bug_is_reported(kind, job, report):
    if kind not in KINDS:
        pytest.skip(f"not a build with the {kind} sanitizer: run `make sanitize`")
    done = run(job)
    assert report in done.stderr
    assert f"planted_{job}" in done.stderr, "the report names another place"
    assert done.returncode == REPORTED[kind]
