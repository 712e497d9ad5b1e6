// Loops over the bytes of one picture: tables of values, mixtures with greys, sharpness, moved pixels, blurs. The results
// are Pillow's, but for those of blurs.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace queuecore {

// A picture's bytes, row after row, and room for as many more.
struct BytePicture {
  unsigned char* pixels;
  unsigned char* spare;
  int64_t height, width, channels;
};

struct ByteTables {
  unsigned char values[4][256];  // of each channel
};

struct ByteCounts {
  int64_t values[4][256];  // of each channel
};

inline int64_t bytes_of_row(const BytePicture& p) noexcept { return p.width * p.channels; }

inline void round_to_bytes(const float* values, int64_t n, unsigned char* bytes) noexcept {
  for (int64_t i = 0; i < n; i++) {
    float x = values[i] + 0.5f;
    x = x > 0 ? x : 0;  // also if x is NaN
    bytes[i] = static_cast<unsigned char>(static_cast<int>(x < 255 ? x : 255));
  }
}

// A value that lies by `share` on the way from one byte to another, or as far behind it; cut off as a whole number.
inline unsigned char byte_between(int from, int to, float share) noexcept {
  float x = float(from) + share * float(to - from);
  x = x > 0 ? x : 0;
  return static_cast<unsigned char>(static_cast<int>(x < 255 ? x : 255));
}

// ITU-R 601 in whole numbers of 16 bits.
inline int grey_of(const unsigned char* pixel) noexcept {
  return static_cast<int>((19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2] + 0x8000u) >> 16);
}

inline void count_bytes(const BytePicture& p, ByteCounts* counts) noexcept {
  std::memset(counts, 0, sizeof(ByteCounts));
  const int64_t n = p.height * p.width;
  for (int64_t c = 0; c < p.channels; c++) {
    for (int64_t i = 0; i < n; i++) counts->values[c][p.pixels[i * p.channels + c]]++;
  }
}

inline void look_up_bytes(const BytePicture& p, const ByteTables& tables) noexcept {
  const int64_t n = p.height * p.width * p.channels;
  if (p.channels == 1) {
    for (int64_t i = 0; i < n; i++) p.pixels[i] = tables.values[0][p.pixels[i]];
    return;
  }
  for (int64_t i = 0; i < n; i += p.channels) {
    for (int64_t c = 0; c < p.channels; c++) p.pixels[i + c] = tables.values[c][p.pixels[i + c]];
  }
}

// The sum of all greys.
inline int64_t sum_greys(const BytePicture& p) noexcept {
  int64_t sum = 0;
  const int64_t n = p.height * p.width;
  for (int64_t i = 0; i < n; i++) sum += p.channels == 3 ? grey_of(p.pixels + 3 * i) : p.pixels[i];
  return sum;
}

// Moves the colours of pixels away from their grey (share > 1), or towards it. A share of 0 makes greys.
inline void mix_with_grey(const BytePicture& p, float share) noexcept {
  const int64_t n = 3 * p.height * p.width;
  for (int64_t i = 0; i < n; i += 3) {
    unsigned char* pixel = p.pixels + i;
    const int grey = grey_of(pixel);
    for (int c = 0; c < 3; c++) pixel[c] = byte_between(grey, pixel[c], share);
  }
}

// Moves pixels away from the mean of those around them (share > 1), or towards it: 5 parts of 13 of the pixel, one of
// each neighbour. Pixels at the border stay.
inline void sharpen(const BytePicture& p, float share) noexcept {
  const int64_t row = bytes_of_row(p), c = p.channels;
  std::memcpy(p.spare, p.pixels, static_cast<size_t>(p.height * row));
  for (int64_t y = 1; y < p.height - 1; y++) {
    const unsigned char* above = p.spare + (y - 1) * row;
    const unsigned char* here = above + row;
    const unsigned char* below = here + row;
    unsigned char* target = p.pixels + y * row;
    for (int64_t x = c; x < row - c; x++) {
      const int sum = above[x - c] + above[x] + above[x + c] + here[x - c] + 5 * here[x] + here[x + c] + below[x - c] +
                      below[x] + below[x + c];
      target[x] = byte_between((2 * sum + 13) / 26, here[x], share);  // the mean, rounded: no half is met
    }
  }
}

