// Loops over the pixels of one picture, in float32.
#pragma once

#include <cmath>
#include <cstdint>

namespace queuecore {

// Between two pixels of a row, for each pixel of the target: source[left] + (source[right] - source[left]) * share.
inline void blend_columns(const float* source, float* target, int64_t columns, int64_t channels, const int64_t* left,
                          const int64_t* right, const float* share) noexcept {
  for (int64_t i = 0; i < columns; i++) {
    const float* l = source + left[i];
    const float* r = source + right[i];
    for (int64_t c = 0; c < channels; c++) target[i * channels + c] = l[c] + (r[c] - l[c]) * share[i];
  }
}

inline void blend_rows(const float* top, const float* bottom, float* target, int64_t n, float share) noexcept {
  for (int64_t i = 0; i < n; i++) target[i] = top[i] + (bottom[i] - top[i]) * share;
}

// What TensorFlow does before a float becomes an integer again: [0, 1] is its whole range.
inline void stretch(float* values, int64_t n, float most, float low, float high) noexcept {
  for (int64_t i = 0; i < n; i++) {
    float x = values[i] * most;
    x = x > low ? x : low;  // also of no number at all
    values[i] = x < high ? x : high;
  }
}

inline void add_all(float* values, int64_t n, float b) noexcept {
  for (int64_t i = 0; i < n; i++) values[i] += b;
}

inline void sum_channels(const float* values, int64_t pixels, int64_t channels, double* sums) noexcept {
  for (int64_t i = 0; i < pixels; i++) {
    for (int64_t c = 0; c < channels; c++) sums[c] += double(values[i * channels + c]);
  }
}

inline void spread_channels(float* values, int64_t pixels, int64_t channels, const float* means,
                            float factor) noexcept {
  for (int64_t i = 0; i < pixels; i++) {
    for (int64_t c = 0; c < channels; c++) {
      float* x = values + i * channels + c;
      *x = (*x - means[c]) * factor + means[c];
    }
  }
}

inline float largest(float a, float b, float c) noexcept {
  float m = a > b ? a : b;
  return m > c ? m : c;
}

inline float smallest(float a, float b, float c) noexcept {
  float m = a < b ? a : b;
  return m < c ? m : c;
}

// In terms of hue, saturation and value only the second changes. At the same hue and value, every channel's distance from
// the value is proportional to it, so the hue need not be known.
inline void saturate(float* values, int64_t pixels, float factor) noexcept {
  for (int64_t i = 0; i < pixels; i++) {
    float* p = values + 3 * i;
    float value = largest(p[0], p[1], p[2]);
    float range = value - smallest(p[0], p[1], p[2]);
    float ratio = 0;
    if (range > 0 && value > 0) {
      float before = range / value;
      float after = before * factor;
      after = after < 0 ? 0 : after > 1 ? 1 : after;
      ratio = after / before;
    }
    for (int c = 0; c < 3; c++) p[c] = value - (value - p[c]) * ratio;
  }
}

// Hue is a place on a ring of six sides; `turn` is in sides, from -6 to 6.
inline void turn_hue(float* values, int64_t pixels, float turn) noexcept {
  // Which of largest, middle and smallest goes to red, green and blue, by the side.
  static constexpr int kPlace[6][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};
  for (int64_t i = 0; i < pixels; i++) {
    float* p = values + 3 * i;
    float high = largest(p[0], p[1], p[2]);
    float low = smallest(p[0], p[1], p[2]);
    float range = high - low;
    if (!(range > 0)) continue;
    float hue = p[0] == high ? (p[1] - p[2]) / range : p[1] == high ? (p[2] - p[0]) / range + 2 : (p[0] - p[1]) / range + 4;
    hue += turn;
    hue -= 6 * std::floor(hue / 6);
    if (!(hue >= 0 && hue < 6)) hue = 0;  // a rounding's 6, or no number
    int side = int(hue);
    float along = hue - float(side);
    float order[3] = {high, side & 1 ? high - along * range : low + along * range, low};
    for (int c = 0; c < 3; c++) p[c] = order[kPlace[side][c]];
  }
}

}  // namespace queuecore
