// CRC-32C (Castagnoli): the checksum of TFRecord files. Several ways to the same number; the fastest that this processor
// has is chosen at run time, so nothing here needs a -march flag.
//
// All functions are pure and may run in any thread. They read nothing but the n bytes they are given.
//
// Polynomials are reflected: bit i of a 32-bit value stands for x^(31 - i). Written so,
//   crc32(0, v) of a 64-bit v   is v x^32 mod P, and
//   the carry-less product of two 32-bit values, read as 64 bits, is their product times x.
// So crc32(0, clmul(a, power(w))) moves the checksum a over w words of zeros, with power(w) = x^(64 w - 33) mod P. And the
// product of a 64-bit half of a 128-bit block with a power, read as 128 bits, is their product times x^33, so that
// power(w) and power(w + 1) fold the high and the low half of a block over w words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace queuecore {

// Continues the checksum `crc` (0 at the start) over n bytes.
using Crc32cFn = uint32_t (*)(uint32_t crc, const unsigned char* p, std::size_t n);

struct Crc32cVariant {
  const char* name;
  Crc32cFn run;
  bool usable;  // on this processor
};

constexpr uint32_t kCrc32cPolynomial = 0x82F63B78u;
constexpr int kCrc32cLaneWords =
    128;  // 3 x 1 KiB: long enough to hide what joining costs, and in the first-level cache

struct Crc32cTables {
  uint32_t bytes[8][256];                     // [k][b]: the byte b followed by k zero bytes
  uint32_t powers[2 * kCrc32cLaneWords + 1];  // [w]: x^(64 w - 33) mod P
};

constexpr uint32_t crc32c_times_x(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kCrc32cPolynomial : 0); }

constexpr Crc32cTables crc32c_make_tables() {
  Crc32cTables t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t c = b;
    for (int i = 0; i < 8; ++i) c = crc32c_times_x(c);
    t.bytes[0][b] = c;
  }
  for (int k = 1; k < 8; ++k)
    for (int b = 0; b < 256; ++b) t.bytes[k][b] = (t.bytes[k - 1][b] >> 8) ^ t.bytes[0][t.bytes[k - 1][b] & 255];
  uint32_t c = 1;  // x^31
  for (int w = 1; w <= 2 * kCrc32cLaneWords; ++w) {
    t.powers[w] = c;
    for (int i = 0; i < 64; ++i) c = crc32c_times_x(c);
  }
  return t;
}

inline constexpr Crc32cTables kCrc32cTables = crc32c_make_tables();

inline uint64_t crc32c_word(const unsigned char* p) noexcept {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}

// Any processor: eight table look-ups for eight bytes, none of which waits for another.
inline uint32_t crc32c_table(uint32_t crc, const unsigned char* p, std::size_t n) noexcept {
  const auto& t = kCrc32cTables.bytes;
  uint32_t c = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v = crc32c_word(p) ^ c;
    c = t[7][v & 255] ^ t[6][v >> 8 & 255] ^ t[5][v >> 16 & 255] ^ t[4][v >> 24 & 255] ^ t[3][v >> 32 & 255] ^
        t[2][v >> 40 & 255] ^ t[1][v >> 48 & 255] ^ t[0][v >> 56];
  }
  for (; n > 0; ++p, --n) c = (c >> 8) ^ t[0][(c ^ *p) & 255];
  return ~c;
}

// The processor's own instruction for this polynomial, and its carry-less product.
#if defined(__x86_64__)
#define QUEUECORE_CRC32C __attribute__((target("sse4.2")))
#define QUEUECORE_CRC32C_CLMUL __attribute__((target("sse4.2,pclmul")))

QUEUECORE_CRC32C inline uint32_t crc32c_step8(uint32_t c, uint64_t v) noexcept { return uint32_t(_mm_crc32_u64(c, v)); }
QUEUECORE_CRC32C inline uint32_t crc32c_step1(uint32_t c, unsigned char b) noexcept { return _mm_crc32_u8(c, b); }

QUEUECORE_CRC32C_CLMUL inline uint64_t crc32c_clmul(uint32_t a, uint32_t b) noexcept {
  return uint64_t(
      _mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128(int32_t(a)), _mm_cvtsi32_si128(int32_t(b)), 0)));
}

inline bool crc32c_has_instruction() noexcept { return __builtin_cpu_supports("sse4.2"); }
inline bool crc32c_has_clmul() noexcept { return crc32c_has_instruction() && __builtin_cpu_supports("pclmul"); }
#elif defined(__aarch64__)
#define QUEUECORE_CRC32C __attribute__((target("+crc")))
#define QUEUECORE_CRC32C_CLMUL __attribute__((target("+crc+crypto")))

QUEUECORE_CRC32C inline uint32_t crc32c_step8(uint32_t c, uint64_t v) noexcept { return __crc32cd(c, v); }
QUEUECORE_CRC32C inline uint32_t crc32c_step1(uint32_t c, unsigned char b) noexcept { return __crc32cb(c, b); }

QUEUECORE_CRC32C_CLMUL inline uint64_t crc32c_clmul(uint32_t a, uint32_t b) noexcept {
  return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64(poly64_t(a), poly64_t(b))), 0);
}

