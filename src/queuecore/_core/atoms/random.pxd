# Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11), with
# TensorFlow's layout of key and counter. No shared state: a generator belongs to its holder.
from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef enum:
    DRAWS = 256

cdef struct Philox:
    uint32_t key[2]
    uint32_t counter[4]
    uint32_t draws[DRAWS]
    int32_t used         # draws already used; DRAWS: all


cdef inline void philox_seed(Philox* p, uint64_t lo, uint64_t hi) noexcept nogil:
    p.key[0] = <uint32_t>lo
    p.key[1] = <uint32_t>(lo >> 32)
    p.counter[0] = 0
    p.counter[1] = 0
    p.counter[2] = <uint32_t>hi
    p.counter[3] = <uint32_t>(hi >> 32)
    p.used = DRAWS


cdef inline void philox_jump(Philox* p, uint64_t blocks) noexcept nogil:
    # The counter's low half: 2^64 blocks are more than any run draws.
    cdef uint64_t low = (<uint64_t>p.counter[1] << 32 | p.counter[0]) + blocks
    p.counter[0] = <uint32_t>low
    p.counter[1] = <uint32_t>(low >> 32)
    p.used = DRAWS


cdef inline void philox_refill(Philox* p) noexcept nogil:
    # Eight blocks side by side, so that the rounds' multiplications overlap.
    cdef uint32_t w0[8]
    cdef uint32_t w1[8]
    cdef uint32_t w2[8]
    cdef uint32_t w3[8]
    cdef uint32_t k0, k1, t
    cdef uint64_t m0, m2, low
    cdef int i, _r, block
    low = <uint64_t>p.counter[1] << 32 | p.counter[0]
    for block in range(0, DRAWS // 4, 8):
        for i in range(8):
            w0[i] = <uint32_t>low
            w1[i] = <uint32_t>(low >> 32)
            w2[i] = p.counter[2]
            w3[i] = p.counter[3]
            low += 1
        k0 = p.key[0]
        k1 = p.key[1]
        for _r in range(10):
            for i in range(8):
                m0 = <uint64_t>0xD2511F53u * w0[i]
                m2 = <uint64_t>0xCD9E8D57u * w2[i]
                t = <uint32_t>(m2 >> 32) ^ w1[i] ^ k0
                w1[i] = <uint32_t>m2
                w2[i] = <uint32_t>(m0 >> 32) ^ w3[i] ^ k1
                w3[i] = <uint32_t>m0
                w0[i] = t
            k0 += 0x9E3779B9u
            k1 += 0xBB67AE85u
        for i in range(8):
            p.draws[(block + i) * 4] = w0[i]
            p.draws[(block + i) * 4 + 1] = w1[i]
            p.draws[(block + i) * 4 + 2] = w2[i]
            p.draws[(block + i) * 4 + 3] = w3[i]
    p.counter[0] = <uint32_t>low
    p.counter[1] = <uint32_t>(low >> 32)
    p.used = 0


cdef inline void philox_block(uint64_t key, uint64_t lo, uint64_t hi, uint32_t* draws) noexcept nogil:
    # Computes the four draws of a single block, for callers whose counter itself says what the draws are for.
    cdef uint32_t k0 = <uint32_t>key, k1 = <uint32_t>(key >> 32)
    cdef uint32_t w0 = <uint32_t>lo, w1 = <uint32_t>(lo >> 32), w2 = <uint32_t>hi, w3 = <uint32_t>(hi >> 32)
    cdef uint64_t m0, m2
    cdef int _r
    for _r in range(10):
        m0 = <uint64_t>0xD2511F53u * w0
        m2 = <uint64_t>0xCD9E8D57u * w2
        w0 = <uint32_t>(m2 >> 32) ^ w1 ^ k0
        w1 = <uint32_t>m2
        w2 = <uint32_t>(m0 >> 32) ^ w3 ^ k1
        w3 = <uint32_t>m0
        k0 += 0x9E3779B9u
        k1 += 0xBB67AE85u
    draws[0] = w0
    draws[1] = w1
    draws[2] = w2
    draws[3] = w3


cdef inline uint32_t philox_next(Philox* p) noexcept nogil:
    cdef uint32_t r
    if p.used == DRAWS:
        philox_refill(p)
    r = p.draws[p.used]
    p.used += 1
    return r
