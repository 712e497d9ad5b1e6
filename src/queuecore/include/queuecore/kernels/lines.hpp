// Lines of text: finding their ends, and copying their bytes side by side.
//
// An end is the offset of the byte after a newline: line i is from ends[i - 1] (line 0: from an offset that the caller
// gives) to ends[i], its newline included. Only LF ends a line; one CR before it belongs to the line's end, any other CR is
// a character. A text has less than 2^31 bytes, and may end inside a line: if that is a file's last one, the caller adds
// the end nbytes + 1, as if a newline followed, and the line, which must not be empty, is like any other.
//
// All functions are pure and may run in any thread. They read only the text, and write only to the places that they are
// given, and no byte beside them: so bytes that other threads write there at the same time stay. Each kernel exists in C++
// that every processor runs, for AVX2 and for AVX-512; lines_kernels() chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queuecore/kernels/bytes.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

struct LinesKernels {
  // Writes the first ends, at most `most`, for which `ends` must have room; the rest of that room may be overwritten.
  // Returns their number. Ends are written in groups: ask for thousands at once, and at least for some hundred.
  int64_t (*find)(const Byte* text, int64_t nbytes, uint32_t* ends, int64_t most);
  // Copies the bytes of n lines, the first from `begin` to ends[0], without their ends, to `values`. splits[i]: base plus
  // the bytes of lines 0 to i. Returns the bytes of all lines: no more than lines_most().
  int64_t (*gather)(const Byte* text, int64_t begin, const uint32_t* ends, int64_t n, Byte* values, int64_t base,
                    int64_t* splits);
};

// Counts newlines. The sums are bytes, so the compiler vectorises the loop on every processor.
inline int64_t lines_count(const Byte* text, int64_t nbytes) noexcept {
  int64_t count = 0, at = 0;
  for (; at + 128 <= nbytes; at += 128) {
    Byte some = 0;
    for (int i = 0; i < 128; ++i) some = Byte(some + (text[at + i] == '\n'));
    count += some;
  }
  for (; at < nbytes; ++at) count += text[at] == '\n';
  return count;
}

// Returns the bytes of n lines without their ends if no line ends with CR LF, which is the most that they can have.
inline int64_t lines_most(int64_t begin, const uint32_t* ends, int64_t n) noexcept {
  return n > 0 ? ends[n - 1] - begin - n : 0;
}

// Returns the bytes of a line without its end; the line has at least one byte, its newline.
inline int64_t line_bytes(const Byte* text, int64_t begin, int64_t end) noexcept {
  int64_t nbytes = end - begin - 1;
  // For an empty line this looks at the newline itself: there may be no byte before it.
  return nbytes - (text[end - 1 - (nbytes > 0)] == '\r');
}

namespace lines_anywhere {
#define QC_TARGET

inline uint64_t newlines(const Byte* p) noexcept {
  uint64_t marks = 0;
  for (int i = 0; i < 64; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, p + i, 8);
    marks |= equal_bits(eight, '\n') << i;
  }
  return marks;
}

inline int64_t write_ends(uint64_t marks, uint32_t at, uint32_t* ends) noexcept {
  int64_t count = 0;
  for (; marks != 0; marks &= marks - 1) ends[count++] = at + uint32_t(__builtin_ctzll(marks)) + 1;
  return count;
}

inline void copy64(Byte* to, const Byte* from) noexcept { std::memcpy(to, from, 64); }

#include "queuecore/kernels/lines_loops.hpp"

inline constexpr LinesKernels kKernels = {find, gather};

#undef QC_TARGET
}  // namespace lines_anywhere

#if defined(__x86_64__)
namespace lines_avx2 {
#define QC_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))

QC_TARGET inline uint64_t newlines(const Byte* p) noexcept {
  return equal_bits(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)), '\n');
}

// Writes the next four ends, of which those after the last one are meaningless: a branch on their number would be
// mispredicted.
QC_TARGET inline uint64_t write4(uint64_t marks, uint32_t next, uint32_t* ends) noexcept {
  for (int i = 0; i < 4; ++i) {
    ends[i] = next + uint32_t(_tzcnt_u64(marks));
    marks = _blsr_u64(marks);
  }
  return marks;
}

QC_TARGET inline int64_t write_ends(uint64_t marks, uint32_t at, uint32_t* ends) noexcept {
  int64_t count = __builtin_popcountll(marks);
  marks = write4(marks, at + 1, ends);
  if (count > 4) {
    marks = write4(marks, at + 1, ends + 4);
    for (int64_t i = 8; i < count; i += 4) marks = write4(marks, at + 1, ends + i);
  }
  return count;
}

QC_TARGET inline void copy64(Byte* to, const Byte* from) noexcept {
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), high);
}

#include "queuecore/kernels/lines_loops.hpp"

inline constexpr LinesKernels kKernels = {find, gather};

#undef QC_TARGET
}  // namespace lines_avx2

namespace lines_avx512 {
#define QC_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vbmi2")))

QC_TARGET inline uint64_t newlines(const Byte* p) noexcept {
  return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p), _mm512_set1_epi8('\n'));
}

QC_TARGET inline void write16(__m128i places, uint32_t at, uint32_t* ends) noexcept {
  _mm512_storeu_si512(ends,
                      _mm512_add_epi32(_mm512_maskz_cvtepu8_epi32(__mmask16(-1), places), _mm512_set1_epi32(int(at))));
}

// 1 to 64.
struct Places {
  Byte at[64];
};

constexpr Places places() {
  Places table{};
  for (int i = 0; i < 64; ++i) table.at[i] = Byte(i + 1);
  return table;
}

alignas(64) inline constexpr Places kPlaces = places();

// Writes sixteen ends at a time, of which those after the last one are meaningless.
QC_TARGET inline int64_t write_ends(uint64_t marks, uint32_t at, uint32_t* ends) noexcept {
  int64_t count = __builtin_popcountll(marks);
  __m512i places = _mm512_maskz_compress_epi8(marks, _mm512_load_si512(kPlaces.at));
  __m128i part[4];  // copied, not cast: GCC 12 warns of its own headers there
  std::memcpy(part, &places, sizeof part);
  write16(part[0], at, ends);
  if (__builtin_expect(count > 16, 0)) {
    for (int i = 1; i < 4; ++i) write16(part[i], at, ends + 16 * i);
  }
  return count;
}

using lines_avx2::copy64;  // 64 bytes at once gain nothing: mostly they lie in two cache lines

#include "queuecore/kernels/lines_loops.hpp"

inline constexpr LinesKernels kKernels = {find, gather};

#undef QC_TARGET
}  // namespace lines_avx512
#endif

// Returns the kernels of a level: 0 for every processor, 1 for AVX2, 2 for AVX-512 (VBMI2); -1: the fastest. Null: this
// processor can't run that level.
inline const LinesKernels* lines_kernels(int level) noexcept {
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("popcnt");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vbmi2");
  if (level == 2 || (level < 0 && avx512)) return avx512 ? &lines_avx512::kKernels : nullptr;
  if (level == 1 || (level < 0 && avx2)) return avx2 ? &lines_avx2::kKernels : nullptr;
#endif
  return level <= 0 ? &lines_anywhere::kKernels : nullptr;
}

}  // namespace queuecore
