// Loops over a block of CSV text: where its fields and rows end, and a column of numbers at a time.
//
// index_plain() and count_plain() stop where text is no longer plain: at a quote, and after a carriage return that no line
// feed follows. Each kernel exists in C++ that every processor runs, and for AVX2; csv_kernels() chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queuecore/kernels/numbers.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

struct CsvDialect {
  Byte delim;
  Byte filler;      // no delimiter, quote or newline
  uint64_t quotes;  // all ones, or 0: a quote is a character like others
};

// What stands for a missing number.
struct CsvMissing {
  const Byte* na;  // such a field is missing, as an empty one is
  int64_t na_bytes;
  bool required;  // none may be missing
  uint64_t bits;  // the default
};

// Some fields of one column: number i lies at base + cuts[i * step], up to the byte before the next cut.
struct CsvFields {
  const Byte* lowest;  // from here on, memory may be read
  const Byte* base;
  const uint32_t* cuts;
  int64_t step;
  bool last;  // of its row: the byte before the cut may follow a carriage return
};

struct CsvKernels {
  // Cuts text into fields: cuts[0] is 0, and cuts[i] the byte after the i-th delimiter or newline. rows[i]: how many cuts
  // there are up to the end of row i. Ends with the text, or when there may be no `room` for more. Returns the rows.
  int64_t (*index_plain)(const CsvDialect* dialect, const Byte* text, int64_t nbytes, uint32_t* cuts, uint32_t* rows,
                         int64_t room);
  // Bytes of whole rows, of `most` at most.
  int64_t (*count_plain)(const CsvDialect* dialect, const Byte* text, int64_t nbytes, int64_t most, int64_t* rows);
  // n numbers; out: the first one's place. Return how many, less than n where one isn't valid or is missing.
  int64_t (*float32)(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out, int64_t stride);
  int64_t (*float64)(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out, int64_t stride);
  int64_t (*int32)(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out, int64_t stride);
  int64_t (*int64)(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out, int64_t stride);
};

inline bool is_missing(const Byte* p, int64_t n, const Byte* na, int64_t na_bytes) noexcept {
  return n == 0 || (n == na_bytes && std::memcmp(p, na, std::size_t(n)) == 0);
}

template <class Number>
inline bool parse_field(const Byte* p, const Byte* end, const CsvMissing* missing, Byte* out) noexcept {
  if (__builtin_expect(is_missing(p, end - p, missing->na, missing->na_bytes), 0)) {
    std::memcpy(out, &missing->bits, sizeof(Number));
    return !missing->required;
  }
  Number value;
  if (!parse_number(p, end, &value)) return false;
  std::memcpy(out, &value, sizeof value);
  return true;
}

// Of 64 bytes, a bit each.
struct CsvMarks {
  uint64_t delim, feed, carriage, quote;
};

// What both loops below know of 64 bytes, when they have looked where plain text ends in them.
struct CsvPlain {
  uint64_t newline, separator;
  bool stop;
};

namespace csv_anywhere {
#define QC_TARGET

// Which of eight bytes are c, a bit each.
inline uint64_t equal(uint64_t eight, Byte c) noexcept {
  constexpr uint64_t kOnes = 0x0101010101010101, kLow = 0x7f * kOnes;
  uint64_t differ = eight ^ (kOnes * c);
  uint64_t high = ~(((differ & kLow) + kLow) | differ | kLow);  // the highest bit of each byte that is equal
  return ((high >> 7) * 0x0102040810204080) >> 56;
}

inline CsvMarks marks_of(const Byte* p, Byte delim) noexcept {
  CsvMarks m{};
  for (int i = 0; i < 64; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, p + i, 8);
    m.delim |= equal(eight, delim) << i;
    m.feed |= equal(eight, '\n') << i;
    m.carriage |= equal(eight, '\r') << i;
    m.quote |= equal(eight, '"') << i;
  }
  return m;
}

#include "queuecore/kernels/csv_loops.hpp"

template <class Number>
int64_t column(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out, int64_t stride) noexcept {
  const uint32_t* cut = fields->cuts;
  for (int64_t i = 0; i < n; ++i, cut += fields->step, out += stride) {
    const Byte* p = fields->base + cut[0];
    const Byte* end = fields->base + cut[1] - 1;
    end -= fields->last && end > p && end[-1] == '\r';
    if (!parse_field<Number>(p, end, missing, out)) return i;
  }
  return n;
}

inline constexpr CsvKernels kKernels = {
    index_plain, count_plain, column<float>, column<double>, column<int32_t>, column<int64_t>,
};

#undef QC_TARGET
}  // namespace csv_anywhere

#if defined(__x86_64__)
namespace csv_avx2 {
#define QC_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))

QC_TARGET inline uint64_t equal(__m256i low, __m256i high, Byte c) noexcept {
  __m256i wanted = _mm256_set1_epi8(char(c));
  return uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted))) |
         uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)))) << 32;
}

QC_TARGET inline CsvMarks marks_of(const Byte* p, Byte delim) noexcept {
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  return {equal(low, high, delim), equal(low, high, '\n'), equal(low, high, '\r'), equal(low, high, '"')};
}

#include "queuecore/kernels/csv_loops.hpp"

