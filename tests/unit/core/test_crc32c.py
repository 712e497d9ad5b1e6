"""CRC-32C: every way to compute it gives the published values, Google's values, and reads nothing past the end."""

import random

import google_crc32c
import pytest

# Only a build with QUEUECORE_TESTING=1 has it; release wheels don't.
parsers = pytest.importorskip("queuecore._core.testing.parsers")

VARIANTS, USED = parsers.crc32c_variants()

# RFC 3720, appendix B.4, and the check value of the catalogues.
VECTORS = [
    (b"", 0x00000000),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex("01c00000" + "00" * 12 + "14000000000004000000001400000018" + "28000000000000000200000000000000"),
        0xD9963A56,
    ),
]


def test_the_last_usable_one_is_used():
    assert VARIANTS[0] == "table"
    assert VARIANTS[-1] == USED


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_values(variant):
    for data, crc in VECTORS:
        assert parsers.crc32c_by(variant, data) == crc, data


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_length(variant):
    # From one byte over the widest loops to a few rounds of them, so that each way of ending is taken.
    data = random.Random(1).randbytes(70_000)
    lengths = [*range(1300), *range(3060, 3090), *range(6130, 6160), 9999, 65_535, 65_536, 70_000]
    for n in lengths:
        assert parsers.crc32c_by(variant, data[:n]) == google_crc32c.value(data[:n]), n


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_checksum_continues_another(variant):
    rng = random.Random(2)
    for _ in range(300):
        data = rng.randbytes(rng.choice([20, 300, 8000]))
        cut = rng.randrange(len(data) + 1)
        first = parsers.crc32c_by(variant, data[:cut])
        assert parsers.crc32c_by(variant, data[cut:], first) == google_crc32c.value(data)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n", [8, 100, 192, 256, 511, 3073])
def test_each_bit_counts(variant, n):
    data = bytearray(n)
    seen = {parsers.crc32c_by(variant, bytes(data))}
    for bit in range(8 * n):
        data[bit // 8] ^= 1 << bit % 8
        seen.add(parsers.crc32c_by(variant, bytes(data)))
        data[bit // 8] ^= 1 << bit % 8
    assert len(seen) == 8 * n + 1
