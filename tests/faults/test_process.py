"""Signals, forks and the end of the process: nothing hangs, nothing is printed, the program's own exit code stands."""

import ast
import os
import signal

import pytest
from helpers.data.chains import THREADS, write_files
from helpers.process import run_python

# A dataset over the files of a folder, far from its end when the script does what it is about.
SETUP = """
    import os, sys, time, signal, threading, warnings
    import queuecore as qc
    from helpers.process import AT_ONCE
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


@pytest.mark.sampled(8)
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
    pytest.importorskip("queuecore._core.testing.syscalls")
    code = """
        from queuecore._core.testing import syscalls
        warnings.simplefilter("ignore")  # close() says that it left threads behind
        syscalls.set_read_delay(60.0)
        def wait():
            try:
                next(it)
            except qc.errors.FailedPreconditionError:
                pass
        threading.Thread(target=wait, daemon=True).start()
        while not syscalls.live_threads():
            time.sleep(0.001)
        begun = time.monotonic()
        it.close(timeout=0.2)
        print(time.monotonic() - begun < AT_ONCE)
    """
    assert ends(code, folder, number) == (0, "True\n")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [*THREADS, 0])
def test_ctrl_c_while_waiting(folder, number):
    pytest.importorskip("queuecore._core.testing.syscalls")
    code = """
        from queuecore._core.testing import syscalls
        syscalls.set_read_delay(60.0)
        sent = []
        def interrupt():
            while not syscalls.live_threads():
                time.sleep(0.001)
            time.sleep(0.1)  # so that the main thread is most likely inside next(); no matter if it isn't
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            next(it)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - sent[0] < AT_ONCE)
        begun = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            it.close(timeout=0.2)
        print("closed", time.monotonic() - begun < AT_ONCE, len(caught))
    """
    assert ends(code, folder, number) == (0, "interrupted True\nclosed True 1\n")


def test_goes_on_after_ctrl_c(folder):
    # An interrupted wait loses nothing: the next element is the one that was waited for, or the iterator says it is
    # closed.
    pytest.importorskip("queuecore._core.testing.syscalls")
    code = """
        from queuecore._core.testing import syscalls
        first = bytes(next(iter(ds)))
        syscalls.set_read_delay(0.3)
        def interrupt():
            while not syscalls.live_threads():
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
    pytest.importorskip("queuecore._core.testing.syscalls")
    code = """
        from queuecore._core.testing import syscalls
        syscalls.set_read_delay(3600)
        calls = []
        def go_on(*_):
            calls.append(True)
            syscalls.set_read_delay(0)
        signal.signal(signal.SIGALRM, go_on)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        batch = next(it)
        print(len(calls), len(batch))
    """
    assert ends(code, folder, 1) == (0, "1 16\n")


def test_sigterm(folder):
    status, _ = ends("next(it); os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)", folder, 8)
    assert status == -signal.SIGTERM


NATIVE = """
    def native():
        found = {}
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/status") as status:
                    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
            except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
                continue
            if fields["Name"].startswith("qc-reader"):  # one that opened files may not have ended yet
                blocked = int(fields["SigBlk"], 16)
                found[int(task)] = {number for number in range(1, 32) if blocked >> (number - 1) & 1}
        return found
    def begin():
        try:  # no read misses the page cache, so that no more threads are started for those that do
            from queuecore._core.testing import syscalls
            syscalls.set_cached(True)
        except ImportError:
            pass
        next(it)
        while len(native()) < number:  # one that hasn't its name yet
            time.sleep(0.001)
    def send(task, number):
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.argtypes = [ctypes.c_long] * 4
        tgkill = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
        # It may have ended meanwhile.
        assert libc.syscall(tgkill, os.getpid(), task, number) == 0 or ctypes.get_errno() == errno.ESRCH
"""
RAISED_BY_THE_THREAD = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
    *(signal.SIGTRAP, signal.SIGSYS, signal.SIGABRT, signal.SIGPROF),
}


@pytest.mark.parametrize("number", [1, 3])
def test_native_threads_block_what_is_the_main_threads_alone(folder, number):
    code = NATIVE + "    begin(); print([*native().values()])"
    status, output = ends(code, folder, number)
    everything = set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}
    assert status == 0
    assert ast.literal_eval(output) == [everything - RAISED_BY_THE_THREAD] * number


def test_a_program_that_blocks_a_profilers_signal_gets_it_in_no_thread(folder):
    code = (
        NATIVE
        + """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF, signal.SIGABRT])
    begin()
    print([{signal.SIGPROF, signal.SIGABRT, signal.SIGSEGV} & blocked for blocked in native().values()] == [
        {signal.SIGPROF, signal.SIGABRT}] * 2)
    """
    )
    assert ends(code, folder, 2) == (0, "True\n")


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer hears it first")
def test_faulthandler_hears_a_native_thread(folder):
    code = (
        NATIVE
        + """
    import faulthandler
    faulthandler.enable(sys.stdout)
    begin()
    send(min(native()), signal.SIGSEGV)
    time.sleep(60)
    """
    )
    status, output = ends(code, folder, 2)
    assert status == -signal.SIGSEGV
    assert output.startswith("Fatal Python error: Segmentation fault")


def test_a_profilers_signals_disturb_no_native_thread(folder):
    # They interrupt reads and sleeps. What comes is what comes without them.
    code = (
        NATIVE
        + """
    heard = []
    signal.signal(signal.SIGPROF, lambda *_: heard.append(1))
    with iter(ds) as quiet:
        expected = [bytes(next(quiet)) for _ in range(301)]
    begin()
    got = []
    for _ in range(300):
        got.append(bytes(next(it)))
        for task in native():
            send(task, signal.SIGPROF)
    print(got == expected[1:], len(heard) > 0)
    """
    )
    assert ends(code, folder, 2) == (0, "True True\n")


@pytest.mark.sampled(2)
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
