// Numbers in text: integers, decimal and hexadecimal floats, each the correctly rounded value of its text.
//
// A float goes through the first of three ways that is sure of its result:
//   1. Two exact doubles and one rounding: W. D. Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990.
//   2. 64 bits of digits times 128 bits of a power of five: D. Lemire, "Number Parsing at a Gigabyte per Second",
//      Software: Practice and Experience 51(8), 2021; that its product never leaves a doubt: N. Mushtak, D. Lemire, "Fast
//      Number Parsing Without Fallback", 53(6), 2023. If a number has more than 19 digits, the first 19 are rounded, then
//      the next larger number of 19 digits: if both round alike, so do all numbers between them.
//   3. The C library's own conversion, for a text that has so many digits that these two differ.
// Every function is given the text's first byte and the one after its last, reads nothing else, and has no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "queuecore/kernels/bytes.hpp"

namespace queuecore {

// 5 ** q as its first 128 bits: cut off, except for -27 <= q < 0, where it is rounded up.
struct PowerOfFive {
  uint64_t high, low;
};

constexpr int kLeastTen = -342;
constexpr int kMostTen = 308;

struct PowersOfFive {
  PowerOfFive at[kMostTen - kLeastTen + 1];
};

// Natural numbers of up to 832 bits, low word first: enough for 5 ** 342.
struct Natural {
  uint64_t word[13];
};

constexpr int bit_length(const Natural& n) {
  for (int i = 12; i >= 0; --i) {
    if (n.word[i] != 0) return 64 * i + 64 - __builtin_clzll(n.word[i]);
  }
  return 0;
}

constexpr uint64_t bits_from(const Natural& n, int at) {
  // 64 bits, from bit `at` on; below bit 0 there are zeros.
  uint64_t bits = 0;
  for (int i = 0; i < 2; ++i) {
    int word = (at + 64 * 16) / 64 - 16 + i;
    int shift = (at + 64 * 16) % 64;
    uint64_t part = word >= 0 && word < 13 ? n.word[word] : 0;
    bits |= i == 0 ? part >> shift : (shift == 0 ? 0 : part << (64 - shift));
  }
  return bits;
}

constexpr PowerOfFive reciprocal(const Natural& d, bool up) {
  // Long division, one bit a step: 2 ** (bit_length(d) + 127) by d.
  Natural r{};
  int bits = bit_length(d);
  int words = bits / 64 + 1;
  r.word[(bits - 1) / 64] = uint64_t(1) << ((bits - 1) % 64);
  uint64_t quotient[2] = {0, 0};
  for (int i = 0; i < 128; ++i) {
    for (int j = words - 1; j > 0; --j) r.word[j] = (r.word[j] << 1) | (r.word[j - 1] >> 63);
    r.word[0] <<= 1;
    int top = words - 1;
    while (top > 0 && r.word[top] == d.word[top]) --top;
    bool fits = r.word[top] >= d.word[top];
    if (fits) {
      uint64_t borrow = 0;
      for (int j = 0; j < words; ++j) {
        uint64_t minus = d.word[j] + borrow;
        borrow = (borrow != 0 && minus == 0) || r.word[j] < minus ? 1 : 0;
        r.word[j] -= minus;
      }
    }
    quotient[i / 64] = (quotient[i / 64] << 1) | (fits ? 1 : 0);
  }
  if (up && ++quotient[1] == 0) ++quotient[0];
  return {quotient[0], quotient[1]};
}

constexpr PowersOfFive powers_of_five() {
  PowersOfFive powers{};
  Natural n{};
  n.word[0] = 1;
  for (int q = 0; q <= -kLeastTen; ++q) {
    if (q > 0) {
      uint64_t carry = 0;
      for (int i = 0; i < 13; ++i) {
        uint64_t low = (n.word[i] & 0xffffffff) * 5 + carry;
        uint64_t high = (n.word[i] >> 32) * 5 + (low >> 32);
        n.word[i] = (high << 32) | (low & 0xffffffff);
        carry = high >> 32;
      }
      powers.at[-q - kLeastTen] = reciprocal(n, q <= 27);
    }
    int bits = bit_length(n);
    if (q <= kMostTen) powers.at[q - kLeastTen] = {bits_from(n, bits - 64), bits_from(n, bits - 128)};
  }
  return powers;
}

inline constexpr PowersOfFive kPowersOfFive = powers_of_five();
static_assert(kPowersOfFive.at[1 - kLeastTen].high == uint64_t(5) << 61, "5, from its highest bit on");
static_assert(kPowersOfFive.at[-1 - kLeastTen].high == 0xcccccccccccccccc &&
                  kPowersOfFive.at[-1 - kLeastTen].low == 0xcccccccccccccccd,
              "a fifth, rounded up");

inline constexpr double kTens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kExactTens = 22;  // 10 ** 22 is the last that a double holds exactly

template <class Real>
struct Layout;

template <>
struct Layout<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52, kBias = 1023, kInfinite = 2047;
  static constexpr int kLeast = -342, kMost = 308;  // powers of ten beyond which 64 bits of digits give 0 or infinity
  static constexpr int kLeastTie = -4, kMostTie = 23;  // those with which they can lie halfway between two values
};