inline bool crc32c_has_instruction() noexcept { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
inline bool crc32c_has_clmul() noexcept { return crc32c_has_instruction() && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0; }
#endif

#ifdef QUEUECORE_CRC32C
// Continues over the end of a buffer, or over a short buffer. `c` is inverted, as the instruction wants it.
QUEUECORE_CRC32C inline uint32_t crc32c_rest(uint32_t c, const unsigned char* p, std::size_t n) noexcept {
  for (; n >= 8; p += 8, n -= 8) c = crc32c_step8(c, crc32c_word(p));
  for (; n > 0; ++p, --n) c = crc32c_step1(c, *p);
  return c;
}

QUEUECORE_CRC32C inline uint32_t crc32c_instruction(uint32_t crc, const unsigned char* p, std::size_t n) noexcept {
  return ~crc32c_rest(~crc, p, n);
}

// The result of an instruction takes three cycles, but another instruction can begin in each: so three lanes are computed
// side by side, and each is then moved over the words after it.
QUEUECORE_CRC32C_CLMUL inline uint32_t crc32c_lanes(uint32_t crc, const unsigned char* p, std::size_t n) noexcept {
  uint32_t c = ~crc;
  while (n >= 192) {
    std::size_t words = n / 24 < kCrc32cLaneWords ? n / 24 : kCrc32cLaneWords;
    const unsigned char *q = p + 8 * words, *r = q + 8 * words;
    uint32_t d = 0, e = 0;
    for (std::size_t i = 0; i < 8 * words; i += 8) {
      c = crc32c_step8(c, crc32c_word(p + i));
      d = crc32c_step8(d, crc32c_word(q + i));
      e = crc32c_step8(e, crc32c_word(r + i));
    }
    const uint32_t* powers = kCrc32cTables.powers;
    c = crc32c_step8(0, crc32c_clmul(c, powers[2 * words]) ^ crc32c_clmul(d, powers[words])) ^ e;
    p += 24 * words;
    n -= 24 * words;
  }
  return ~crc32c_rest(c, p, n);
}
#endif

#if defined(__x86_64__)
#define QUEUECORE_CRC32C_WIDE __attribute__((target("sse4.2,pclmul,avx512f,avx512vl,vpclmulqdq")))

QUEUECORE_CRC32C_WIDE inline __m512i crc32c_fold4(__m512i x, __m512i k, __m512i next) noexcept {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), next,
                                   0x96);  // exclusive or of all three
}

QUEUECORE_CRC32C_WIDE inline __m128i crc32c_fold1(__m128i x, __m128i k, __m128i next) noexcept {
  return _mm_ternarylogic_epi64(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11), next, 0x96);
}

// The constants that fold a block over so many words. They are set four times, not broadcast: GCC 12 warns of its own
// headers there.
QUEUECORE_CRC32C_WIDE inline __m512i crc32c_over4(int words) noexcept {
  int64_t high = kCrc32cTables.powers[words], low = kCrc32cTables.powers[words + 1];
  return _mm512_set4_epi64(high, low, high, low);
}

QUEUECORE_CRC32C_WIDE inline __m128i crc32c_over1(int words) noexcept {
  return _mm_set_epi64x(kCrc32cTables.powers[words], kCrc32cTables.powers[words + 1]);
}

// Folding: the remainder of 256 bytes, as sixteen blocks, is carried over the message, and reduced at its end.
QUEUECORE_CRC32C_WIDE inline uint32_t crc32c_wide(uint32_t crc, const unsigned char* p, std::size_t n) noexcept {
  if (n < 256) return crc32c_lanes(crc, p, n);
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128(int32_t(~crc))));
  __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
  __m512i k = crc32c_over4(32);
  for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
    a = crc32c_fold4(a, k, _mm512_loadu_si512(p));
    b = crc32c_fold4(b, k, _mm512_loadu_si512(p + 64));
    c = crc32c_fold4(c, k, _mm512_loadu_si512(p + 128));
    d = crc32c_fold4(d, k, _mm512_loadu_si512(p + 192));
  }
  k = crc32c_over4(8);
  a = crc32c_fold4(crc32c_fold4(crc32c_fold4(a, k, b), k, c), k, d);
  for (; n >= 64; p += 64, n -= 64) a = crc32c_fold4(a, k, _mm512_loadu_si512(p));
  __m128i parts[4], one = crc32c_over1(2);  // through memory, for the same reason
  std::memcpy(parts, &a, sizeof parts);
  __m128i e = parts[0];
  for (int i = 1; i < 4; ++i) e = crc32c_fold1(e, one, parts[i]);
  for (; n >= 16; p += 16, n -= 16) e = crc32c_fold1(e, one, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  uint32_t rest = crc32c_step8(0, uint64_t(_mm_cvtsi128_si64(e)));
  rest = crc32c_step8(rest, uint64_t(_mm_extract_epi64(e, 1)));
  return ~crc32c_rest(rest, p, n);
}

inline bool crc32c_has_wide() noexcept {
  return crc32c_has_clmul() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq");
}
#endif

// Number `i` of the ways to compute it, the slowest first; name is null past the last one.
inline Crc32cVariant crc32c_variant(int i) noexcept {
  const Crc32cVariant all[] = {
      {"table", crc32c_table, true},
#ifdef QUEUECORE_CRC32C
      {"instruction", crc32c_instruction, crc32c_has_instruction()},
      {"lanes", crc32c_lanes, crc32c_has_clmul()},
#endif
#if defined(__x86_64__)
      {"wide", crc32c_wide, crc32c_has_wide()},
#endif
  };
  if (i < 0 || i >= int(sizeof all / sizeof all[0])) return {nullptr, nullptr, false};
  return all[i];
}

// Returns the fastest way that this processor can run.
inline Crc32cFn crc32c_best() noexcept {
  Crc32cFn best = crc32c_table;
  for (int i = 0; crc32c_variant(i).name != nullptr; ++i)
    if (crc32c_variant(i).usable) best = crc32c_variant(i).run;
  return best;
}

}  // namespace queuecore
