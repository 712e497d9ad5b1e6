// Loops over numbers of one dtype: casts between any two, x * a + b, and strided copies. The compiler makes vectors of them; only
// half precision has loops of its own for processors with F16C. device.hpp has the cast of one item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "queuecore/kernels/device.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

using CastFn = void (*)(const void* source, void* target, int64_t n) noexcept;

template <class In, class Out>
void cast_loop(const void* source, void* target, int64_t n) noexcept {
  const In* in = static_cast<const In*>(source);
  Out* out = static_cast<Out*>(target);
  for (int64_t i = 0; i < n; i++) out[i] = converted<Out>(in[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) inline void cast_half_float_f16c(const void* source, void* target,
                                                                     int64_t n) noexcept {
  const Half* in = static_cast<const Half*>(source);
  float* out = static_cast<float*>(target);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < n; i++) out[i] = _cvtsh_ss(in[i].bits);
}

__attribute__((target("avx,f16c"))) inline void cast_float_half_f16c(const void* source, void* target,
                                                                     int64_t n) noexcept {
  const float* in = static_cast<const float*>(source);
  Half* out = static_cast<Half*>(target);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; i++) out[i].bits = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
}
#endif

// Dtypes by number: bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, float32, float64,
// bfloat16. The last one is converted through float32, as its NumPy dtype is.
constexpr int kNumberHalf = 9;
constexpr int kNumberFloat = 10;

template <class In>
CastFn cast_from(int out) noexcept {
  static constexpr CastFn loops[13] = {
      cast_loop<In, Bool>,     cast_loop<In, int8_t>,  cast_loop<In, uint8_t>,  cast_loop<In, int16_t>,
      cast_loop<In, uint16_t>, cast_loop<In, int32_t>, cast_loop<In, uint32_t>, cast_loop<In, int64_t>,
      cast_loop<In, uint64_t>, cast_loop<In, Half>,    cast_loop<In, float>,    cast_loop<In, double>,
      cast_loop<In, Brain>,
  };
  return loops[out];
}

inline CastFn cast_fn(int in, int out, bool portable) noexcept {
#if defined(__x86_64__)
  if (!portable && __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c")) {
    if (in == kNumberHalf && out == kNumberFloat) return cast_half_float_f16c;
    if (in == kNumberFloat && out == kNumberHalf) return cast_float_half_f16c;
  }
#else
  (void)portable;
#endif
  static constexpr CastFn (*from[13])(int) noexcept = {
      cast_from<Bool>,    cast_from<int8_t>,   cast_from<uint8_t>, cast_from<int16_t>,  cast_from<uint16_t>,
      cast_from<int32_t>, cast_from<uint32_t>, cast_from<int64_t>, cast_from<uint64_t>, cast_from<Half>,
      cast_from<float>,   cast_from<double>,   cast_from<Brain>,
  };
  return from[in](out);
}

// x * a + b, rounded twice, with one pair (a, b) for all items or one for each. target may be source.
template <class T>
void scale_all(const T* source, T* target, int64_t n, T a, T b) noexcept {
  for (int64_t i = 0; i < n; i++) target[i] = source[i] * a + b;
}

template <class T>
void scale_each(const T* source, T* target, int64_t n, const T* a, const T* b) noexcept {
  for (int64_t i = 0; i < n; i++) target[i] = source[i] * a[i] + b[i];
}

struct Item16 {
  uint64_t word[2];
};

// target[i, j] = source[i * row + j * column] for i < rows, j < columns.
template <class T>
void gather_items(const T* source, T* target, int64_t rows, int64_t columns, int64_t row, int64_t column) noexcept {
  if (columns < 16) {
    for (int64_t j = 0; j < columns; j++) {
      for (int64_t i = 0; i < rows; i++) target[i * columns + j] = source[i * row + j * column];
    }
    return;
  }
  // A cache line that was read for one row is still in the cache for the next row.
  for (int64_t first = 0; first < columns; first += 16) {
    int64_t last = columns - first > 16 ? first + 16 : columns;
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = first; j < last; j++) target[i * columns + j] = source[i * row + j * column];
    }
  }
}

