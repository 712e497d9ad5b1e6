# A permutation of the numbers from 0 to count - 1, drawn at random, that needs no memory for them: its k-th number is
# computed. No shared state: a cipher belongs to its holder.
#
# The order is ours: a Feistel cipher on pairs of numbers below a and b, whose results beyond the count are enciphered
# again (Black and Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002), with Philox as the round function.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from queuecore._core.atoms.random cimport philox_block

cdef struct Cipher:
    int64_t count
    int64_t sides[2]
    uint64_t key[2]
    int32_t rounds


cdef inline void cipher_init(Cipher* c, uint64_t seed_lo, uint64_t seed_hi, int64_t iteration,
                             int64_t count) noexcept nogil:
    # Sides a and b with a * b just above the count.
    cdef uint32_t draws[4]
    cdef int64_t a = 2
    cdef uint64_t root = 0, bit = <uint64_t>1 << 31
    while bit > 0:
        if (root | bit) * (root | bit) <= <uint64_t>count:
            root |= bit
        bit >>= 1
    if root > 2:  # even: with two odd sides only even permutations would come out
        a = <int64_t>(root + (root & 1))
    c.count = count
    c.sides[0] = a
    c.sides[1] = (count + a - 1) // a if count > 0 else 1
    philox_block(seed_lo, <uint64_t>iteration, seed_hi, draws)
    c.key[0] = <uint64_t>draws[1] << 32 | draws[0]
    c.key[1] = <uint64_t>draws[3] << 32 | draws[2]
    c.rounds = 8 if count >= 4096 else 16  # a small cipher mixes more slowly, and costs little


cdef inline int64_t cipher_at(const Cipher* c, int64_t k) noexcept nogil:
    cdef uint32_t draws[4]
    cdef int64_t half[2]
    cdef uint64_t number
    cdef int32_t j, side
    # The loop ends: it follows the cycle of k, and k itself lies below the count. It mostly takes one step, because a *
    # b is just above the count.
    while True:
        half[0] = k % c.sides[0]
        half[1] = k // c.sides[0]
        for j in range(c.rounds):
            side = j & 1
            philox_block(c.key[0], <uint64_t>half[1 - side], c.key[1] + <uint64_t>j, draws)
            number = <uint64_t>draws[1] << 31 | draws[0] >> 1
            half[side] = <int64_t>((<uint64_t>half[side] + number) % <uint64_t>c.sides[side])
        k = half[1] * c.sides[0] + half[0]
        if k < c.count:
            return k
