// Pictures in another size: each axis by itself, first the columns of a row, then its rows.
//
// Target i of an axis is a sum of neighbouring source items with weights, which a filter gives. The weights are
// TensorFlow's (ScaleAndTranslate, ResizeBicubic, ResizeArea); with antialiasing the filter is as wide as the pixels of
// the target, as Pillow's. Columns and rows can be taken by themselves because the filters are products of two.
//
// All sums are of float32, in the order of the source, each operation rounded by itself: the values don't depend on the
// processor. The functions work on the caller's memory alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace queuecore {

enum ResampleFilter : int32_t {
  kTriangle,
  kKeysCubic,
  kLanczos3,
  kLanczos5,
  kGaussian,
  kMitchell,
  kArea,
};

// Where the targets of an axis lie in the source, of which the items from `low` up to `high` may be used: target i is
// target i + skip of those of which the first begins `start` behind item `low`, each `scale` items long.
struct ResampleView {
  int32_t filter;
  int32_t antialias;
  int64_t low, high, skip;
  double start, scale;
};

// The sums of one axis: target i is of `taps` items from first[i] on, with the weights from i * taps on. If it blends, it
// is item first[i] and weights[i] of the way to the next one, which lies behind the last item where there is none.
//
// pairs: of columns, the same weights for vectors of two pixels: four times that of target i, then of target i + 1, for
// each item of their sums; then those of the next two. Or nullptr.
struct ResampleAxis {
  int64_t targets, taps;
  int64_t* first;
  float* weights;
  float* pairs;
};

// Returns how many floats `pairs` are.
inline int64_t resample_pairs(int64_t targets, int64_t taps) noexcept { return targets / 2 * taps * 8; }

// Returns whether targets lie between two items each, with no more than TensorFlow's rounding for that (ResizeBilinear).
inline bool resample_blends(const ResampleView& view) noexcept { return view.filter == kTriangle && !view.antialias; }

inline double resample_radius(int32_t filter) noexcept {
  switch (filter) {
    case kTriangle:
      return 1;
    case kKeysCubic:
    case kMitchell:
      return 2;
    case kLanczos3:
      return 3;
    case kLanczos5:
      return 5;
    case kGaussian:
      return 1.5;
    default:
      return 0.5;
  }
}

inline double resample_weight(int32_t filter, double x) noexcept {
  const double pi = 3.14159265358979323846;
  x = std::fabs(x);
  switch (filter) {
    case kTriangle:
      return x < 1 ? 1 - x : 0;
    case kKeysCubic:
      if (x >= 2) return 0;
      return x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : ((1.5 * x - 2.5) * x) * x + 1;
    case kLanczos3:
    case kLanczos5: {
      const double radius = resample_radius(filter);
      if (x > radius) return 0;
      return x < 1e-3 ? 1 : radius * std::sin(pi * x) * std::sin(pi * x / radius) / (pi * pi * x * x);
    }
    case kGaussian:
      return x >= 1.5 ? 0 : std::exp(-2 * x * x);
    case kMitchell:
      if (x >= 2) return 0;
      if (x >= 1) return (((-7.0 / 18) * x + 2) * x - 10.0 / 3) * x + 16.0 / 9;
      return ((7.0 / 6) * x - 2) * x * x + 8.0 / 9;
    default:
      return 0;
  }
}

// Returns how many times as wide as over source items the filter is.
inline double resample_width(const ResampleView& view) noexcept {
  return view.filter == kArea || view.antialias ? std::max(view.scale, 1.0) : 1.0;
}

// Returns of how many items the targets of this axis are sums, at most; 1 if they blend.
inline int64_t resample_taps(const ResampleView& view) noexcept {
  if (resample_blends(view)) return 1;
  double reach = view.filter == kArea ? view.scale / 2 + 0.5 : resample_radius(view.filter) * resample_width(view);
  // Filters that end with a weight of zero: an item at the very end of one has none.
  const bool vanishes = view.filter == kTriangle || view.filter == kKeysCubic || view.filter == kMitchell;
  double taps = vanishes ? std::ceil(2 * reach) : std::floor(2 * reach) + 1;
  return taps < double(view.high - view.low) ? int64_t(taps) : view.high - view.low;
}

