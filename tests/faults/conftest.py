"""What holds after every fault: nothing is left behind."""

import pytest


@pytest.fixture(autouse=True)
def every_fault(nothing_is_left):
    """All tests of this folder are tests of faults, whether the table names them or not."""
