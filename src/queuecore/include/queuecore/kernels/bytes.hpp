// Compares bytes with one byte: a bit for each that is equal, the first byte's the lowest.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

using Byte = unsigned char;

inline uint64_t equal_bits(uint64_t eight, Byte c) noexcept {
  constexpr uint64_t kOnes = 0x0101010101010101, kLow = 0x7f * kOnes;
  uint64_t differ = eight ^ (kOnes * c);
  uint64_t high = ~(((differ & kLow) + kLow) | differ | kLow);  // the highest bit of each byte that is equal
  return ((high >> 7) * 0x0102040810204080) >> 56;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) inline uint64_t equal_bits(__m256i low, __m256i high, Byte c) noexcept {
  __m256i wanted = _mm256_set1_epi8(char(c));
  return uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted))) |
         uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)))) << 32;
}
#endif

}  // namespace queuecore
