"""Arrays of random numbers: bits, normally distributed floats and orders, from the generator in random.pxd.

All but those of `permute` and `permutation` equal the numbers of TensorFlow's CPU kernels for the same seeds, at the
same place in the stream.
"""

from libc.math cimport cos, cosf, fabs, fabsf, log, logf, sin, sinf, sqrt, sqrtf
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from queuecore._core.atoms.cipher cimport Cipher, cipher_at, cipher_init
from queuecore._core.atoms.random cimport Philox, philox_block, philox_next, philox_seed

cdef enum:
    # A truncated draw may take any number of blocks, so each output has this many numbers of its own.
    SPARE = 256

cdef double LEAST = 1.0e-7
cdef double PI2 = 6.283185307179586


cdef inline float _float(uint32_t word) noexcept nogil:
    # In [0, 1): 23 bits behind the point of a number in [1, 2).
    cdef uint32_t bits = (word & 0x7fffff) | <uint32_t>127 << 23
    cdef float made
    memcpy(&made, &bits, 4)
    return made - <float>1.0


cdef inline double _double(uint32_t high, uint32_t low) noexcept nogil:
    cdef uint64_t bits = <uint64_t>(high & 0xfffff) << 32 | low | <uint64_t>1023 << 52
    cdef double made
    memcpy(&made, &bits, 8)
    return made - 1.0


cdef inline void _normal_floats(uint32_t a, uint32_t b, float* pair) noexcept nogil:
    # Box and Muller: "A note on the generation of random normal deviates", 1958.
    cdef float first = _float(a), radius
    cdef float angle = <float>(PI2 * _float(b))
    if first < <float>LEAST:
        first = <float>LEAST
    radius = sqrtf(<float>-2.0 * logf(first))
    pair[0] = sinf(angle) * radius
    pair[1] = cosf(angle) * radius


cdef inline void _normal_doubles(uint32_t a, uint32_t b, uint32_t c, uint32_t d, double* pair) noexcept nogil:
    cdef double first = _double(a, b), radius
    cdef double angle = PI2 * _double(c, d)
    if first < LEAST:
        first = LEAST
    radius = sqrt(-2.0 * log(first))
    pair[0] = sin(angle) * radius
    pair[1] = cos(angle) * radius


def bits(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, uint32_t[::1] out not None):
    """Fill `out` with the generator's 32-bit numbers, from the given block of four on, without the GIL."""
    cdef int64_t index = 0, n = out.shape[0]
    cdef uint32_t* to = &out[0] if n > 0 else NULL
    cdef uint32_t draws[4]
    cdef int i
    with nogil:
        while index < n:
            philox_block(seed_lo, block, seed_hi, draws)
            block += 1
            for i in range(4):
                if index < n:
                    to[index] = draws[i]
                    index += 1


def normal_floats(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, float[::1] out not None):
    """Fill `out` with normally distributed numbers from a block on, without the GIL."""
    cdef int64_t index = 0, n = out.shape[0]
    cdef float* to = &out[0] if n > 0 else NULL
    cdef uint32_t draws[4]
    cdef float numbers[4]
    cdef int i
    with nogil:
        while index < n:
            philox_block(seed_lo, block, seed_hi, draws)
            block += 1
            _normal_floats(draws[0], draws[1], &numbers[0])
            _normal_floats(draws[2], draws[3], &numbers[2])
            for i in range(4):
                if index < n:
                    to[index] = numbers[i]
                    index += 1


def normal_doubles(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, double[::1] out not None):
    """Fill `out` with normally distributed numbers from a block on, without the GIL."""
    cdef int64_t index = 0, n = out.shape[0]
    cdef double* to = &out[0] if n > 0 else NULL
    cdef uint32_t draws[4]
    cdef double numbers[2]
    cdef int i
    with nogil:
        while index < n:
            philox_block(seed_lo, block, seed_hi, draws)
            block += 1
            _normal_doubles(draws[0], draws[1], draws[2], draws[3], numbers)
            for i in range(2):
                if index < n:
                    to[index] = numbers[i]
                    index += 1