// Loaded from byte n on: the last n of 16 bytes are ones.
alignas(64) inline constexpr Byte kLastBytes[32] = {0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                                                    0,    0,    0,    0,    0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// Row i closes the gap of byte i: what is before it moves up by one. Row 16: nothing moves.
struct CloseGap {
  Byte row[17][16];
};

constexpr CloseGap close_gap() {
  CloseGap table{};
  for (int gap = 0; gap < 17; ++gap) {
    for (int i = 0; i < 16; ++i) {
      table.row[gap][i] = Byte(gap == 16 || i > gap ? i : (i == 0 ? 0x80 : i - 1));
    }
  }
  return table;
}

alignas(64) inline constexpr CloseGap kCloseGap = close_gap();

// Up to 16 characters before `end`: an optional minus, digits, a point somewhere between, behind or before them.
// False: it is something else. *fraction: how many of the digits follow the point.
QC_TARGET inline bool short_number(const Byte* end, unsigned length, bool negative, uint64_t* digits,
                                   unsigned* fraction) noexcept {
  __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(end - 16));
  __m128i value = _mm_sub_epi8(text, _mm_set1_epi8('0'));
  unsigned is_digit = unsigned(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value)));
  length -= negative;
  unsigned others = ~is_digit & (0xffffu << (16 - length)) & 0xffff;
  unsigned point = 16;
  *fraction = 0;
  if (others != 0) {
    point = unsigned(__builtin_ctz(others));
    *fraction = 15 - point;
    --length;
    if ((others & (others - 1)) != 0 || end[int(point) - 16] != '.') return false;
    value = _mm_and_si128(value, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kLastBytes + length + 1)));
  } else {
    value = _mm_and_si128(value, _mm_loadu_si128(reinterpret_cast<const __m128i*>(kLastBytes + length)));
  }
  if (length == 0) return false;
  value = _mm_shuffle_epi8(value, _mm_load_si128(reinterpret_cast<const __m128i*>(kCloseGap.row[point])));
  value = _mm_maddubs_epi16(value, _mm_set1_epi16(10 | 1 << 8));
  value = _mm_madd_epi16(value, _mm_set1_epi32(100 | 1 << 16));
  value = _mm_packus_epi32(value, value);
  value = _mm_madd_epi16(value, _mm_set1_epi32(10000 | 1 << 16));
  uint64_t halves = uint64_t(_mm_cvtsi128_si64(value));
  *digits = (halves & 0xffffffff) * 100000000 + (halves >> 32);
  return true;
}

inline bool finish(uint64_t digits, unsigned fraction, bool negative, double* out) noexcept {
  double x = double(int64_t(digits)) / kTens[fraction];
  *out = negative ? -x : x;
  return digits <= uint64_t(1) << 53;
}

inline bool finish(uint64_t digits, unsigned fraction, bool negative, float* out) noexcept {
  double x;
  bool exact = finish(digits, fraction, negative, &x);
  return narrow(x, out) && exact;
}

template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
inline bool finish(uint64_t digits, unsigned, bool negative, Integer* out) noexcept {
  *out = Integer(negative ? 0 - digits : digits);
  return digits <= uint64_t(std::numeric_limits<Integer>::max());
}

template <class Number>
QC_TARGET int64_t column(const CsvFields* fields, const CsvMissing* missing, int64_t n, Byte* out,
                         int64_t stride) noexcept {
  const CsvFields f = *fields;
  const Byte* na = missing->na;
  const uint64_t na_bytes = missing->na_bytes > 0 ? uint64_t(missing->na_bytes) : ~uint64_t(0);
  const uint32_t* cut = f.cuts;
  for (int64_t i = 0; i < n; ++i, cut += f.step, out += stride) {
    const Byte* p = f.base + cut[0];
    const Byte* end = f.base + cut[1] - 1;
    end -= f.last && end > p && end[-1] == '\r';
    uint64_t length = uint64_t(end - p), digits;
    if (__builtin_expect(
            length - 1 < 16 && end - f.lowest >= 16 && (length != na_bytes || std::memcmp(p, na, length) != 0), 1)) {
      bool negative = *p == '-';
      unsigned fraction;
      Number value;
      if (__builtin_expect(short_number(end, unsigned(length), negative, &digits, &fraction) &&
                               (std::is_floating_point_v<Number> || end[-1 - int(fraction)] != '.') &&
                               finish(digits, fraction, negative, &value),
                           1)) {
        std::memcpy(out, &value, sizeof value);
        continue;
      }
    }
    if (!parse_field<Number>(p, end, missing, out)) return i;
  }
  return n;
}

inline constexpr CsvKernels kKernels = {
    index_plain, count_plain, column<float>, column<double>, column<int32_t>, column<int64_t>,
};

#undef QC_TARGET
}  // namespace csv_avx2
#endif

// The fastest kernels of this processor, up to a level: 0 for those of every processor, 1 for AVX2. Null: it has no such.
inline const CsvKernels* csv_kernels(int level) noexcept {
#if defined(__x86_64__)
  if (level == 1) {
    bool there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                 __builtin_cpu_supports("popcnt");
    return there ? &csv_avx2::kKernels : nullptr;
  }
#endif
  return level == 0 ? &csv_anywhere::kKernels : nullptr;
}

}  // namespace queuecore