template <>
struct Layout<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23, kBias = 127, kInfinite = 255;
  static constexpr int kLeast = -65, kMost = 38;
  static constexpr int kLeastTie = -17, kMostTie = 10;
};

template <class Real>
using BitsOf = typename Layout<Real>::Bits;

template <class Real>
constexpr BitsOf<Real> kInfinityBits = BitsOf<Real>(Layout<Real>::kInfinite) << Layout<Real>::kMantissa;

template <class Real>
inline Real from_bits(BitsOf<Real> bits, bool negative) noexcept {
  bits |= BitsOf<Real>(negative) << (8 * sizeof(Real) - 1);
  Real value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// w * 10 ** q, rounded to nearest, ties to even.
template <class Real>
inline BitsOf<Real> round_decimal(uint64_t w, int64_t q) noexcept {
  using L = Layout<Real>;
  if (w == 0 || q < L::kLeast) return 0;
  if (q > L::kMost) return kInfinityBits<Real>;
  const PowerOfFive& five = kPowersOfFive.at[q - kLeastTen];
  int zeros = __builtin_clzll(w);
  w <<= zeros;
  unsigned __int128 product = static_cast<unsigned __int128>(w) * five.high;
  uint64_t high = uint64_t(product >> 64), low = uint64_t(product);
  // The bits below the result and its rounding bits are all ones: adding the lower half of the power may carry.
  constexpr uint64_t kBelow = ~uint64_t(0) >> (L::kMantissa + 3);
  if ((high & kBelow) == kBelow) {
    uint64_t more = uint64_t((static_cast<unsigned __int128>(w) * five.low) >> 64);
    low += more;
    high += low < more;
  }
  int top = int(high >> 63);
  int shift = top + 64 - L::kMantissa - 3;
  uint64_t mantissa = high >> shift;  // one bit more than the result has
  // 217706 / 65536 is log2(10), close enough for every q here; floor(q * log2(10)) + 63 is the product's exponent.
  int64_t exponent = ((217706 * q) >> 16) + 63 + top - zeros + L::kBias;
  if (exponent <= 0) {  // below the normal numbers
    if (1 - exponent >= 64) return 0;
    mantissa >>= 1 - exponent;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    return BitsOf<Real>(mantissa);  // one that was rounded up to a normal number has its exponent in place
  }
  // A tie, rounded up below, would not be even: only the bits of `high` above the shift are there, and w * 5 ** q is exact.
  if (low <= 1 && q >= L::kLeastTie && q <= L::kMostTie && (mantissa & 3) == 1 && mantissa << shift == high) {
    mantissa &= ~uint64_t(1);
  }
  mantissa = (mantissa + (mantissa & 1)) >> 1;
  uint64_t bits = (uint64_t(exponent - 1) << L::kMantissa) + mantissa;  // the leading one adds 1 to the exponent
  return bits < kInfinityBits<Real> ? BitsOf<Real>(bits) : kInfinityBits<Real>;
}

// Converts a double that one rounding made from a decimal number to Real. False: the result is unknown, since the double
// lies halfway between two floats, and the number itself may lie on either side.
inline bool narrow(double x, double* out) noexcept {
  *out = x;
  return true;
}

inline bool narrow(double x, float* out) noexcept {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  *out = float(x);
  return (bits & 0x1fffffff) != 0x10000000;
}

// Unsigned decimal digits as they stand there: digits * 10 ** ten.
struct Decimal {
  uint64_t digits;  // the first 19, without zeros before them
  int64_t ten;
  bool more;  // digits other than 0 are left out
};

inline bool is_digit(Byte c) noexcept { return Byte(c - '0') < 10; }

inline bool is_blank(Byte c) noexcept { return c == ' ' || Byte(c - '\t') < 5; }

// The digits from p on, eight at a time while there are as many.
inline const Byte* read_digits(const Byte* p, const Byte* end, uint64_t* value) noexcept {
  uint64_t v = *value;
  while (end - p >= 8) {
    uint64_t eight;
    std::memcpy(&eight, p, 8);
    uint64_t digits = eight - 0x3030303030303030;
    if (((digits | (digits + 0x7676767676767676)) & 0x8080808080808080) != 0) break;
    digits = digits * 10 + (digits >> 8);  // pairs, in every second byte
    digits = (((digits & 0x000000ff000000ff) * 0x000f424000000064) +
              (((digits >> 16) & 0x000000ff000000ff) * 0x0000271000000001)) >>
             32;
    v = v * 100000000 + uint32_t(digits);
    p += 8;
  }
  while (p < end && is_digit(*p)) v = v * 10 + Byte(*p++ - '0');
  *value = v;
  return p;
}

// The exponent after e or p; a huge one is cut. False: there are no digits, or something follows them.
inline bool read_exponent(const Byte* p, const Byte* end, int64_t* exponent) noexcept {
  // No text is so long that its digits make up for such an exponent; and another digit doesn't overflow it.
  constexpr int64_t kHuge = int64_t(1) << 58;
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) ++p;
  if (p == end) return false;
  int64_t value = 0;
  for (; p < end; ++p) {
    if (!is_digit(*p)) return false;
    if (value < kHuge) value = value * 10 + (*p - '0');
  }
  if (value > kHuge) value = kHuge;
  *exponent = negative ? -value : value;
  return true;
}

