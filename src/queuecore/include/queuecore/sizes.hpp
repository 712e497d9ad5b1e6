// Sizes of memory that follow from what a user or a file says. A product or a sum that no size can be becomes kNoSize,
// of which no allocator has memory: malloc and its kin, alloc_lines and map_pages return null for it, and it stays what
// it is in further products (but by 0) and sums. A count below 0 is such a size, too. What a caller does about null is
// the same for "too large" and "no memory", so nothing else needs to be asked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace queuecore {

constexpr std::size_t kNoSize = SIZE_MAX;

// More bytes than one thing (a batch, an element, a record) can have in any machine: sums of thousands still fit.
constexpr std::int64_t kMostBytes = std::int64_t(1) << 44;

inline std::size_t size_product(std::size_t a, std::size_t b) noexcept {
  std::size_t made = 0;
  bool over = __builtin_mul_overflow(a, b, &made);
  // No branch: the compiler would warn of the one that allocates kNoSize.
  return made | (std::size_t(0) - std::size_t(over));
}

inline std::size_t size_sum(std::size_t a, std::size_t b) noexcept {
  std::size_t made = 0;
  bool over = __builtin_add_overflow(a, b, &made);
  return made | (std::size_t(0) - std::size_t(over));
}

}  // namespace queuecore
