"""Tables of pyarrow, pandas and polars as datasets: each row is what these packages themselves say that it is.

Where one isn't installed, a small stand-in with the same attributes takes the place of its tables of numbers.
"""

import types

import numpy as np
import pytest

from queuecore.data import Dataset
from queuecore.errors import DtypeError, InvalidArgumentError
from queuecore.ragged import Ragged

NUMBERS = {"x": np.array([1, 2, 3], np.int16), "y": np.array([0.5, 1.5, np.inf])}


class Column:
    """What a package's column of numbers has of which `from_tensor_slices` makes use."""

    type = dtype = "int16"
    missing = 0

    def __init__(self, array):
        self.array = array

    null_count = property(lambda self: self.missing)

    def to_numpy(self, zero_copy_only=True):
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.array


class PolarsColumn(Column):
    def null_count(self):
        return self.missing


class Frame:
    """What a package's table has."""

    column_of = Column

    def __init__(self, columns=NUMBERS, names=None):
        self.columns = list(columns) if names is None else names
        self.schema = types.SimpleNamespace(names=self.columns)
        self._parts = {name: self.column_of(array) for name, array in columns.items()}

    def __getitem__(self, name):
        return self._parts[name]

    column = __getitem__


class PolarsFrame(Frame):
    column_of = PolarsColumn


class Lazy:
    pass


def never(_):
    return False


def stand_in(package):
    """Return a module with the stand-ins, as if they were the package's own."""
    kinds = (
        {"column": PolarsColumn, "frame": PolarsFrame} if package == "polars" else {"column": Column, "frame": Frame}
    )
    own = {name: type(kind.__name__, (kind,), {"__module__": f"{package}.core"}) for name, kind in kinds.items()}
    own["frame"].column_of = own["column"]
    lazy = type({"pyarrow": "ParquetFile"}.get(package, "LazyFrame"), (Lazy,), {"__module__": f"{package}.core"})
    module = types.ModuleType(package)
    module.lazy = lazy
    if package == "pyarrow":
        nothing = type("Nothing", (), {})
        module.Table, module.RecordBatch, module.Array, module.ChunkedArray = (
            own["frame"],
            nothing,
            own["column"],
            nothing,
        )
        module.ExtensionArray = nothing
        kinds = ("dictionary", "struct", "fixed_size_list", "list", "large_list", "string", "binary")
        module.types = types.SimpleNamespace(**{f"is_{kind}": never for kind in kinds})
        module.large_string = module.large_binary = lambda: None
    else:
        module.DataFrame, module.Series, module.Struct = own["frame"], own["column"], None
    return module


@pytest.fixture(params=["pyarrow", "pandas", "polars"])
def package(request, monkeypatch):
    module = stand_in(request.param)
    monkeypatch.setitem(__import__("sys").modules, request.param, module)
    return module


def table_of(package, *arguments):
    return getattr(package, "Table", getattr(package, "DataFrame", None))(*arguments)


def test_a_table_is_a_dict_of_its_columns(package):
    for structure in (table_of(package), {"outer": table_of(package)}, (table_of(package), np.arange(3))):
        dataset = Dataset.from_tensor_slices(structure)
        right = Dataset.from_tensor_slices(
            {"outer": NUMBERS}
            if isinstance(structure, dict)
            else (NUMBERS, np.arange(3))
            if isinstance(structure, tuple)
            else NUMBERS
        )
        assert dataset.element_spec == right.element_spec and list(dataset) == list(right)


def test_a_table_is_one_element(package):
    made = Dataset.from_tensors(table_of(package)).get_single_element()
    assert {name: made[name].tolist() for name in made} == {name: NUMBERS[name].tolist() for name in NUMBERS}


def test_tables_are_taken_as_they_are_now(package):
    numbers = np.arange(3)
    dataset = Dataset.from_tensor_slices(table_of(package, {"x": numbers}))
    numbers[:] = 9
    assert [row["x"] for row in dataset] == [0, 1, 2]


def test_columns_of_one_name(package):
    with pytest.raises(InvalidArgumentError, match="same name"):
        Dataset.from_tensor_slices(table_of(package, NUMBERS, ["x", "x"]))


def test_what_makes_a_table_is_named(package):
    if package.__name__ == "pandas":
        pytest.skip("pandas has no such thing")
    with pytest.raises(DtypeError, match=rf"{package.__name__}\.\w+, .*VALUE\.(collect|read)\(\)"):
        Dataset.from_tensor_slices(package.lazy())


def test_a_dataset_of_another_package_says_what_to_hand_in():
    made = type("Dataset", (), {"__module__": "datasets.arrow_dataset", "__len__": lambda self: 3})
    with pytest.raises(DtypeError, match=r"VALUE\.with_format\('arrow'\)\[:\]"):
        Dataset.from_tensor_slices(made())


def test_missing_values_are_named_by_column(package, monkeypatch):
    if package.__name__ == "pandas":
        pytest.skip("of pandas' columns, only those of objects have any")
    monkeypatch.setattr(Column, "missing", 2)
    with pytest.raises(InvalidArgumentError, match=r"tensors\['x'\] has 2 missing values.*fill_null.*drop_null"):
        Dataset.from_tensor_slices(table_of(package))