inline bool read_decimal(const Byte* p, const Byte* end, Decimal* d) noexcept {
  const Byte* first = p;
  uint64_t w = 0;
  p = read_digits(p, end, &w);
  int64_t count = p - first;
  const Byte* point = nullptr;
  d->ten = 0;
  d->more = false;
  if (p < end && *p == '.') {
    point = p++;
    p = read_digits(p, end, &w);
    d->ten = -(p - point - 1);
    count -= d->ten;
  }
  if (count == 0) return false;
  const Byte* after = p;
  int64_t exponent = 0;
  if (p < end && ((*p | 32) != 'e' || !read_exponent(p + 1, end, &exponent))) return false;
  if (count > 19) {  // w may have overflowed: parses again, without the zeros before the number
    for (p = first; p < after && (*p == '0' || *p == '.'); ++p) count -= *p == '0';
    if (count > 19) {
      w = 0;
      for (int n = 0; n < 19; ++p) {
        if (*p == '.') continue;
        w = w * 10 + Byte(*p - '0');
        ++n;
      }
      d->ten += count - 19;
      for (; p < after && !d->more; ++p) d->more = *p != '0' && *p != '.';
    }
  }
  d->digits = w;
  d->ten += exponent;
  return true;
}

// Parses an unsigned decimal number by the C library, which is exact. `ten`: the power of ten of its first 19 digits.
template <class Real>
__attribute__((noinline, cold)) inline Real library_decimal(const Byte* p, const Byte* end, int64_t ten) noexcept {
  // The number halfway between two neighbouring doubles has at most 767 digits: it only matters whether the rest is 0.
  // Without a point, the text means the same in every locale.
  constexpr int kEnough = 800;
  char text[kEnough + 32];
  int n = 0;
  bool rest = false;
  for (; p < end && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.' || (n == 0 && *p == '0')) continue;
    if (n < kEnough) {
      text[n++] = char(*p);
    } else {
      rest |= *p != '0';
    }
  }
  if (rest) text[n++] = '1';
  std::snprintf(text + n, 32, "e%lld", static_cast<long long>(ten + 19 - n));
  return sizeof(Real) == sizeof(float) ? Real(std::strtof(text, nullptr)) : Real(std::strtod(text, nullptr));
}

template <class Real>
inline bool parse_decimal(const Byte* p, const Byte* end, bool negative, Real* out) noexcept {
  Decimal d;
  if (!read_decimal(p, end, &d)) return false;
  if (!d.more && d.digits <= uint64_t(1) << 53 && d.ten >= -kExactTens && d.ten <= kExactTens) {
    double x = double(int64_t(d.digits));
    x = d.ten < 0 ? x / kTens[-d.ten] : x * kTens[d.ten];
    if (narrow(negative ? -x : x, out)) return true;
  }
  BitsOf<Real> bits = round_decimal<Real>(d.digits, d.ten);
  if (d.more && bits != round_decimal<Real>(d.digits + 1, d.ten)) {
    Real value = library_decimal<Real>(p, end, d.ten);
    *out = negative ? -value : value;
    return true;
  }
  *out = from_bits<Real>(bits, negative);
  return true;
}

inline int hex_digit(Byte c) noexcept {
  if (is_digit(c)) return c - '0';
  Byte letter = Byte((c | 32) - 'a');
  return letter < 6 ? letter + 10 : -1;
}