def truncated_floats(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, float[::1] out not None):
    """Fill `out` with normally distributed numbers between -2 and 2 from a block on, without the GIL."""
    cdef int64_t index = 0, n = out.shape[0]
    cdef float* to = &out[0] if n > 0 else NULL
    cdef uint64_t counter
    cdef uint32_t draws[4]
    cdef float numbers[4]
    cdef int i, count
    with nogil:
        while index < n:  # four outputs, and the numbers reserved for them
            counter = block
            block += SPARE
            count = 0
            while count < 4:
                philox_block(seed_lo, counter, seed_hi, draws)
                counter += 1
                _normal_floats(draws[0], draws[1], &numbers[0])
                _normal_floats(draws[2], draws[3], &numbers[2])
                for i in range(4):
                    if count < 4 and fabsf(numbers[i]) < <float>2.0:
                        count += 1
                        if index < n:
                            to[index] = numbers[i]
                            index += 1


def truncated_doubles(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, double[::1] out not None):
    """Fill `out` with normally distributed numbers between -2 and 2 from a block on, without the GIL."""
    cdef int64_t index = 0, n = out.shape[0]
    cdef double* to = &out[0] if n > 0 else NULL
    cdef uint64_t counter
    cdef uint32_t draws[4]
    cdef double numbers[2]
    cdef int i, count
    with nogil:
        while index < n:
            counter = block
            block += SPARE // 2
            count = 0
            while count < 2:
                philox_block(seed_lo, counter, seed_hi, draws)
                counter += 1
                _normal_doubles(draws[0], draws[1], draws[2], draws[3], numbers)
                for i in range(2):
                    if count < 2 and fabs(numbers[i]) < 2.0:
                        count += 1
                        if index < n:
                            to[index] = numbers[i]
                            index += 1


def shuffle(uint64_t seed_lo, uint64_t seed_hi, uint64_t block, int64_t[::1] out not None):
    """Fill `out` with a permutation of its places, without the GIL: each is swapped with itself or a later one."""
    cdef int64_t i, j, n = out.shape[0]
    cdef int64_t* to = &out[0] if n > 0 else NULL
    cdef uint32_t draws[4]
    with nogil:
        for i in range(n):
            to[i] = i
        for i in range(n - 1):
            if i % 4 == 0:
                philox_block(seed_lo, block, seed_hi, draws)
                block += 1
            j = i + <int64_t>(draws[i % 4] % <uint32_t>(n - i))
            to[i], to[j] = to[j], to[i]


def permutation(uint64_t seed_lo, uint64_t seed_hi, int64_t iteration, int64_t count, int64_t start, int64_t stop):
    """Return places `start` to `stop` of the permutation of `count` numbers from these seeds, as a list of int."""
    cdef Cipher c
    if not 0 <= start <= stop <= count <= <int64_t>1 << 62:
        raise ValueError("0 <= start <= stop <= count <= 2**62")
    cipher_init(&c, seed_lo, seed_hi, iteration, count)
    return [cipher_at(&c, k) for k in range(start, stop)]


def permute(
    uint64_t seed_lo, uint64_t seed_hi, int64_t iteration, int64_t count, int64_t start, int64_t[::1] out not None
):
    """Fill `out` with the permutation of `count` numbers from these seeds, from place `start` on, without the GIL."""
    cdef Cipher c
    cdef int64_t k, n = out.shape[0]
    cdef int64_t* places = &out[0] if n > 0 else NULL
    if not 0 <= start <= count <= <int64_t>1 << 62 or n > count - start:
        raise ValueError("0 <= start <= start + len(out) <= count <= 2**62")
    with nogil:
        cipher_init(&c, seed_lo, seed_hi, iteration, count)
        for k in range(n):
            places[k] = cipher_at(&c, start + k)


def philox_draws(uint64_t lo, uint64_t hi, int n):
    """Return the first `n` 32-bit outputs of the generator with the seed pair (lo, hi), as a list of int."""
    cdef Philox p
    philox_seed(&p, lo, hi)
    return [philox_next(&p) for _ in range(n)]
