#pragma once
// Sets of queue pair indices in two levels of bits, so that a look at an empty set costs one word.
// Thread: an IndexSet belongs to one thread; Bells are rung by any thread of any process and
// emptied by the NIC's turn. Bound: kQpsMax indices.

#include "src/base/check.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mesh::soft {

// Queue pairs of one NIC: 64 words of bits under one summary word.
inline constexpr std::uint32_t kQpsMax = 4096;
inline constexpr std::uint32_t kBellWords = kQpsMax / 64;

class IndexSet {
 public:
  bool empty() const noexcept { return summary_ == 0; }
  bool has(std::uint32_t index) const noexcept {
    DCHECK(index < kQpsMax);
    return (words_[index / 64] >> (index % 64) & 1) != 0;
  }
  void insert(std::uint32_t index) noexcept { merge(index / 64, std::uint64_t{1} << (index % 64)); }
  void merge(std::uint32_t word, std::uint64_t bits) noexcept {
    DCHECK(word < kBellWords && bits != 0);
    words_[word] |= bits;
    summary_ |= std::uint64_t{1} << word;
  }
  void erase(std::uint32_t index) noexcept {
    DCHECK(index < kQpsMax);
    const std::uint32_t word = index / 64;
    words_[word] &= ~(std::uint64_t{1} << (index % 64));
    if (words_[word] == 0) summary_ &= ~(std::uint64_t{1} << word);
  }
  // Returns the first index at or after `from`, or kQpsMax.
  std::uint32_t next(std::uint32_t from) const noexcept {
    if (from >= kQpsMax) return kQpsMax;
    const std::uint32_t word = from / 64;
    const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (from % 64));
    if (here != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
    const std::uint64_t later = word == 63 ? 0 : summary_ & (~std::uint64_t{0} << (word + 1));
    if (later == 0) return kQpsMax;
    const auto found = static_cast<std::uint32_t>(std::countr_zero(later));
    DCHECK(words_[found] != 0);
    return found * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[found]));
  }

 private:
  std::uint64_t summary_ = 0;
  std::array<std::uint64_t, kBellWords> words_{};
};

class Bells {
 public:
  // Rings. Only the ringer that finds the word empty sets its bit in the summary; the bit stays set
  // until the turn takes the word.
  void ring(std::uint32_t index) noexcept {
    DCHECK(index < kQpsMax);
    const std::uint32_t word = index / 64;
    const std::uint64_t old =
        words_[word].fetch_or(std::uint64_t{1} << (index % 64), std::memory_order_seq_cst);
    if (old == 0) summary_.fetch_or(std::uint64_t{1} << word, std::memory_order_seq_cst);
  }
  bool any() const noexcept { return summary_.load(std::memory_order_seq_cst) != 0; }
  void take(IndexSet& into) noexcept {
    if (summary_.load(std::memory_order_relaxed) == 0) return;
    std::uint64_t summary = summary_.exchange(0, std::memory_order_seq_cst);
    for (; summary != 0; summary &= summary - 1) {
      const auto word = static_cast<std::uint32_t>(std::countr_zero(summary));
      const std::uint64_t bits = words_[word].exchange(0, std::memory_order_seq_cst);
      if (bits != 0) into.merge(word, bits);
    }
  }
  // Takes every index whose ring() has ended, even where another ringer of its word has yet to set
  // the summary.
  void take_all(IndexSet& into) noexcept {
    for (std::uint32_t word = 0; word < kBellWords; ++word) {
      if (words_[word].load(std::memory_order_relaxed) == 0) continue;
      into.merge(word, words_[word].exchange(0, std::memory_order_seq_cst));
    }
  }

 private:
  alignas(64) std::atomic<std::uint64_t> summary_;
  alignas(64) std::array<std::atomic<std::uint64_t>, kBellWords> words_;
};

// Marked queue pairs. Thread: any of any process. Bound: kQpsMax indices.
class Marks {
 public:
  void set(std::uint32_t index) noexcept {
    word(index).fetch_or(bit(index), std::memory_order_seq_cst);
  }
  // Unmarks the queue pair. Returns false if it was not marked.
  bool take(std::uint32_t index) noexcept {
    if ((word(index).load(std::memory_order_seq_cst) & bit(index)) == 0) return false;
    return (word(index).fetch_and(~bit(index), std::memory_order_seq_cst) & bit(index)) != 0;
  }
  // Marks those of `other` too.
  void set_all(const Marks& other) noexcept {
    for (std::uint32_t i = 0; i < kBellWords; ++i) {
      const std::uint64_t bits = other.words_[i].load(std::memory_order_relaxed);
      if (bits != 0) words_[i].fetch_or(bits, std::memory_order_seq_cst);
    }
  }

 private:
  static std::uint64_t bit(std::uint32_t index) noexcept {
    return std::uint64_t{1} << (index % 64);
  }
  std::atomic<std::uint64_t>& word(std::uint32_t index) noexcept {
    DCHECK(index < kQpsMax);
    return words_[index / 64];
  }
  alignas(64) std::array<std::atomic<std::uint64_t>, kBellWords> words_{};
};

}  // namespace mesh::soft
