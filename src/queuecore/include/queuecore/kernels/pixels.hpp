// Loops over the pixels of one picture, in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace queuecore {

// Copies pixels of Bytes, or of `pixel` bytes if that is 0: target i is the one at place(i).
template <int Bytes, class Place>
void copy_pixels(const unsigned char* row, int64_t n, int64_t pixel, unsigned char* target, Place place) noexcept {
  const int64_t bytes = Bytes ? Bytes : pixel;
  for (int64_t i = 0; i < n; i++) std::memcpy(target + i * bytes, row + place(i) * bytes, static_cast<size_t>(bytes));
}

template <class Place>
void copy_pixels_of(const unsigned char* row, int64_t n, int64_t pixel, unsigned char* target, Place place) noexcept {
  switch (pixel) {
    case 1:
      return copy_pixels<1>(row, n, pixel, target, place);
    case 3:
      return copy_pixels<3>(row, n, pixel, target, place);
    case 4:
      return copy_pixels<4>(row, n, pixel, target, place);
    case 12:
      return copy_pixels<12>(row, n, pixel, target, place);
    default:
      return copy_pixels<0>(row, n, pixel, target, place);
  }
}

inline void pick_pixels(const unsigned char* row, const int64_t* columns, int64_t n, int64_t pixel,
                        unsigned char* target) noexcept {
  copy_pixels_of(row, n, pixel, target, [columns](int64_t i) { return columns[i]; });
}

inline void mirror_pixels(const unsigned char* row, int64_t n, int64_t pixel, unsigned char* target) noexcept {
  copy_pixels_of(row, n, pixel, target, [n](int64_t i) { return n - 1 - i; });
}

// Turns and mirrors a picture as EXIF's orientation, 2 to 8, says. From 5 on, rows become columns.
inline void orient_pixels(const unsigned char* stored, int64_t height, int64_t width, int64_t pixel, int orientation,
                          unsigned char* target) noexcept {
  constexpr int64_t kTile = 64;  // columns: where rows become columns, the lines of the cache serve for the next rows
  const bool swapped = orientation >= 5;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const int64_t rows = swapped ? width : height, columns = swapped ? height : width;
  // Steps from pixel to pixel of the stored picture.
  const int64_t row_step = from_bottom ? -width : width, column_step = from_right ? -1 : 1;
  const int64_t down = swapped ? column_step : row_step, across = swapped ? row_step : column_step;
  const int64_t first = (from_bottom ? (height - 1) * width : 0) + (from_right ? width - 1 : 0);
  for (int64_t x = 0; x < columns; x += kTile) {
    for (int64_t y = 0; y < rows; y++) {
      const int64_t begin = first + y * down + x * across;
      copy_pixels_of(stored, columns - x < kTile ? columns - x : kTile, pixel, target + (y * columns + x) * pixel,
                     [begin, across](int64_t i) { return begin + i * across; });
    }
  }
}

// Scales [0, 1] to an integer's range and cuts values off there, as TensorFlow does before a float becomes an integer.
inline void stretch(float* values, int64_t n, float most, float low, float high) noexcept {
  for (int64_t i = 0; i < n; i++) {
    float x = values[i] * most;
    x = x > low ? x : low;  // also if x is NaN
    values[i] = x < high ? x : high;
  }
}

inline void add_all(float* values, int64_t n, float b) noexcept {
  for (int64_t i = 0; i < n; i++) values[i] += b;
}

inline void sum_channels(const float* values, int64_t pixels, int64_t channels, double* sums) noexcept {
  if (channels == 3) {  // three sums in registers
    double red = 0, green = 0, blue = 0;
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
      red += double(values[i]);
      green += double(values[i + 1]);
      blue += double(values[i + 2]);
    }
    sums[0] += red;
    sums[1] += green;
    sums[2] += blue;
    return;
  }
  for (int64_t i = 0; i < pixels; i++) {
    for (int64_t c = 0; c < channels; c++) sums[c] += double(values[i * channels + c]);
  }
}

// means: one for each value.
inline void spread(float* values, int64_t n, const float* means, float factor) noexcept {
  for (int64_t i = 0; i < n; i++) values[i] = (values[i] - means[i]) * factor + means[i];
}

inline float largest(float a, float b, float c) noexcept {
  float m = a > b ? a : b;
  return m > c ? m : c;
}

inline float smallest(float a, float b, float c) noexcept {
  float m = a < b ? a : b;
  return m < c ? m : c;
}

// Changes the saturation, but neither hue nor value. At the same hue and value, every channel's distance from the value is
// proportional to the saturation, so the hue need not be known.
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

//
// Written in vectors by hand: compilers make branches of these choices, which neighbouring pixels seldom take alike.
using Four = float __attribute__((vector_size(16)));
using FourWhole = int32_t __attribute__((vector_size(16)));

inline Four hue_channel(Four high, Four range, Four at) noexcept {
  at -= 6 * __builtin_convertvector(__builtin_convertvector(at * (1.0f / 6), FourWhole), Four);
  Four zero = {0, 0, 0, 0};
  Four away = at < 4 - at ? at : 4 - at;
  away = away < 1 ? away : zero + 1;
  away = away > 0 ? away : zero;
  return high - range * away;
}

inline void turn_hue_of_four(Four* red, Four* green, Four* blue, float turn) noexcept {
  Four zero = {0, 0, 0, 0};
  Four r = *red, g = *green, b = *blue;
  Four high = r > g ? r : g;
  high = high > b ? high : b;
  Four low = r < g ? r : g;
  low = low < b ? low : b;
  Four range = high - low;
  Four rises = r == high ? g - b : g == high ? b - r : r - g;
  Four place = r == high ? zero + 12 : g == high ? zero + 14 : zero + 16;
  Four hue = rises / (range > 0 ? range : zero + 1) + place + turn;
  hue = hue >= 0 ? hue : zero;  // also if hue is NaN
  hue = hue < 32 ? hue : zero;
  *red = hue_channel(high, range, hue + 5);
  *green = hue_channel(high, range, hue + 3);
  *blue = hue_channel(high, range, hue + 1);
}

inline void turn_hue(float* values, int64_t pixels, float turn) noexcept {
  for (int64_t i = 0; i < pixels; i += 4) {
    float* p = values + 3 * i;
    int64_t n = pixels - i < 4 ? pixels - i : 4;
    Four red = {0, 0, 0, 0}, green = red, blue = red;
    for (int64_t j = 0; j < n; j++) {
      red[j] = p[3 * j];
      green[j] = p[3 * j + 1];
      blue[j] = p[3 * j + 2];
    }
    turn_hue_of_four(&red, &green, &blue, turn);
    for (int64_t j = 0; j < n; j++) {
      p[3 * j] = red[j];
      p[3 * j + 1] = green[j];
      p[3 * j + 2] = blue[j];
    }
  }
}

}  // namespace queuecore
