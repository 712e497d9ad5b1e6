// Loops over a block of CSV text: they find the ends of fields and rows, and parse a column of numbers at a time.
//
// index_plain() and count_plain() stop where text is no longer plain: at a quote, and after a carriage return that no line
// feed follows. Each kernel exists in C++ that every processor runs, and for AVX2; csv_kernels() chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queuecore/csv.hpp"
#include "queuecore/kernels/bytes.hpp"
#include "queuecore/kernels/numbers.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

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

// Marks of 64 bytes, a bit for each byte.
struct CsvMarks {
  uint64_t delim, feed, carriage, quote;
};

// The facts that both loops below have of 64 bytes after the search for the end of plain text.
struct CsvPlain {
  uint64_t newline, separator;
  bool stop;
};

namespace csv_anywhere {
#define QC_TARGET

inline CsvMarks marks_of(const Byte* p, Byte delim) noexcept {
  CsvMarks m{};
  for (int i = 0; i < 64; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, p + i, 8);
    m.delim |= equal_bits(eight, delim) << i;
    m.feed |= equal_bits(eight, '\n') << i;
    m.carriage |= equal_bits(eight, '\r') << i;
    m.quote |= equal_bits(eight, '"') << i;
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

QC_TARGET inline CsvMarks marks_of(const Byte* p, Byte delim) noexcept {
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  return {equal_bits(low, high, delim), equal_bits(low, high, '\n'), equal_bits(low, high, '\r'),
          equal_bits(low, high, '"')};
}

#include "queuecore/kernels/csv_loops.hpp"

// Loaded from byte n on: the last n of 16 bytes are ones.
alignas(64) inline constexpr Byte kLastBytes[32] = {0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                                                    0,    0,    0,    0,    0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// Row i closes the gap of byte i: the bytes before it move up by one. Row 16: no byte moves.
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

// The value of sixteen bytes 0 to 9.
QC_TARGET __attribute__((always_inline)) inline uint64_t sixteen_digits(__m128i value) noexcept {
  value = _mm_maddubs_epi16(value, _mm_set1_epi16(10 | 1 << 8));
  value = _mm_madd_epi16(value, _mm_set1_epi32(100 | 1 << 16));
  value = _mm_packus_epi32(value, value);
  value = _mm_madd_epi16(value, _mm_set1_epi32(10000 | 1 << 16));
  uint64_t halves = uint64_t(_mm_cvtsi128_si64(value));
  return (halves & 0xffffffff) * 100000000 + (halves >> 32);
}

QC_TARGET __attribute__((always_inline)) inline __m128i load(const Byte* p) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

// Returns a bit for each byte: 1 if it is 0 to 9.
QC_TARGET __attribute__((always_inline)) inline unsigned digits_of(__m128i value) noexcept {
  return unsigned(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(value, _mm_set1_epi8(9)), value)));
}

// Digits with at most one point between, behind or before them.
struct Digits {
  uint64_t value;
  int fraction;  // number of digits after the point
  bool point;
};

// Parses up to 16 characters before `end`. False: they are no such digits.
QC_TARGET __attribute__((always_inline)) inline bool short_number(const Byte* end, unsigned length,
                                                                  Digits* d) noexcept {
  __m128i value = _mm_sub_epi8(load(end - 16), _mm_set1_epi8('0'));
  unsigned others = ~digits_of(value) & (0xffffu << (16 - length)) & 0xffff;
  unsigned gap = 16;
  d->point = others != 0;
  d->fraction = 0;
  value = _mm_and_si128(value, load(kLastBytes + length));
  if (d->point) {
    gap = unsigned(__builtin_ctz(others));
    d->fraction = int(15 - gap);
    if ((others & (others - 1)) != 0 || end[int(gap) - 16] != '.') return false;
  }
  d->value = sixteen_digits(_mm_shuffle_epi8(value, load(kCloseGap.row[gap])));
  return length > d->point;
}

// Parses 16 to 32 characters before `end`, if these are no more than 19 digits after zeros.
QC_TARGET __attribute__((always_inline)) inline bool long_number(const Byte* end, unsigned length, Digits* d) noexcept {
  __m128i low = _mm_sub_epi8(load(end - 16), _mm_set1_epi8('0'));
  __m128i high = _mm_sub_epi8(load(end - 32), _mm_set1_epi8('0'));
  unsigned others = ~(digits_of(low) << 16 | digits_of(high)) & (0xffffffffu << (32 - length));
  uint64_t place = 10000000000000000;  // of the last digit in `high`
  d->point = others != 0;
  d->fraction = 0;
  high = _mm_and_si128(high, load(kLastBytes + length - 16));
  if (d->point) {
    unsigned gap = unsigned(__builtin_ctz(others));
    d->fraction = int(31 - gap);
    if ((others & (others - 1)) != 0 || end[int(gap) - 32] != '.') return false;
    if (gap >= 16) {
      low = _mm_shuffle_epi8(low, load(kCloseGap.row[gap - 16]));
      place /= 10;
    } else {
      high = _mm_shuffle_epi8(high, load(kCloseGap.row[gap]));
    }
  }
  uint64_t first = sixteen_digits(high);
  d->value = first * place + sixteen_digits(low);
  return first < uint64_t(10000000000000000000u) / place;
}

// A function of its own, since inlined it would take registers of the loop.
template <class Real>
__attribute__((noinline)) Real round_apart(uint64_t digits, int64_t ten, bool negative) noexcept {
  return from_bits<Real>(round_decimal<Real>(digits, ten), negative);
}

// Parses a number in the form of most files: an optional minus, up to 19 digits, and for a float a point and e+12 or e-12.
// False: it has another form.
template <class Number>
QC_TARGET __attribute__((always_inline)) inline bool usual_number(const Byte* lowest, const Byte* p, const Byte* end,
                                                                  Number* out) noexcept {
  bool negative = *p == '-';
  int64_t length = end - p - negative, ten = 0;
  Digits d;
  if (end - lowest < 32) return false;
  if constexpr (std::is_floating_point_v<Number>) {
    if (__builtin_expect((end[-4] | 32) == 'e', 0) && length > 4 && (end[-3] == '-' || end[-3] == '+') &&
        is_digit(end[-2]) && is_digit(end[-1])) {
      ten = 10 * (end[-2] - '0') + (end[-1] - '0');
      ten = end[-3] == '-' ? -ten : ten;
      end -= 4;
      length -= 4;
    }
  }
  if (__builtin_expect(length <= 16, 1)) {
    if (!short_number(end, unsigned(length), &d)) return false;
  } else if (length <= 32 && end - lowest >= 32) {
    if (!long_number(end, unsigned(length), &d)) return false;
  } else {
    return false;
  }
  if constexpr (std::is_floating_point_v<Number>) {
    ten -= d.fraction;
    if (d.value <= uint64_t(1) << 53 && ten >= -kExactTens && ten <= kExactTens) {
      double x = double(int64_t(d.value));
      x = ten > 0 ? x * kTens[ten] : x / kTens[-ten];
      if (narrow(negative ? -x : x, out)) return true;
    }
    *out = round_apart<Number>(d.value, ten, negative);
    return true;
  } else {
    *out = Number(negative ? 0 - d.value : d.value);
    return !d.point && d.value <= uint64_t(std::numeric_limits<Number>::max());
  }
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
    uint64_t length = uint64_t(end - p);
    Number value;
    if (__builtin_expect(length != 0 && (length != na_bytes || std::memcmp(p, na, length) != 0) &&
                             usual_number(f.lowest, p, end, &value),
                         1)) {
      std::memcpy(out, &value, sizeof value);
      continue;
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

// Returns the fastest kernels of this processor, up to a level: 0 for those of every processor, 1 for AVX2. Null: this
// processor can't run that level.
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
