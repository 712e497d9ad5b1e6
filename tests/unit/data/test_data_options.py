"""Options: attributes that can be set, tf.data's among them."""

import copy
import inspect
import json
import pickle
import subprocess

import pytest
from helpers.tensorflow import data_options
from helpers.tensorflow.peers import PYTHON, asks_tensorflow

from queuecore.data import Dataset, Options, TextLineDataset
from queuecore.data.options import Settings
from queuecore.data.settings import AutoShardPolicy, ExternalStatePolicy
from queuecore.errors import DtypeError, InvalidArgumentError

VALUES = {bool: True, int: 3, str: "a", list: ["a"]}


def groups(options):
    """Each group of options, and the options of tf.data themselves."""
    return [options, *(getattr(options, name) for name, kind in Options.types.items() if issubclass(kind, Settings))]


def all_set():
    """Options with all of those set that have no effect."""
    made = Options()
    for group in groups(made):
        for name, kind in group.types.items():
            if not issubclass(kind, Settings):
                setattr(group, name, VALUES[kind] if kind in VALUES else list(kind)[1])
    return made


def test_attributes_are_those_of_tf_data():
    assert data_options.of(Options()) == data_options.OPTIONS


@asks_tensorflow
def test_attributes_of_tensorflow():
    program = data_options.__file__
    found = subprocess.run([PYTHON, "-P", program], capture_output=True, timeout=300, check=True)
    assert json.loads(found.stdout) == data_options.OPTIONS


def test_attributes_can_be_set():
    options = Options(num_threads=2)
    options.deterministic = False
    options.max_leases = 7
    assert options == Options(num_threads=2, deterministic=False, max_leases=7)
    options.num_threads = None
    assert repr(options) == "Options(max_leases=7, deterministic=False)"


def test_the_other_names():
    options = Options()
    options.experimental_deterministic = False
    options.experimental_threading.private_threadpool_size = 3
    assert options.deterministic is False
    assert options.threading.private_threadpool_size == 3
    assert "experimental" not in repr(options)


@pytest.mark.parametrize("name", list(inspect.signature(Options).parameters))
def test_values_are_checked_when_they_are_set(name):
    options = Options()
    with pytest.raises(InvalidArgumentError, match=name if name != "quarantine" else "path"):
        setattr(options, name, -1.5)
    assert options == Options()


def test_unknown_attributes():
    options = Options()
    with pytest.raises(AttributeError, match=r"^Cannot set the property foo on Options\.$"):
        options.foo = 1
    with pytest.raises(AttributeError, match="'Options' object has no attribute 'foo'"):
        _ = options.foo
    with pytest.raises(AttributeError, match=r"^Cannot set the property foo on ThreadingOptions\.$"):
        options.threading.foo = 1
    assert not hasattr(options.autotune, "foo")


@pytest.mark.parametrize("index", range(6))
def test_other_types(index):
    group = groups(Options())[index]
    for name in group.types:
        with pytest.raises(TypeError, match=f'^Property "{name}" must be of type <.*, got: 1.5 ') as caught:
            setattr(group, name, 1.5)
        assert isinstance(caught.value, DtypeError)


def test_a_dataset_takes_a_copy():
    options = Options(num_threads=2)
    options.threading.private_threadpool_size = 1
    ds = Dataset.range(3).with_options(options)
    options.num_threads = 3
    options.threading.private_threadpool_size = 2
    assert ds.options().num_threads == 2
    assert ds.options().threading.private_threadpool_size == 1


def test_options_of_a_dataset_are_fixed():
    for ds in (Dataset.range(3), Dataset.range(3).with_options(all_set())):
        for group in groups(ds.options()):
            with pytest.raises(ValueError, match=r"^Mutating `tf\.data\.Options\(\)` returned by .* has no effect\."):
                setattr(group, next(iter(group.types)), None)
        changed = ds.options().merge(Options(num_threads=2))
        changed.num_threads = 3
        assert ds.options().num_threads is None
        assert Dataset.range(3).with_options(ds.options()).options() == ds.options()


def test_merging():
    options, other = Options(), Options()
    options.threading.max_intra_op_parallelism = 1
    options.framework_type = ["a"]
    other.threading.private_threadpool_size = 2
    other.framework_type = ["b"]
    other.experimental_slack = False
    both = Dataset.range(3).with_options(options).with_options(other).options()
    assert (both.threading.max_intra_op_parallelism, both.threading.private_threadpool_size) == (1, 2)
    assert both.framework_type == ["a", "b"]
    assert both.experimental_slack is False
    assert both == options.merge(other)
    assert both != options


def test_equality_is_about_what_is_set():
    assert Options() == Options()
    options = Options()
    assert options.autotune.enabled is None  # makes the group
    assert options.experimental_distribute.auto_shard_policy is AutoShardPolicy.AUTO
    assert options == Options()
    options.autotune.enabled = False
    assert options != Options()
    assert options != 3
    assert hash(options) == hash(Options())


def test_copies_and_pickles():
    options = all_set()
    options.on_error = "skip"
    for made in (pickle.loads(pickle.dumps(options)), copy.copy(options), copy.deepcopy(options)):
        assert made == options
        assert made.experimental_external_state_policy is ExternalStatePolicy.IGNORE


def test_a_pickle_of_before():
    # Frozen dataclasses were pickled as their class and their fields.
    made = Options.__new__(Options)
    made.__dict__.update({"num_threads": 2, "deterministic": None})
    assert made.num_threads == 2
    assert made.on_error is None
    assert made == Options(num_threads=2)


def test_options_without_effect_change_nothing(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    names = Dataset.from_tensor_slices([str(tmp_path / "a"), str(tmp_path / "b")])
    inner = [TextLineDataset, lambda name: TextLineDataset(name).with_options(all_set())]
    plain, given = (names.interleave(function, 2) for function in inner)
    assert given.plan() == plain.plan()
    for made in (given, plain.with_options(all_set())):
        with iter(plain) as mine, iter(made) as theirs:
            assert next(mine) == next(theirs)
            theirs.load_state_dict(mine.state_dict())
            assert list(mine) == list(theirs) == [b"3", b"2"]
    windows = Dataset.range(4).window(2)
    assert (
        windows.flat_map(lambda window: window.batch(2).with_options(all_set())).plan()
        == windows.flat_map(lambda window: window.batch(2)).plan()
    )