// m * 2 ** two, and a little more if there is a `rest`; rounded to nearest, ties to even.
template <class Real>
inline BitsOf<Real> round_binary(uint64_t m, int64_t two, bool rest) noexcept {
  using L = Layout<Real>;
  if (m == 0) return 0;
  int zeros = __builtin_clzll(m);
  m <<= zeros;
  int64_t exponent = two - zeros + 63 + L::kBias;
  if (exponent >= L::kInfinite) return kInfinityBits<Real>;
  int64_t shift = 63 - L::kMantissa;
  if (exponent <= 0) {  // below the normal numbers
    shift += 1 - exponent;
    exponent = 1;
    if (shift > 64) return 0;
  }
  uint64_t mantissa = shift == 64 ? 0 : m >> shift;
  uint64_t below = shift == 64 ? m : m << (64 - shift);
  constexpr uint64_t kHalf = uint64_t(1) << 63;
  mantissa += below > kHalf || (below == kHalf && (rest || (mantissa & 1) != 0));
  // The leading one of a normal number adds 1 to the exponent, and so does a carry.
  return BitsOf<Real>((uint64_t(exponent - 1) << L::kMantissa) + mantissa);
}

// Parses the digits after 0x.
template <class Real>
inline bool parse_hex(const Byte* p, const Byte* end, bool negative, Real* out) noexcept {
  uint64_t m = 0;
  int64_t two = 0, exponent = 0;
  bool rest = false, any = false, point = false;
  for (; p < end; ++p) {
    if (*p == '.' && !point) {
      point = true;
      continue;
    }
    int digit = hex_digit(*p);
    if (digit < 0) break;
    any = true;
    if (m >> 60 == 0) {
      m = m << 4 | uint64_t(digit);
      two -= point ? 4 : 0;
    } else {
      rest |= digit != 0;
      two += point ? 0 : 4;
    }
  }
  if (!any || (p < end && ((*p | 32) != 'p' || !read_exponent(p + 1, end, &exponent)))) return false;
  *out = from_bits<Real>(round_binary<Real>(m, two + exponent, rest), negative);
  return true;
}

inline bool is_word(const Byte* p, const Byte* end, const char* lower) noexcept {
  std::size_t n = std::strlen(lower);
  if (std::size_t(end - p) != n) return false;
  for (std::size_t i = 0; i < n; ++i) {
    if ((p[i] | 32) != Byte(lower[i])) return false;
  }
  return true;
}

inline void trim(const Byte** p, const Byte** end) noexcept {
  while (*p < *end && is_blank(**p)) ++*p;
  while (*p < *end && is_blank((*end)[-1])) --*end;
}

template <class Real>
inline bool parse_real(const Byte* p, const Byte* end, Real* out) noexcept {
  trim(&p, &end);
  if (p == end) return false;
  bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  if (p == end) return false;
  if (*p == '0' && end - p > 1 && (p[1] | 32) == 'x') return parse_hex(p + 2, end, negative, out);
  if (is_digit(*p) || *p == '.') return parse_decimal(p, end, negative, out);
  if (is_word(p, end, "inf") || is_word(p, end, "infinity")) {
    *out = from_bits<Real>(kInfinityBits<Real>, negative);
    return true;
  }
  if (!is_word(p, end, "nan")) return false;
  *out = from_bits<Real>(kInfinityBits<Real> | (BitsOf<Real>(1) << (Layout<Real>::kMantissa - 1)), negative);
  return true;
}

template <class Integer>
inline bool parse_integer(const Byte* p, const Byte* end, Integer* out) noexcept {
  trim(&p, &end);
  if (p == end) return false;
  bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  if (p == end) return false;
  while (end - p > 1 && *p == '0') ++p;
  uint64_t value = 0;
  if (end - p > 19 || read_digits(p, end, &value) != end) return false;
  if (value > uint64_t(std::numeric_limits<Integer>::max()) + (negative ? 1 : 0)) return false;
  *out = Integer(negative ? uint64_t(0) - value : value);
  return true;
}

// Parses a number with blanks around it. Floats may have any form that C reads: decimal or hexadecimal, infinity, nan;
// too large ones become infinity, too small ones 0. Integers are decimal digits in range. False: it is no such number.
template <class Number>
inline bool parse_number(const Byte* p, const Byte* end, Number* out) noexcept {
  if constexpr (std::is_integral_v<Number>) {
    return parse_integer(p, end, out);
  } else {
    return parse_real(p, end, out);
  }
}

}  // namespace queuecore