inline void fill_pixels(unsigned char* target, int64_t n, int64_t channels, const unsigned char* fill) noexcept {
  if (channels == 1) {
    std::memset(target, fill[0], static_cast<size_t>(n));
    return;
  }
  for (int64_t i = 0; i < n; i++) std::memcpy(target + i * channels, fill, static_cast<size_t>(channels));
}

// A map from pixels of the result to those of the source: column = a[0] x + a[1] y + a[2], row = a[3] x + a[4] y + a[5],
// each of centres.
struct PixelMap {
  double a[6];
};

// The nearest pixel, in fixed point of 16 bits; the result has `fill` where there is none. Sides are below 32768.
template <int Channels>
void move_pixels_of(const BytePicture& p, const PixelMap& map, const unsigned char* fill) noexcept {
  const auto fixed = [](double x) { return static_cast<int64_t>(std::floor(x * 65536.0 + 0.5)); };
  const double* a = map.a;
  const int64_t right = fixed(a[0]), down = fixed(a[1]), row_right = fixed(a[3]), row_down = fixed(a[4]);
  int64_t x_begin = fixed(a[2] + a[0] * 0.5 + a[1] * 0.5), y_begin = fixed(a[5] + a[3] * 0.5 + a[4] * 0.5);
  const int64_t row = bytes_of_row(p);
  std::memcpy(p.spare, p.pixels, static_cast<size_t>(p.height * row));
  fill_pixels(p.pixels, p.height * p.width, Channels, fill);
  for (int64_t y = 0; y < p.height; y++) {
    int64_t across = x_begin, along = y_begin;
    unsigned char* target = p.pixels + y * row;
    for (int64_t x = 0; x < p.width; x++) {
      const int64_t column = across >> 16, line = along >> 16;
      if (column >= 0 && column < p.width && line >= 0 && line < p.height) {
        std::memcpy(target, p.spare + line * row + column * Channels, Channels);
      }
      target += Channels;
      across += right;
      along += row_right;
    }
    x_begin += down;
    y_begin += row_down;
  }
}

inline void move_pixels(const BytePicture& p, const PixelMap& map, const unsigned char* fill) noexcept {
  return p.channels == 3 ? move_pixels_of<3>(p, map, fill) : move_pixels_of<1>(p, map, fill);
}

// The item that takes the place of one beyond a border: items are mirrored, without the border's own.
inline int64_t reflected(int64_t i, int64_t n) noexcept { return i < 0 ? -i : i < n ? i : 2 * (n - 1) - i; }

// Sums of 2 * half + 1 neighbours by their weights, along both axes. `wide`: room for as many numbers as the picture has
// bytes. Sides are more than `half`.
inline void blur_bytes(const BytePicture& p, const float* weights, int64_t half, float* wide) noexcept {
  const int64_t row = bytes_of_row(p), c = p.channels;
  for (int64_t y = 0; y < p.height; y++) {
    const unsigned char* source = p.pixels + y * row;
    float* sums = wide + y * row;
    for (int64_t i = 0; i < row; i++) sums[i] = 0;
    for (int64_t k = -half; k <= half; k++) {
      const float weight = weights[k + half];
      const int64_t begin = (k < 0 ? -k : 0) * c, end = row - (k > 0 ? k : 0) * c;
      for (int64_t i = 0; i < begin; i++) sums[i] += weight * float(source[reflected(i / c + k, p.width) * c + i % c]);
      for (int64_t i = begin; i < end; i++) sums[i] += weight * float(source[i + k * c]);
      for (int64_t i = end; i < row; i++) sums[i] += weight * float(source[reflected(i / c + k, p.width) * c + i % c]);
    }
  }
  constexpr int64_t kTile = 1024;
  float sums[kTile];
  for (int64_t y = 0; y < p.height; y++) {
    for (int64_t at = 0; at < row; at += kTile) {
      const int64_t n = row - at < kTile ? row - at : kTile;
      for (int64_t i = 0; i < n; i++) sums[i] = 0;
      for (int64_t k = -half; k <= half; k++) {
        const float weight = weights[k + half];
        const float* line = wide + reflected(y + k, p.height) * row + at;
        for (int64_t i = 0; i < n; i++) sums[i] += weight * line[i];
      }
      round_to_bytes(sums, n, p.pixels + y * row + at);
    }
  }
}

}  // namespace queuecore