// Three bytes to a pixel become three planes, and back: in a quarter of the time if the processor can shuffle bytes
// within a vector.
#define QC_LOOP inline __attribute__((always_inline))

QC_LOOP void split_loop(const uint8_t* __restrict source, uint8_t* __restrict first, uint8_t* __restrict second,
                        uint8_t* __restrict third, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i++) {
    first[i] = source[3 * i];
    second[i] = source[3 * i + 1];
    third[i] = source[3 * i + 2];
  }
}

QC_LOOP void join_loop(const uint8_t* __restrict first, const uint8_t* __restrict second,
                       const uint8_t* __restrict third, uint8_t* __restrict target, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i++) {
    target[3 * i] = first[i];
    target[3 * i + 1] = second[i];
    target[3 * i + 2] = third[i];
  }
}

#undef QC_LOOP

#if defined(__x86_64__)
__attribute__((target("ssse3"))) inline void split_ssse3(const uint8_t* source, uint8_t* first, uint8_t* second,
                                                         uint8_t* third, int64_t n) noexcept {
  split_loop(source, first, second, third, n);
}

__attribute__((target("ssse3"))) inline void join_ssse3(const uint8_t* first, const uint8_t* second,
                                                        const uint8_t* third, uint8_t* target, int64_t n) noexcept {
  join_loop(first, second, third, target, n);
}
#endif

inline void split_pixels(const uint8_t* source, uint8_t* first, uint8_t* second, uint8_t* third, int64_t n) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("ssse3")) return split_ssse3(source, first, second, third, n);
#endif
  split_loop(source, first, second, third, n);
}

inline void join_planes(const uint8_t* first, const uint8_t* second, const uint8_t* third, uint8_t* target,
                        int64_t n) noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("ssse3")) return join_ssse3(first, second, third, target, n);
#endif
  join_loop(first, second, third, target, n);
}

inline void gather(const void* source, void* target, int64_t rows, int64_t columns, int64_t row, int64_t column,
                   int32_t item) noexcept {
  switch (item) {
    case 1:
      if (columns == 3 && row == 1) {
        const uint8_t* first = static_cast<const uint8_t*>(source);
        join_planes(first, first + column, first + 2 * column, static_cast<uint8_t*>(target), rows);
        break;
      }
      gather_items(static_cast<const uint8_t*>(source), static_cast<uint8_t*>(target), rows, columns, row, column);
      break;
    case 2:
      gather_items(static_cast<const uint16_t*>(source), static_cast<uint16_t*>(target), rows, columns, row, column);
      break;
    case 4:
      gather_items(static_cast<const uint32_t*>(source), static_cast<uint32_t*>(target), rows, columns, row, column);
      break;
    case 8:
      gather_items(static_cast<const uint64_t*>(source), static_cast<uint64_t*>(target), rows, columns, row, column);
      break;
    default:
      gather_items(static_cast<const Item16*>(source), static_cast<Item16*>(target), rows, columns, row, column);
  }
}

// n items, each a copy of the one at `item`.
inline void fill_items(void* target, const void* item, int64_t n, int32_t size) noexcept {
  unsigned char* to = static_cast<unsigned char*>(target);
  if (size == 1) {
    std::memset(to, *static_cast<const unsigned char*>(item), std::size_t(n));
  } else if (size == 4) {
    for (int64_t i = 0; i < n; i++) std::memcpy(to + i * 4, item, 4);
  } else if (size == 8) {
    for (int64_t i = 0; i < n; i++) std::memcpy(to + i * 8, item, 8);
  } else {
    for (int64_t i = 0; i < n; i++) std::memcpy(to + i * size, item, std::size_t(size));
  }
}

}  // namespace queuecore
