// Arithmetic on single items: the same text for the native steps of the host and for kernels on a device. For a kernel it stands in
// front of the code that queuecore/_device/kernels.py writes, which also compiles as C++ for the host: so tests compare the two, bit
// for bit.
//
// It includes no header on a device, where NVRTC has no standard headers. Casts are NumPy's astype: floats to integers truncate, and
// the result for values that don't fit is left to the processor. Sums and products are rounded one by one, regardless of a compiler's
// contraction settings. Neither sign nor payload of a NaN is promised: a device makes others than the host does.
#ifndef QUEUECORE_KERNELS_DEVICE_HPP
#define QUEUECORE_KERNELS_DEVICE_HPP

#if defined(__CUDACC__)
#define QC_DEVICE __device__ inline
#define QC_TABLE static __device__ const
#define QC_KERNEL extern "C" __global__ void __launch_bounds__(256)
// Threads take turns over items, so that neighbours write neighbours.
#define QC_FIRST (blockIdx.x * blockDim.x + threadIdx.x)
#define QC_STEP (gridDim.x * blockDim.x)
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#define QC_DEVICE inline
#define QC_TABLE static const
#define QC_KERNEL extern "C" void
#define QC_FIRST 0
#define QC_STEP 1
#endif

namespace queuecore {

#if defined(__CUDACC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#endif

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;
template <class T>
constexpr bool kFloating = kSame<T, float> || kSame<T, double>;

struct Bool {
  uint8_t byte;
};

struct Half {
  uint16_t bits;
};

// The upper half of a float.
struct Brain {
  uint16_t bits;
};

template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T real, imag;
};

// ---- bits ----------------------------------------------------------------------------------------------------------

