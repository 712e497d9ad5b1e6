"""Signals, forks and the end of the process: nothing hangs, nothing is printed, the program's own exit code stands."""

import os
import signal

import pytest
from helpers.chains import THREADS, write_files
from helpers.process import run_python

# A dataset over the files of a folder, far from its end when the script does what it is about.
SETUP = """
    import os, sys, time, signal, threading, warnings
    import queuecore as qc
    folder, number = sys.argv[1], int(sys.argv[2])
    ds = qc.data.FixedLengthRecordDataset(folder + "/*.bin", 100).batch(16).repeat()
    ds = ds.with_options(qc.data.Options(num_threads=number or None))
    it = iter(ds)
"""


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path, [bytes([index]) * 100_000 for index in range(5)])
    return tmp_path


def ends(code, *arguments):
    """Run the set-up and a script, which must print nothing on stderr; return its exit code and its output."""
    import textwrap

    child = run_python(textwrap.dedent(SETUP) + textwrap.dedent(code), *arguments)
    assert child.stderr == ""
    return child.returncode, child.stdout


@pytest.mark.parametrize("number", [*THREADS, 0])
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("next(it)", 0),
        ("pass", 0),
        ("next(it); sys.exit(3)", 3),
        ("kept = [next(it) for _ in range(3)]; sys.exit(3)", 3),
        ("next(it); os._exit(4)", 4),
        ("next(it); box = [it]; box.append(box); del it", 0),
        ("import atexit; atexit.register(next, it)", 0),
        ("t = threading.Thread(target=lambda: [len(next(it)) for _ in range(9)]); t.start()", 0),
        ("t = threading.Thread(target=lambda: [len(b) for b in it], daemon=True); t.start(); time.sleep(0.05)", 0),
    ],
)
def test_exit_without_close(folder, code, status, number):
    assert ends(code, folder, number) == (status, "")


def test_exit_by_an_error(folder):
    import textwrap

    child = run_python(textwrap.dedent(SETUP) + "next(it)\nraise KeyError('mine')", folder, 2)
    assert child.returncode == 1
    assert child.stderr.rstrip().endswith("KeyError: 'mine'")
    assert child.stderr.count("Traceback") == 1


@pytest.mark.parametrize("number", [2, 0])
def test_exit_while_a_thread_is_stuck_in_a_read(folder, number):
    pytest.importorskip("queuecore._core._testing")
    code = """
        from queuecore._core import _testing
        warnings.simplefilter("ignore")  # close() says that it left threads behind
        _testing.set_read_delay(60.0)
        def wait():
            try:
                next(it)
            except qc.errors.FailedPreconditionError:
                pass
        threading.Thread(target=wait, daemon=True).start()
        while not _testing.live_threads():
            time.sleep(0.001)
        begun = time.monotonic()
        it.close(timeout=0.2)
        print(time.monotonic() - begun < 1)
    """
    assert ends(code, folder, number) == (0, "True\n")


@pytest.mark.parametrize("number", [*THREADS, 0])
def test_ctrl_c_while_waiting(folder, number):
    pytest.importorskip("queuecore._core._testing")
    code = """
        from queuecore._core import _testing
        _testing.set_read_delay(60.0)
        sent = []
        def interrupt():
            while not _testing.live_threads():
                time.sleep(0.001)
            time.sleep(0.1)  # so that the main thread is most likely inside next(); no matter if it isn't
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            next(it)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - sent[0] < 1)
        begun = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            it.close(timeout=0.2)
        print("closed", time.monotonic() - begun < 1, len(caught))
    """
    assert ends(code, folder, number) == (0, "interrupted True\nclosed True 1\n")


def test_goes_on_after_ctrl_c(folder):
    # An interrupted wait loses nothing: the next element is the one that was waited for, or the iterator says it is
    # closed.
    pytest.importorskip("queuecore._core._testing")
    code = """
        from queuecore._core import _testing
        first = bytes(next(iter(ds)))
        _testing.set_read_delay(0.3)
        def interrupt():
            while not _testing.live_threads():
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        try:
            threading.Thread(target=interrupt).start()
            next(it)
        except KeyboardInterrupt:
            pass
        try:
            print(bytes(next(it)) == first)
        except qc.errors.FailedPreconditionError:
            print(it.closed)
    """
    assert ends(code, folder, 2) == (0, "True\n")


def test_a_handler_of_the_users_runs_while_waiting(folder):
    pytest.importorskip("queuecore._core._testing")
    code = """
        from queuecore._core import _testing
        _testing.set_read_delay(0.5)
        calls = []
        signal.signal(signal.SIGALRM, lambda *_: calls.append(time.monotonic()))
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        batch = next(it)
        print(len(calls), calls[0] - begun < 0.3, len(batch))
    """
    assert ends(code, folder, 1) == (0, "1 True 16\n")


def test_sigterm(folder):
    status, _ = ends("next(it); os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)", folder, 8)
    assert status == -signal.SIGTERM


@pytest.mark.parametrize("number", [*THREADS, 0])
def test_fork(folder, number):
    code = """
        warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
        got = [bytes(next(it)) for _ in range(3)]
        batch = next(it)
        pid = os.fork()
        if pid == 0:
            code = 0
            for use in (lambda: next(it), lambda: it.load_state_dict({}), lambda: it.state_dict()):
                try:
                    use()
                except qc.errors.ForkedPipelineError:
                    code += 1
            it.close()
            del it
            code += 10 * (bytes(batch)[:1] == b"\\0")
            del batch
            with iter(ds) as other:
                code += 20 * ([bytes(next(other)) for _ in range(3)] == got)
            sys.exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status)
        print(all(len(next(it)) in (8, 16) for _ in range(1000)))
        it.close()
    """
    assert ends(code, folder, number) == (0, "33\nTrue\n")


def test_fork_before_the_first_next(folder):
    code = """
        pid = os.fork()
        if pid == 0:
            try:
                sys.exit(len(next(it)))
            except qc.errors.ForkedPipelineError:
                sys.exit(16)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(next(it)))
    """
    assert ends(code, folder, 2) == (0, "16 16\n")


def test_spawned_workers_get_the_description(folder):
    import textwrap

    script = folder / "main.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing, sys
            import queuecore as qc

            def work(ds):
                with iter(ds) as it:
                    return next(it).tobytes()

            if __name__ == "__main__":
                ds = qc.data.FixedLengthRecordDataset(sys.argv[1] + "/*.bin", 100).shuffle(50, 1).batch(4)
                with multiprocessing.get_context("spawn").Pool(2) as pool:
                    results = pool.map(work, [ds, ds])
                print(len(set(results + [work(qc.data.FixedLengthRecordDataset(
                    sys.argv[1] + "/*.bin", 100).shuffle(50, 1).batch(4))])))
            """
        )
    )
    child = run_python(
        "import runpy, sys; sys.argv[:] = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
        script,
        folder,
    )
    assert child.stdout == "1\n", child.stderr
    assert os.path.exists(script)
