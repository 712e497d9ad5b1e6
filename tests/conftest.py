"""What every test run does: say which files are under test, refuse the wrong ones, and end a run that hangs."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import importlib.machinery
import importlib.util
import os
import signal
import tomllib
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent

# A hang in native code hears no Ctrl-C and would end in CI's own limit, with nothing to read.
WATCHDOG_SECONDS = float(os.environ.get("QUEUECORE_WATCHDOG", "180"))

# Whether this run looks for what is rare (.ci/nightly): other examples in each run, and what a fault may not do is
# looked at again with other numbers of threads. Otherwise the same code gets the same answer.
SEARCHING = os.environ.get("QUEUECORE_SEARCH") == "1"
# The half of the thorough tests that runs, 1 or 2; 0: all.
HALF = int(os.environ.get("QUEUECORE_SEARCH_HALF", "0"))

_stderr = -1


def package_file() -> Path:
    """Return where `import queuecore` would come from, without importing it."""
    spec = importlib.util.find_spec("queuecore")
    if spec is None or spec.origin is None:
        raise pytest.UsageError("queuecore is not installed here: run `make test`")
    return Path(spec.origin).resolve()


def compiled_file() -> Path | None:
    """Return the compiled module that stands for all, or None if there is none."""
    folder = str(package_file().parent / "_core")
    spec = importlib.machinery.PathFinder.find_spec("process", [f"{folder}/atoms"])
    return Path(spec.origin) if spec is not None and spec.origin else None


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test the source tree where an installed package is meant."""
    global _stderr
    # A shell starts its background jobs with Ctrl-C ignored, and their children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("QUEUECORE_TEST_INSTALLED") == "1" and package_file().is_relative_to(ROOT / "queuecore"):
        raise pytest.UsageError(
            f"QUEUECORE_TEST_INSTALLED=1, but queuecore is the source tree's, {package_file()}: "
            "run `pytest` of the environment that has the wheel, from outside the source tree"
        )
    # The examples of one run are those of the next, unless it searches: then a failure says how to show it again.
    settings.register_profile("queuecore", deadline=None, derandomize=not SEARCHING, print_blob=SEARCHING)
    settings.load_profile("queuecore")
    # A copy of the real stderr: while a test runs, the descriptor 2 is pytest's, and is lost when the process ends.
    _stderr = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what pytest_configure opened."""
    global _stderr
    if _stderr >= 0:
        os.close(_stderr)
        _stderr = -1


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name both files under test."""
    if tree := os.environ.get("QUEUECORE_SANITIZED_TREE"):
        # tests/native starts child processes on that tree, and imports nothing itself.
        return [f"queuecore: {tree}, with sanitizers: {os.environ.get('QUEUECORE_SANITIZED_KIND')}"]
    return [f"queuecore: {package_file()}", f"compiled: {compiled_file()}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as thorough all but one in so many cases of a sampled test, before -m chooses."""
    cases: dict[tuple[Path, str, int], list[pytest.Item]] = {}
    for item in items:
        if marker := item.get_closest_marker("sampled"):
            name = getattr(item, "originalname", item.name)
            cases.setdefault((item.path, name, marker.args[0]), []).append(item)
    for (_, _, every), group in cases.items():
        # Those whose names have the smallest sums: a case stays where it is when others come, and no axis of a product
        # of parameters is in step with the choice. One at least, so that every test has a quick case.
        ranked = sorted(group, key=lambda item: zlib.crc32(item.name.encode()))
        for item in ranked[max(1, len(group) // every) :]:
            item.add_marker(pytest.mark.thorough)
    if HALF:
        items[:] = [item for item in items if not item.get_closest_marker("thorough") or _half_of(item) == HALF]


def _half_of(item: pytest.Item) -> int:
    """Return in which of two runs of the search a thorough test runs, 1 or 2; those of a costly library in the same."""
    costly = "library" in getattr(item, "fixturenames", ())
    return zlib.crc32((item.nodeid.partition("::")[0] if costly else item.nodeid).encode()) % 2 + 1


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make alone: not, in each of hundreds of calls, at all test cases."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    """End the whole run, with all tracebacks, when one test with its fixtures takes too long."""
    marker = item.get_closest_marker("watchdog")
    seconds = max(WATCHDOG_SECONDS, marker.args[0]) if marker else WATCHDOG_SECONDS
    faulthandler.dump_traceback_later(seconds, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def nothing_is_left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Check what is promised after every fault, and that the test leaves nothing behind: see helpers.faults."""
    from helpers.faults.judge import judged
    from helpers.faults.left import nothing_left

    unwatched = not SEARCHING or request.node.get_closest_marker("unwatched")
    watched = contextlib.nullcontext() if unwatched else judged()
    with nothing_left(tmp_path_factory.mktemp("temporary")), watched:
        yield
        # What the other fixtures made has been put away by now; pytest still refers to it, and it to tracebacks.
        request.node.funcargs.clear()


@pytest.fixture(autouse=True)
def _named_by_the_table(request: pytest.FixtureRequest) -> None:
    # Not in tests/native: those start child processes on another tree, and import nothing themselves.
    if not request.path.is_relative_to(ROOT / "tests/native"):
        name = getattr(request.node, "originalname", request.node.name)
        if f"{request.path}::{name}" in _named_tests():
            request.getfixturevalue("nothing_is_left")


@functools.cache
def _named_tests() -> set[str]:
    table = tomllib.loads((ROOT / "tests/faults/matrix.toml").read_text(encoding="utf-8"))
    return {f"{ROOT}/{name}" for entry in (*table["promise"], *table["row"]) for name in entry.get("tests", [])}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def fake_cuda_folder(run_folder: Path) -> Path:
    """Where what belongs to the fake CUDA driver is compiled, once for all processes of this run."""
    return run_folder / "fake_cuda"


@pytest.fixture(scope="session")
def fake_cuda_library(fake_cuda_folder: Path) -> Path:
    """The path of the fake CUDA driver (helpers.device.fake_cuda)."""
    from helpers.device.fake_cuda import build

    return build(fake_cuda_folder)


@pytest.fixture
def fake_cuda(fake_cuda_library: Path):
    """The fake CUDA driver in this process, as just loaded."""
    from helpers.device.fake_cuda import Fake

    fake = Fake(fake_cuda_library)
    fake.reset()
    yield fake
    fake.reset()