// Returns the place of a target's centre, in source items of which item `low` is from 0 to 1.
inline double resample_centre(const ResampleView& view, int64_t target) noexcept {
  double at = (static_cast<double>(target + view.skip) + 0.5) * view.scale + view.start;
  if (view.filter != kKeysCubic || view.antialias) return at;
  // TensorFlow's cubic filter without antialiasing comes from a table with 1,024 places for each item.
  double below = std::floor(at - 0.5);
  return below + std::nearbyint((at - 0.5 - below) * 1024) / 1024 + 0.5;
}

// Returns the first and the last item of a target's sum, counted from `low`.
inline void resample_span(const ResampleView& view, double at, int64_t taps, int64_t* first, int64_t* last) noexcept {
  const double reach = view.filter == kArea ? view.scale / 2 : resample_radius(view.filter) * resample_width(view);
  double from = view.filter == kArea ? std::floor(at - reach) : std::ceil(at - reach - 0.5);
  double to = view.filter == kArea ? std::ceil(at + reach) - 1 : std::floor(at + reach - 0.5);
  const int64_t end = view.high - view.low - 1;
  *first = std::clamp<int64_t>(static_cast<int64_t>(from), 0, end);
  *last = std::clamp(static_cast<int64_t>(to), *first, std::min(end, *first + taps - 1));
}

inline void resample_blend(const ResampleView& view, ResampleAxis* axis) noexcept {
  const float scale = static_cast<float>(view.scale);
  const float start = static_cast<float>(view.start);
  for (int64_t i = 0; i < axis->targets; i++) {
    float at = (static_cast<float>(i + view.skip) + 0.5f) * scale - 0.5f + start, below = std::floor(at);
    const int64_t left = static_cast<int64_t>(below), end = view.high - view.low - 1;
    bool between = left >= 0 && left < end;
    axis->first[i] = view.low + std::clamp<int64_t>(left, 0, end);
    axis->weights[i] = between ? at - below : 0;
  }
}

// Fills in an axis, which has room for `targets` numbers and targets * taps weights.
inline void resample_fill(const ResampleView& view, ResampleAxis* axis) noexcept {
  if (resample_blends(view)) return resample_blend(view, axis);
  const double width = resample_width(view);
  for (int64_t i = 0; i < axis->targets; i++) {
    const double at = resample_centre(view, i);
    int64_t first, last;
    resample_span(view, at, axis->taps, &first, &last);
    const int64_t begin = std::min(first, view.high - view.low - axis->taps);
    float* weights = axis->weights + i * axis->taps;
    double sum = 0;
    for (int64_t k = 0; k < axis->taps; k++) {
      double item = static_cast<double>(begin + k), weight = 0;
      if (begin + k < first || begin + k > last) {
        weight = 0;
      } else if (view.filter == kArea) {
        weight = std::max(0.0, std::min(at + view.scale / 2, item + 1) - std::max(at - view.scale / 2, item));
      } else {
        weight = resample_weight(view.filter, (item + 0.5 - at) / width);
      }
      weights[k] = static_cast<float>(weight);
      sum += weight;
    }
    axis->first[i] = view.low + begin;
    if (std::fabs(sum) < 1e-30) {  // beyond a border: its item counts
      weights[std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)) - begin, 0, axis->taps - 1)] = 1;
      sum = 1;
    }
    for (int64_t k = 0; k < axis->taps; k++) weights[k] = static_cast<float>(weights[k] / sum);
  }
}

// Makes the targets of an axis lie the other way round.
inline void resample_mirror(ResampleAxis* axis) noexcept {
  const int64_t taps = axis->taps;
  for (int64_t i = 0, j = axis->targets - 1; i < j; i++, j--) {
    std::swap(axis->first[i], axis->first[j]);
    std::swap_ranges(axis->weights + i * taps, axis->weights + (i + 1) * taps, axis->weights + j * taps);
  }
}

