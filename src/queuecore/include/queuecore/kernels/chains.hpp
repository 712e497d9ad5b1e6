// Chains of operations of float32 with constants: x * a + b, (x - a) / b and so on, of items that may be converted first.
//
// One pass over memory instead of one for each operation. With AVX2, 64 items at a time are converted and go through all
// links of the chain in registers. Elsewhere blocks that stay in the first-level cache go through them. Each operation is
// rounded as if it were alone, so the values are those of separate loops, NaNs included if no constant is one. The loops
// are pure. ExprStep (steps/expressions) runs them.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

// What a link does with an item x and its constant c.
enum LinkKind : int32_t { kAdd, kSubtract, kSubtractFrom, kMultiply, kDivide, kDivideInto };

struct ChainLink {
  int32_t kind;
  float constant;
};

using ChainFn = void (*)(const void* source, void* target, int64_t n, const ChainLink* links, int32_t count) noexcept;

inline void link_items(float* items, int64_t n, const ChainLink& link) noexcept {
  const float c = link.constant;
  switch (link.kind) {
    case kAdd:
      for (int64_t i = 0; i < n; i++) items[i] = items[i] + c;
      break;
    case kSubtract:
      for (int64_t i = 0; i < n; i++) items[i] = items[i] - c;
      break;
    case kSubtractFrom:
      for (int64_t i = 0; i < n; i++) items[i] = c - items[i];
      break;
    case kMultiply:
      for (int64_t i = 0; i < n; i++) items[i] = items[i] * c;
      break;
    case kDivide:
      for (int64_t i = 0; i < n; i++) items[i] = items[i] / c;
      break;
    default:
      for (int64_t i = 0; i < n; i++) items[i] = c / items[i];
  }
}

template <class In>
void chain_items(const void* source, void* target, int64_t n, const ChainLink* links, int32_t count) noexcept {
  constexpr int64_t kBlock = 1024;
  const In* in = static_cast<const In*>(source);
  float* out = static_cast<float*>(target);
  for (; n > 0; n -= kBlock, in += kBlock, out += kBlock) {
    int64_t items = n < kBlock ? n : kBlock;
    for (int64_t i = 0; i < items; i++) out[i] = float(in[i]);
    for (int32_t j = 0; j < count; j++) link_items(out, items, links[j]);
  }
}

#if defined(__x86_64__)
#define QC_AVX2 inline __attribute__((target("avx2"), always_inline))

QC_AVX2 __m256 eight_floats(const int8_t* in) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))));
}

QC_AVX2 __m256 eight_floats(const uint8_t* in) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))));
}

QC_AVX2 __m256 eight_floats(const int16_t* in) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))));
}

QC_AVX2 __m256 eight_floats(const uint16_t* in) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))));
}

QC_AVX2 __m256 eight_floats(const int32_t* in) noexcept {
  return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
}

QC_AVX2 __m256 eight_floats(const float* in) noexcept { return _mm256_loadu_ps(in); }

constexpr int kVectors = 8;  // of 8 floats, half of the registers

QC_AVX2 void link_vectors(__m256* items, const ChainLink& link) noexcept {
  const __m256 c = _mm256_set1_ps(link.constant);
  switch (link.kind) {
    case kAdd:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_add_ps(items[k], c);
      break;
    case kSubtract:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_sub_ps(items[k], c);
      break;
    case kSubtractFrom:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_sub_ps(c, items[k]);
      break;
    case kMultiply:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_mul_ps(items[k], c);
      break;
    case kDivide:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_div_ps(items[k], c);
      break;
    default:
      for (int k = 0; k < kVectors; k++) items[k] = _mm256_div_ps(c, items[k]);
  }
}

template <class In>
__attribute__((target("avx2"))) void chain_items_avx2(const void* source, void* target, int64_t n,
                                                      const ChainLink* links, int32_t count) noexcept {
  const In* in = static_cast<const In*>(source);
  float* out = static_cast<float*>(target);
  for (; n >= 8 * kVectors; n -= 8 * kVectors, in += 8 * kVectors, out += 8 * kVectors) {
    __m256 items[kVectors];
    for (int k = 0; k < kVectors; k++) items[k] = eight_floats(in + 8 * k);
    for (int32_t j = 0; j < count; j++) link_vectors(items, links[j]);
    for (int k = 0; k < kVectors; k++) _mm256_storeu_ps(out + 8 * k, items[k]);
  }
  chain_items<In>(in, out, n, links, count);
}

#undef QC_AVX2
#endif

template <class In>
ChainFn chain_of(bool widest) noexcept {
#if defined(__x86_64__)
  if (widest && __builtin_cpu_supports("avx2")) return chain_items_avx2<In>;
#else
  (void)widest;
#endif
  return chain_items<In>;
}

// Returns the loop for items of a dtype, by its number (see elementwise.hpp), or nullptr: there is none. widest: the best
// of this processor; otherwise the one for all.
inline ChainFn chain_fn(int dtype, bool widest) noexcept {
  switch (dtype) {
    case 1:
      return chain_of<int8_t>(widest);
    case 2:
      return chain_of<uint8_t>(widest);
    case 3:
      return chain_of<int16_t>(widest);
    case 4:
      return chain_of<uint16_t>(widest);
    case 5:
      return chain_of<int32_t>(widest);
    case 10:
      return chain_of<float>(widest);
    default:
      return nullptr;
  }
}

}  // namespace queuecore