# ---- the packages themselves -----------------------------------------------------------------------------------------

ROWS = [
    {"x": 1, "y": 0.5, "b": True, "s": "a", "z": b"\0", "l": [1], "w": ["p"], "t": {"k": 1, "n": "u"}, "d": "red"},
    {"x": 2, "y": -1.0, "b": False, "s": "bé", "z": b"", "l": [2, 3], "w": [], "t": {"k": 2, "n": ""}, "d": "blue"},
    {"x": 3, "y": 2.0, "b": True, "s": "", "z": b"x\0", "l": [], "w": ["q", "r"], "t": {"k": 3, "n": "v"}, "d": "red"},
]


def plain(value):
    """An element as Python's own values, strings as bytes."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, Ragged):
        return value.to_list()
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def encoded(value):
    if isinstance(value, dict):
        return {name: encoded(part) for name, part in value.items()}
    return (
        [encoded(one) for one in value]
        if isinstance(value, list)
        else value.encode()
        if isinstance(value, str)
        else value
    )


def arrow_table():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make doors")
    table = pa.Table.from_pylist(ROWS)
    table = table.set_column(8, "d", table["d"].combine_chunks().dictionary_encode())
    return table.append_column("v", pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)))


@pytest.mark.doors
@pytest.mark.parametrize("cut", [lambda t: t, lambda t: t.slice(1, 2), lambda t: t.slice(3), lambda t: t.slice(2, 1)])
@pytest.mark.parametrize("chunks", [1, 2])
def test_tables_of_arrow(cut, chunks):
    import pyarrow as pa

    table = cut(pa.concat_tables([arrow_table()] * chunks))
    right = encoded(table.to_pylist())
    dataset = Dataset.from_tensor_slices(table)
    assert len(dataset) == len(right) and list(map(plain, dataset)) == right
    assert dataset.element_spec["v"].shape == (2,) and dataset.element_spec["v"].dtype == np.float32
    for batch in table.to_batches():
        assert list(map(plain, Dataset.from_tensor_slices(batch))) == encoded(batch.to_pylist())


@pytest.mark.doors
def test_types_of_arrow():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make doors")
    for kind in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ):
        column = pa.array([1, 2, 3], getattr(pa, kind)())
        spec = Dataset.from_tensor_slices({"x": column}).element_spec["x"]
        assert spec.dtype == kind and spec.shape == ()
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(2)):
        column = pa.array([b"ab", b"cd", b"ef"]).cast(pa.string() if "view" in str(kind) else kind).cast(kind)
        assert list(Dataset.from_tensor_slices(column[1:])) == [b"cd", b"ef"]
    nested = pa.array([[[1]], [[2, 3], []], []])
    assert [one.to_list() for one in Dataset.from_tensor_slices(nested)] == nested.to_pylist()
    for refused in (pa.array([1], pa.timestamp("s")), pa.array([1], pa.decimal128(3))):
        with pytest.raises((DtypeError, InvalidArgumentError), match=r"tensors\['c'\]"):
            Dataset.from_tensor_slices({"c": refused})
    with pytest.raises(InvalidArgumentError, match=r"tensors\['t'\]\['k'\] has 1 missing value,.*drop_null"):
        Dataset.from_tensor_slices(pa.table({"t": [{"k": 1}, {"k": None}]}))


@pytest.mark.doors
def test_frames_of_pandas():
    pd = pytest.importorskip("pandas", reason="pandas is not installed: make doors")
    frame = pd.DataFrame(ROWS, index=[5, 1, 9]).drop(columns="t").astype({"d": "category", "x": "uint8"})
    rows = frame.to_dict("records")
    assert list(map(plain, Dataset.from_tensor_slices(frame))) == encoded(rows)
    assert Dataset.from_tensor_slices(frame).element_spec["x"].dtype == np.uint8
    assert list(map(plain, Dataset.from_tensor_slices(frame[["x", "y"]]))) == frame[["x", "y"]].to_dict("records")
    assert list(map(plain, Dataset.from_tensor_slices(dict(frame)))) == encoded(rows)
    frame["s"] = ["a", None, "b"]
    with pytest.raises(InvalidArgumentError, match=r"tensors\['s'\] has 1 missing value,.*fillna.*TABLE.dropna\(\)"):
        Dataset.from_tensor_slices(frame)
    assert len(Dataset.from_tensor_slices(frame.dropna())) == 2


@pytest.mark.doors
def test_frames_of_polars():
    pl = pytest.importorskip("polars", reason="polars is not installed: make doors")
    frame = pl.DataFrame(ROWS).with_columns(pl.col("d").cast(pl.Categorical), pl.col("x").cast(pl.Int8))
    assert list(map(plain, Dataset.from_tensor_slices(frame))) == encoded(frame.rows(named=True))
    assert Dataset.from_tensor_slices(frame).element_spec["x"].dtype == np.int8
    with pytest.raises(DtypeError, match=r"collect\(\)"):
        Dataset.from_tensor_slices(frame.lazy())
    with pytest.raises(InvalidArgumentError, match=r"1 missing value,.*TABLE.drop_nulls\(\)"):
        Dataset.from_tensor_slices(pl.DataFrame({"x": [1, None]}))