// Fills in `pairs`.
inline void resample_pair(ResampleAxis* axis) noexcept {
  const int64_t taps = axis->taps;
  float* pair = axis->pairs;
  for (int64_t i = 0; i + 2 <= axis->targets; i += 2) {
    for (int64_t k = 0; k < taps; k++, pair += 8) {
      std::fill(pair, pair + 4, axis->weights[i * taps + k]);
      std::fill(pair + 4, pair + 8, axis->weights[(i + 1) * taps + k]);
    }
  }
}

// ---- loops ----------------------------------------------------------------------------------------------------------
// Rows of pixels have room for a pixel and a vector more behind them.

constexpr int64_t kRowSlack = 16;  // floats

using FourFloats = float __attribute__((vector_size(16)));

inline FourFloats four_at(const float* p) noexcept {
  FourFloats four;
  std::memcpy(&four, p, sizeof(four));
  return four;
}

// The loops of a processor.
struct ResampleLoops {
  void (*widen)(const uint8_t* source, float* target, int64_t n) noexcept;
  // Make the pixels of a row of the new width.
  void (*blend_columns)(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept;
  void (*sum_columns)(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept;
  // Multiplies each channel by its factor and adds its shift. plane: 0, or how far apart the channels' planes lie; else
  // factors and shifts are those of a whole row.
  void (*normalize)(const float* row, int64_t n, int64_t channels, const float* factors, const float* shifts,
                    float* target, int64_t plane) noexcept;
  // Make one row of several.
  void (*blend_rows)(const float* const* rows, const float* share, int64_t taps, float* target, int64_t n) noexcept;
  void (*sum_rows)(const float* const* rows, const float* weights, int64_t taps, float* target, int64_t n) noexcept;
  // As widen and then sum_rows.
  void (*sum_bytes)(const uint8_t* const* rows, const float* weights, int64_t taps, float* target, int64_t n) noexcept;
  // As widen of n numbers and then blend_columns, for 3 or 4 channels; null: these two are quicker.
  void (*blend_bytes)(const uint8_t* row, int64_t n, const ResampleAxis& axis, int64_t channels,
                      float* target) noexcept;
};

inline void widen_bytes(const uint8_t* source, float* target, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i++) target[i] = source[i];
}

// Targets from `at` on; of 3 or 4 channels in vectors.
inline void blend_pixels(const float* row, const ResampleAxis& axis, int64_t channels, float* target,
                         int64_t at) noexcept {
  for (int64_t i = at; i < axis.targets; i++) {
    const float* pixel = row + axis.first[i] * channels;
    const float share = axis.weights[i];
    if (channels == 3 || channels == 4) {
      FourFloats left = four_at(pixel);
      FourFloats between = left + (four_at(pixel + channels) - left) * share;
      std::memcpy(target + i * channels, &between, sizeof(between));
    } else {
      for (int64_t c = 0; c < channels; c++) {
        target[i * channels + c] = pixel[c] + (pixel[channels + c] - pixel[c]) * share;
      }
    }
  }
}

inline void sum_pixels(const float* row, const ResampleAxis& axis, int64_t channels, float* target,
                       int64_t at) noexcept {
  for (int64_t i = at; i < axis.targets; i++) {
    const float* pixel = row + axis.first[i] * channels;
    const float* weights = axis.weights + i * axis.taps;
    if (channels == 3 || channels == 4) {
      FourFloats sum = four_at(pixel) * weights[0];
      for (int64_t k = 1; k < axis.taps; k++) sum += four_at(pixel + k * channels) * weights[k];
      if (channels == 4 || i + 1 < axis.targets) {  // of 3, the next target overwrites the fourth float
        std::memcpy(target + i * channels, &sum, sizeof(sum));
      } else {
        std::memcpy(target + i * channels, &sum, 3 * sizeof(float));
      }
    } else {
      for (int64_t c = 0; c < channels; c++) {
        float sum = pixel[c] * weights[0];
        for (int64_t k = 1; k < axis.taps; k++) sum += pixel[k * channels + c] * weights[k];
        target[i * channels + c] = sum;
      }
    }
  }
}

inline void blend_columns(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept {
  blend_pixels(row, axis, channels, target, 0);
}

inline void sum_columns(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept {
  sum_pixels(row, axis, channels, target, 0);
}

inline void blend_rows(const float* const* rows, const float* share, int64_t, float* target, int64_t n) noexcept {
  const float *top = rows[0], *bottom = rows[1];
  for (int64_t i = 0; i < n; i++) target[i] = top[i] + (bottom[i] - top[i]) * *share;
}

// Item: float or uint8_t.
template <class Item>
void sum_rows(const Item* const* rows, const float* weights, int64_t taps, float* target, int64_t n) noexcept {
  for (int64_t i = 0; i < n; i++) target[i] = static_cast<float>(rows[0][i]) * weights[0];
  for (int64_t k = 1; k < taps; k++) {
    for (int64_t i = 0; i < n; i++) target[i] += static_cast<float>(rows[k][i]) * weights[k];
  }
}

// Written once for compilers' vectors of any length.
inline __attribute__((always_inline)) void normalize_any(const float* row, int64_t n, int64_t channels,
                                                         const float* factors, const float* shifts, float* target,
                                                         int64_t plane) noexcept {
  if (plane == 0) {
    for (int64_t i = 0; i < n * channels; i++) target[i] = row[i] * factors[i] + shifts[i];
  } else if (channels == 3) {
    float *green = target + plane, *blue = target + 2 * plane;
    const float a[3] = {factors[0], factors[1], factors[2]}, b[3] = {shifts[0], shifts[1], shifts[2]};
    for (int64_t i = 0; i < n; i++) {
      target[i] = row[3 * i] * a[0] + b[0];
      green[i] = row[3 * i + 1] * a[1] + b[1];
      blue[i] = row[3 * i + 2] * a[2] + b[2];
    }
  } else {
    for (int64_t c = 0; c < channels; c++) {
      for (int64_t i = 0; i < n; i++) target[c * plane + i] = row[i * channels + c] * factors[c] + shifts[c];
    }
  }
}

inline void normalize_row(const float* row, int64_t n, int64_t channels, const float* factors, const float* shifts,
                          float* target, int64_t plane) noexcept {
  normalize_any(row, n, channels, factors, shifts, target, plane);
}

#if defined(__x86_64__)
#define QC_AVX2 inline __attribute__((target("avx2")))

QC_AVX2 void normalize_row_avx2(const float* row, int64_t n, int64_t channels, const float* factors,
                                const float* shifts, float* target, int64_t plane) noexcept {
  normalize_any(row, n, channels, factors, shifts, target, plane);
}

QC_AVX2 __m256 eight_at(const float* p) noexcept { return _mm256_loadu_ps(p); }

QC_AVX2 __m256 eight_at(const uint8_t* p) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

QC_AVX2 void widen_bytes_avx2(const uint8_t* source, float* target, int64_t n) noexcept {
  for (; n >= 16; n -= 16, source += 16, target += 16) {
    _mm256_storeu_ps(target, eight_at(source));
    _mm256_storeu_ps(target + 8, eight_at(source + 8));
  }
  widen_bytes(source, target, n);
}

// Two pixels side by side, each with what is behind it.
QC_AVX2 __m256 two_pixels(const float* first, const float* second) noexcept {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(first)), _mm_loadu_ps(second), 1);
}

template <int Channels>
QC_AVX2 void put_pixels(float* target, __m256 two) noexcept {
  _mm_storeu_ps(target, _mm256_castps256_ps128(two));
  _mm_storeu_ps(target + Channels, _mm256_extractf128_ps(two, 1));
}

// Return how many targets they made.
template <int Channels>
QC_AVX2 int64_t blend_pairs(const float* row, const ResampleAxis& axis, float* target) noexcept {
  const float* shares = axis.pairs;
  const int64_t* places = axis.first;
  const int64_t targets = axis.targets;
  int64_t i = 0;
  for (; i + 2 <= targets; i += 2) {
    const float* first = row + places[i] * Channels;
    const float* second = row + places[i + 1] * Channels;
    __m256 left = two_pixels(first, second), right = two_pixels(first + Channels, second + Channels);
    __m256 share = _mm256_loadu_ps(shares + 4 * i);
    put_pixels<Channels>(target + i * Channels, _mm256_add_ps(left, _mm256_mul_ps(_mm256_sub_ps(right, left), share)));
  }
  return i;
}

// Taps: of each sum; 0: any number.
template <int Channels, int Taps>
QC_AVX2 int64_t sum_pairs_of(const float* row, const ResampleAxis& axis, float* target) noexcept {
  const int64_t taps = Taps ? Taps : axis.taps;
  const float* weights = axis.pairs;
  const int64_t* places = axis.first;
  const int64_t targets = axis.targets;
  int64_t i = 0;
  for (; i + 2 < targets; i += 2, weights += 8 * taps) {
    const float* first = row + places[i] * Channels;
    const float* second = row + places[i + 1] * Channels;
    __m256 sum = _mm256_mul_ps(two_pixels(first, second), _mm256_loadu_ps(weights));
    for (int64_t k = 1; k < taps; k++) {
      __m256 two = two_pixels(first + k * Channels, second + k * Channels);
      sum = _mm256_add_ps(sum, _mm256_mul_ps(two, _mm256_loadu_ps(weights + 8 * k)));
    }
    put_pixels<Channels>(target + i * Channels, sum);
  }
  return i;
}

template <int Channels>
QC_AVX2 int64_t sum_pairs(const float* row, const ResampleAxis& axis, float* target) noexcept {
  switch (axis.taps) {
    case 2:
      return sum_pairs_of<Channels, 2>(row, axis, target);
    case 3:
      return sum_pairs_of<Channels, 3>(row, axis, target);
    case 4:
      return sum_pairs_of<Channels, 4>(row, axis, target);
    case 5:
      return sum_pairs_of<Channels, 5>(row, axis, target);
    default:
      return sum_pairs_of<Channels, 0>(row, axis, target);
  }
}

QC_AVX2 void blend_columns_avx2(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept {
  int64_t at = channels == 3   ? blend_pairs<3>(row, axis, target)
               : channels == 4 ? blend_pairs<4>(row, axis, target)
                               : 0;
  blend_pixels(row, axis, channels, target, at);
}

QC_AVX2 void sum_columns_avx2(const float* row, const ResampleAxis& axis, int64_t channels, float* target) noexcept {
  int64_t at = channels == 3 ? sum_pairs<3>(row, axis, target) : channels == 4 ? sum_pairs<4>(row, axis, target) : 0;
  sum_pixels(row, axis, channels, target, at);
}

// Targets from `at` to `end`. What lies behind the row isn't read: its share is 0.
inline void blend_byte_pixels(const uint8_t* row, int64_t n, const ResampleAxis& axis, int64_t channels, float* target,
                              int64_t at, int64_t end) noexcept {
  for (int64_t i = at; i < end; i++) {
    const uint8_t* pixel = row + axis.first[i] * channels;
    const int64_t right = (axis.first[i] + 2) * channels <= n ? channels : 0;
    for (int64_t c = 0; c < channels; c++) {
      const float left = pixel[c];
      target[i * channels + c] = left + (static_cast<float>(pixel[right + c]) - left) * axis.weights[i];
    }
  }
}

template <int Channels>
QC_AVX2 void blend_byte_pairs(const uint8_t* row, int64_t n, const ResampleAxis& axis, float* target) noexcept {
  constexpr char kNone = -1;
  // Of 16 bytes, 8 from each target's left pixel on: both left pixels, and then both right ones, four bytes for each.
  const __m128i order = Channels == 3
                            ? _mm_setr_epi8(0, 1, 2, kNone, 8, 9, 10, kNone, 3, 4, 5, kNone, 11, 12, 13, kNone)
                            : _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
  const float* shares = axis.pairs;
  const int64_t* places = axis.first;
  const int64_t targets = axis.targets, last = n < 8 ? -1 : (n - 8) / Channels;
  int64_t i = 0;
  for (; i + 2 <= targets; i += 2) {
    if (places[i] > last || places[i + 1] > last) {
      blend_byte_pixels(row, n, axis, Channels, target, i, i + 2);
      continue;
    }
    __m128i both =
        _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + places[i] * Channels)),
                           _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + places[i + 1] * Channels)));
    both = _mm_shuffle_epi8(both, order);
    __m256 left = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(both));
    __m256 right = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(both, both)));
    __m256 share = _mm256_loadu_ps(shares + 4 * i);
    put_pixels<Channels>(target + i * Channels, _mm256_add_ps(left, _mm256_mul_ps(_mm256_sub_ps(right, left), share)));
  }
  blend_byte_pixels(row, n, axis, Channels, target, i, targets);
}

