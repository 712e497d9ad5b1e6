"""Iterators of all kinds in forked children, and at the end of the process."""

import pytest
from helpers.data.chains import write_files
from helpers.process import run_python

SETUP = """
    import os, sys, warnings
    import queuecore as qc
    ds = qc.data.FixedLengthRecordDataset(sys.argv[1] + "/*.bin", record="u1").repeat()
    Iterator = qc.data.Iterator
    warnings.simplefilter("ignore")  # from Python 3.12 on, os.fork() warns where there are threads
    def refused(use):
        try:
            use()
        except qc.errors.ForkedPipelineError:
            return True
        return False
    def parent_of(child):
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                code = child()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path, [bytes(range(50))])
    return tmp_path


def ends(code, folder):
    done = run_python(SETUP + code, folder)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_forked_child_has_to_begin_again(folder):
    code = """
    initializable = ds.make_initializable_iterator()
    switched = Iterator.from_structure(ds.output_types)
    to = switched.make_initializer(ds.skip(7))
    initializable.initializer()
    to()
    print(int(next(initializable)), int(next(switched)))
    def child():
        old = all(refused(use) for it in (initializable, switched) for use in (it.get_next, it.state_dict, it.stats))
        initializable.initializer()
        to()
        return 10 * old + int(next(initializable)) + int(next(switched))
    print(parent_of(child))
    print(int(next(initializable)), int(next(switched)))
    """
    assert ends(code, folder) == (0, "0 7\n17\n1 8\n")


def test_handles_are_not_for_forked_children(folder):
    code = """
    one, two = iter(ds), ds.make_initializable_iterator()
    two.initializer()
    handles = [one.string_handle(), two.string_handle()]
    which = 0
    it = Iterator.from_string_handle(lambda: handles[which], ds.output_types)
    print(int(it.get_next()))
    def child():
        global which
        count = refused(it.get_next)
        which = 1
        count += refused(it.get_next)
        two.initializer()  # its handle is the parent's still
        count += refused(it.get_next) + refused(it.state_dict)
        it.close()
        own = iter(ds.skip(4))
        handles.append(own.string_handle())
        which = 2
        return 10 * count + int(it.get_next())
    print(parent_of(child))
    print(int(it.get_next()))
    """
    assert ends(code, folder) == (0, "0\n44\n1\n")


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["initializable", "switched", "fed"])
def test_left_open_at_the_end(folder, kind):
    code = f"""
    kind = {kind!r}
    it = ds.make_initializable_iterator() if kind == "initializable" else Iterator.from_structure("u1")
    (it.initializer if kind == "initializable" else it.make_initializer(ds))()
    if kind == "fed":
        beneath = it
        it = Iterator.from_string_handle(it.string_handle(), "u1")
    print(int(it.get_next()))
    """
    assert ends(code, folder) == (0, "0\n")