#if defined(__CUDACC__)
QC_DEVICE float float_of_bits(uint32_t bits) noexcept { return __uint_as_float(bits); }
QC_DEVICE uint32_t bits_of_float(float f) noexcept { return __float_as_uint(f); }
QC_DEVICE double double_of_bits(uint64_t bits) noexcept { return __longlong_as_double(int64_t(bits)); }
QC_DEVICE uint64_t bits_of_double(double d) noexcept { return uint64_t(__double_as_longlong(d)); }
#else
inline float float_of_bits(uint32_t bits) noexcept {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

inline uint32_t bits_of_float(float f) noexcept {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

inline double double_of_bits(uint64_t bits) noexcept {
  double d;
  std::memcpy(&d, &bits, 8);
  return d;
}

inline uint64_t bits_of_double(double d) noexcept {
  uint64_t bits;
  std::memcpy(&bits, &d, 8);
  return bits;
}
#endif

// ---- casts ---------------------------------------------------------------------------------------------------------

QC_DEVICE float float_of_half(Half h) noexcept {
  uint32_t magnitude = uint32_t(h.bits & 0x7fff) << 13;
  uint32_t exponent = magnitude & 0x0f800000;
  float f;
  if (exponent == 0) {
    // 2^-14 + x is exact, and so is the difference.
    f = float_of_bits(magnitude + 0x38800000) - float_of_bits(0x38800000);
  } else if (exponent == 0x0f800000) {
    f = float_of_bits(magnitude + 0x70000000);
  } else {
    f = float_of_bits(magnitude + 0x38000000);
  }
  return float_of_bits(bits_of_float(f) | uint32_t(h.bits & 0x8000) << 16);
}

QC_DEVICE Half half_of_float(float f) noexcept {
  uint32_t bits = bits_of_float(f);
  uint32_t sign = bits >> 16 & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x47800000) {
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {
    // At 0.5 the last bit of a float is worth as much as that of a subnormal half: the addition rounds.
    half = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000;
  } else {
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return {uint16_t(half | sign)};
}

QC_DEVICE Half half_of_double(double d) noexcept {
  // Through a float that is rounded to odd, so that rounding twice does no harm.
  float f = float(d);
  double back = double(f);
  if (back != d && d == d) {
    uint32_t bits = bits_of_float(f);
    if ((back < 0 ? -back : back) > (d < 0 ? -d : d)) bits -= 1;
    f = float_of_bits(bits | 1);
  }
  return half_of_float(f);
}

QC_DEVICE float float_of_brain(Brain b) noexcept { return float_of_bits(uint32_t(b.bits) << 16); }

QC_DEVICE Brain brain_of_float(float f) noexcept {
  uint32_t bits = bits_of_float(f);
  // To nearest, ties to even; and one NaN for each sign, so that none becomes an infinity.
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t nan = (bits >> 16 & 0x8000) | 0x7fc0;
  return {uint16_t((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

template <class Out, class In>
QC_DEVICE Out converted(In x) noexcept {
  if constexpr (kSame<In, Out>) {
    return x;
  } else if constexpr (kSame<In, Brain>) {
    return converted<Out>(float_of_brain(x));
  } else if constexpr (kSame<Out, Brain>) {
    return brain_of_float(converted<float>(x));
  } else if constexpr (kSame<Out, Bool>) {
    if constexpr (kSame<In, Half>) {
      return {uint8_t((x.bits & 0x7fff) != 0)};
    } else {
      return {uint8_t(x != In(0))};
    }
  } else if constexpr (kSame<In, Bool>) {
    return converted<Out>(uint8_t(x.byte != 0));
  } else if constexpr (kSame<In, Half>) {
    return Out(float_of_half(x));
  } else if constexpr (kSame<Out, Half>) {
    if constexpr (kSame<In, double>) {
      return half_of_double(x);
    } else {
      return half_of_float(float(x));
    }
  } else {
    return Out(x);
  }
}

// ---- loads ---------------------------------------------------------------------------------------------------------

template <int size>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = uint8_t;
};
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};
template <>
struct BitsOf<8> {
  using Type = uint64_t;
};

template <class T>
QC_DEVICE T item_of_bits(typename BitsOf<sizeof(T)>::Type bits) noexcept {
  if constexpr (kSame<T, float>) {
    return float_of_bits(bits);
  } else if constexpr (kSame<T, double>) {
    return double_of_bits(bits);
  } else if constexpr (kSame<T, Bool>) {
    return {uint8_t(bits != 0)};
  } else if constexpr (kSame<T, Half> || kSame<T, Brain>) {
    return {bits};
  } else {
    return T(bits);
  }
}

// An item in memory, in this byte order or in the other one; `aligned`: its address is a multiple of its size.
template <class T, bool swapped, bool aligned>
struct Load {
  static QC_DEVICE T at(const uint8_t* p) noexcept {
    using Bits = typename BitsOf<sizeof(T)>::Type;
    constexpr int size = sizeof(T);
    Bits bits = 0;
    if constexpr (aligned && !swapped) {
      using Aliasing __attribute__((may_alias)) = Bits;
      bits = *reinterpret_cast<const Aliasing*>(p);
    } else if constexpr (aligned) {
      uint64_t given = Load<Bits, false, true>::at(p);
      for (int i = 0; i < size; i++) bits = Bits(uint64_t(bits) << 8 | (given >> 8 * i & 0xff));
    } else {
      for (int i = 0; i < size; i++) bits = Bits(uint64_t(bits) << 8 | p[swapped ? i : size - 1 - i]);
    }
    return item_of_bits<T>(bits);
  }
};

template <class T, bool swapped, bool aligned>
struct Load<Complex<T>, swapped, aligned> {
  static QC_DEVICE Complex<T> at(const uint8_t* p) noexcept {
    return {Load<T, swapped, aligned>::at(p), Load<T, swapped, aligned>::at(p + sizeof(T))};
  }
};

// ---- NumPy's loops, under their names ------------------------------------------------------------------------------

namespace loops {

#if defined(__CUDACC__)
QC_DEVICE float rounded_sum(float a, float b) noexcept { return __fadd_rn(a, b); }
QC_DEVICE double rounded_sum(double a, double b) noexcept { return __dadd_rn(a, b); }
QC_DEVICE float rounded_product(float a, float b) noexcept { return __fmul_rn(a, b); }
QC_DEVICE double rounded_product(double a, double b) noexcept { return __dmul_rn(a, b); }
QC_DEVICE float rounded_quotient(float a, float b) noexcept { return __fdiv_rn(a, b); }
QC_DEVICE double rounded_quotient(double a, double b) noexcept { return __ddiv_rn(a, b); }
QC_DEVICE float rounded_root(float a) noexcept { return __fsqrt_rn(a); }
QC_DEVICE double rounded_root(double a) noexcept { return __dsqrt_rn(a); }
#else
template <class T>
inline T rounded_sum(T a, T b) noexcept {
  return a + b;
}
template <class T>
inline T rounded_product(T a, T b) noexcept {
  return a * b;
}
template <class T>
inline T rounded_quotient(T a, T b) noexcept {
  return a / b;
}
template <class T>
inline T rounded_root(T a) noexcept {
  return std::sqrt(a);
}
#endif

// Halves are computed as floats and rounded after each operation; of two halves that is the same as rounding once.
template <class T>
QC_DEVICE auto number(T x) noexcept {
  if constexpr (kSame<T, Half>) {
    return float_of_half(x);
  } else if constexpr (kSame<T, Bool>) {
    return uint8_t(x.byte != 0);
  } else {
    return x;
  }
}

template <class T>
QC_DEVICE T negative(T x) noexcept {
  if constexpr (kFloating<T>) {
    return -x;
  } else if constexpr (kSame<T, Half>) {
    return {uint16_t(x.bits ^ 0x8000)};
  } else {
    return T(0 - uint64_t(x));
  }
}

// Integers wrap; a sum of booleans is an or, a product an and.
template <class T>
QC_DEVICE T add(T a, T b) noexcept {
  if constexpr (kFloating<T>) {
    return rounded_sum(a, b);
  } else if constexpr (kSame<T, Half>) {
    return half_of_float(rounded_sum(number(a), number(b)));
  } else if constexpr (kSame<T, Bool>) {
    return {uint8_t(number(a) | number(b))};
  } else {
    return T(uint64_t(a) + uint64_t(b));
  }
}

template <class T>
QC_DEVICE T subtract(T a, T b) noexcept {
  return add(a, negative(b));
}

template <class T>
QC_DEVICE T multiply(T a, T b) noexcept {
  if constexpr (kFloating<T>) {
    return rounded_product(a, b);
  } else if constexpr (kSame<T, Half>) {
    return half_of_float(rounded_product(number(a), number(b)));
  } else if constexpr (kSame<T, Bool>) {
    return {uint8_t(number(a) & number(b))};
  } else {
    return T(uint64_t(a) * uint64_t(b));
  }
}

template <class T>
QC_DEVICE T square(T x) noexcept {
  return multiply(x, x);
}

template <class T>
QC_DEVICE T divide(T a, T b) noexcept {
  if constexpr (kSame<T, Half>) {
    return half_of_float(rounded_quotient(number(a), number(b)));
  } else {
    return rounded_quotient(a, b);
  }
}

template <class T>
QC_DEVICE T sqrt(T x) noexcept {
  if constexpr (kSame<T, Half>) {
    return half_of_float(rounded_root(number(x)));
  } else {
    return rounded_root(x);
  }
}

template <class T>
QC_DEVICE T absolute(T x) noexcept {
  if constexpr (kSame<T, float>) {
    return float_of_bits(bits_of_float(x) & 0x7fffffff);
  } else if constexpr (kSame<T, double>) {
    return double_of_bits(bits_of_double(x) & 0x7fffffffffffffff);
  } else if constexpr (kSame<T, Half>) {
    return {uint16_t(x.bits & 0x7fff)};
  } else if constexpr (kSame<T, Bool>) {
    return x;
  } else {
    return x < T(0) ? negative(x) : x;
  }
}

#define QC_COMPARISON(name, sign)               \
  template <class T>                            \
  QC_DEVICE Bool name(T a, T b) noexcept {      \
    return {uint8_t(number(a) sign number(b))}; \
  }
QC_COMPARISON(equal, ==)
QC_COMPARISON(not_equal, !=)
QC_COMPARISON(less, <)
QC_COMPARISON(less_equal, <=)
QC_COMPARISON(greater, >)
QC_COMPARISON(greater_equal, >=)
#undef QC_COMPARISON

template <class T>
QC_DEVICE bool truth(T x) noexcept {
  return number(x) != 0;
}

template <class T>
QC_DEVICE Bool logical_and(T a, T b) noexcept {
  return {uint8_t(truth(a) && truth(b))};
}

template <class T>
QC_DEVICE Bool logical_or(T a, T b) noexcept {
  return {uint8_t(truth(a) || truth(b))};
}

template <class T>
QC_DEVICE Bool logical_xor(T a, T b) noexcept {
  return {uint8_t(truth(a) != truth(b))};
}

template <class T>
QC_DEVICE Bool logical_not(T x) noexcept {
  return {uint8_t(!truth(x))};
}

#define QC_BITWISE(name, sign)                    \
  template <class T>                              \
  QC_DEVICE T name(T a, T b) noexcept {           \
    if constexpr (kSame<T, Bool>) {               \
      return {uint8_t(number(a) sign number(b))}; \
    } else {                                      \
      return T(a sign b);                         \
    }                                             \
  }
QC_BITWISE(bitwise_and, &)
QC_BITWISE(bitwise_or, |)
QC_BITWISE(bitwise_xor, ^)
#undef QC_BITWISE

template <class T>
QC_DEVICE T invert(T x) noexcept {
  if constexpr (kSame<T, Bool>) {
    return logical_not(x);
  } else {
    return T(~x);
  }
}

// A NaN wins. Of equal numbers, which may be two zeros, the second wins; of equal halves, the first.
template <class T>
QC_DEVICE T maximum(T a, T b) noexcept {
  return number(a) > number(b) || number(a) != number(a) || (kSame<T, Half> && number(a) == number(b)) ? a : b;
}

template <class T>
QC_DEVICE T minimum(T a, T b) noexcept {
  return number(a) < number(b) || number(a) != number(a) || (kSame<T, Half> && number(a) == number(b)) ? a : b;
}

template <class T>
QC_DEVICE T where(Bool which, T a, T b) noexcept {
  return which.byte ? a : b;
}

}  // namespace loops

// The offset at which the next output may begin.
QC_DEVICE uint64_t aligned_bytes(uint64_t nbytes) noexcept { return (nbytes + 255) / 256 * 256; }

}  // namespace queuecore

#endif
