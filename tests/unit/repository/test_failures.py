"""The table of faults: every row says by which tests it holds, or what is missing; the page in docs says the same."""

import copy

import pytest
from helpers.repository.failures import MATRIX, PAGE, is_test, mistakes, page, read

TABLE = read(MATRIX.read_text(encoding="utf-8"))


def test_the_page_is_what_the_table_gives():
    assert PAGE.read_text(encoding="utf-8") == page(TABLE), (
        "run: .venv/bin/python -P tests/helpers/repository/failures.py"
    )


def test_the_table_is_whole():
    assert len(TABLE["row"]) >= 87
    assert mistakes(TABLE) == []


def test_every_sentence_ends():
    for row in TABLE["row"]:
        assert row["fault"].endswith(".") and row["outcome"].endswith("."), row["number"]


def no_row(rows):
    del rows[4]


def twice(rows):
    rows[4]["number"] = 4


def no_such_test(rows):
    rows[0]["tests"].append("tests/faults/test_storage.py::test_that_there_is_not")


def no_such_file(rows):
    rows[0]["tests"].append("tests/faults/test_nothing.py::test_a_read_fails")


def no_test(rows):
    rows[0]["tests"] = []


def no_such_group(rows):
    rows[0]["group"] = "Z"


@pytest.mark.parametrize("change", [no_row, twice, no_such_test, no_such_file, no_test, no_such_group])
def test_what_is_wrong_is_seen(change):
    table = copy.deepcopy(TABLE)
    change(table["row"])
    assert len(mistakes(table)) == 1
    assert page(table) != page(TABLE) or change in (no_such_test, no_such_file, no_test)


def test_a_promise_names_tests_that_there_are():
    table = copy.deepcopy(TABLE)
    table["promise"][0]["tests"] = ["tests/faults/test_storage.py::test_that_there_is_not"]
    assert len(mistakes(table)) == 1


def test_what_is_a_test():
    assert is_test("tests/unit/repository/test_failures.py::test_what_is_a_test")
    assert not is_test("tests/unit/repository/test_failures.py::no_row")
    assert not is_test("tests/unit/repository/test_failures.py")