QC_AVX2 void blend_bytes_avx2(const uint8_t* row, int64_t n, const ResampleAxis& axis, int64_t channels,
                              float* target) noexcept {
  if (channels == 3) {
    blend_byte_pairs<3>(row, n, axis, target);
  } else {
    blend_byte_pairs<4>(row, n, axis, target);
  }
}

QC_AVX2 void blend_rows_avx2(const float* const* rows, const float* share, int64_t taps, float* target,
                             int64_t n) noexcept {
  const __m256 shares = _mm256_set1_ps(*share);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 top = _mm256_loadu_ps(rows[0] + i), bottom = _mm256_loadu_ps(rows[1] + i);
    _mm256_storeu_ps(target + i, _mm256_add_ps(top, _mm256_mul_ps(_mm256_sub_ps(bottom, top), shares)));
  }
  const float* rest[2] = {rows[0] + i, rows[1] + i};
  blend_rows(rest, share, taps, target + i, n - i);
}

template <class Item>
QC_AVX2 void sum_rows_avx2(const Item* const* rows, const float* weights, int64_t taps, float* target,
                           int64_t n) noexcept {
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256 sums[4];
    __m256 weight = _mm256_set1_ps(weights[0]);
    for (int j = 0; j < 4; j++) sums[j] = _mm256_mul_ps(eight_at(rows[0] + i + 8 * j), weight);
    for (int64_t k = 1; k < taps; k++) {
      weight = _mm256_set1_ps(weights[k]);
      for (int j = 0; j < 4; j++) {
        sums[j] = _mm256_add_ps(sums[j], _mm256_mul_ps(eight_at(rows[k] + i + 8 * j), weight));
      }
    }
    for (int j = 0; j < 4; j++) _mm256_storeu_ps(target + i + 8 * j, sums[j]);
  }
  for (; i < n; i++) {
    float sum = static_cast<float>(rows[0][i]) * weights[0];
    for (int64_t k = 1; k < taps; k++) sum += static_cast<float>(rows[k][i]) * weights[k];
    target[i] = sum;
  }
}

#undef QC_AVX2
#endif

// widest: the best loops of this processor; otherwise those for all.
inline ResampleLoops resample_loops(bool widest) noexcept {
#if defined(__x86_64__)
  if (widest && __builtin_cpu_supports("avx2")) {
    return {widen_bytes_avx2, blend_columns_avx2,   sum_columns_avx2,       normalize_row_avx2,
            blend_rows_avx2,  sum_rows_avx2<float>, sum_rows_avx2<uint8_t>, blend_bytes_avx2};
  }
#else
  (void)widest;
#endif
  return {widen_bytes, blend_columns,   sum_columns,       normalize_row,
          blend_rows,  sum_rows<float>, sum_rows<uint8_t>, nullptr};
}

}  // namespace queuecore
