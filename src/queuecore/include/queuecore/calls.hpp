// Calls of functions whose signature is known only when a step is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace queuecore {

constexpr int kMostWords = 16;

template <class Result, std::size_t... Index>
Result call_words(void* function, const std::intptr_t* words, std::index_sequence<Index...>) {
  using Function = Result (*)(decltype((static_cast<void>(Index), std::intptr_t{}))...);
  return reinterpret_cast<Function>(function)(words[Index]...);
}

// Calls a function with the first n words, which are pointers and 64-bit integers: both calling conventions that are
// supported (System V on x86-64, AAPCS64) pass these alike. n is at most kMostWords.
template <class Result, int Count = 0>
Result call_with(void* function, const std::intptr_t* words, int n) {
  if constexpr (Count < kMostWords) {
    if (n != Count) return call_with<Result, Count + 1>(function, words, n);
  }
  return call_words<Result>(function, words, std::make_index_sequence<Count>());
}

// result_bytes: the size of the signed integer that the function returns; 0: it returns nothing, and the result is 0.
inline std::int64_t call_function(void* function, const std::intptr_t* words, int n, int result_bytes) noexcept {
  if (result_bytes == 4) return call_with<std::int32_t>(function, words, n);
  if (result_bytes == 8) return call_with<std::int64_t>(function, words, n);
  call_with<void>(function, words, n);
  return 0;
}

}  // namespace queuecore
