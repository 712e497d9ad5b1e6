"""The picture of augmented samples in the docs is what the operations make today."""

import numpy as np
import pytest

pytest.importorskip("PIL", reason="Pillow is not installed")

from helpers.repository.samples import SAMPLES, samples  # noqa: E402
from PIL import Image  # noqa: E402


def test_the_samples_are_those_of_today():
    now = np.asarray(samples(), float)
    with Image.open(SAMPLES) as file:
        then = np.asarray(file.convert("RGB"), float)
    assert then.shape == now.shape
    # Versions of Pillow may draw an edge of the scene in another way.
    assert np.abs(now - then).mean() < 0.2, "run `make picture`"
