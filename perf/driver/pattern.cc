#include "perf/driver/pattern.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cstring>

namespace mesh::driver {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kBlock = 4096;
// The part that one thread takes. Less than this is done before another processor has heard of it.
constexpr std::size_t kShare = std::size_t{4} << 20;
static_assert(kShare % kBlock == 0 && kBlock % kWord == 0);
// The factor is odd, so multiplication is a bijection of 64-bit words.
constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t kOddInverse = 0xf1de83e19937733du;  // kOdd * kOddInverse == 1
static_assert(kOdd * kOddInverse == 1);

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::uint64_t base_of(const PatternKey& key) noexcept {
  return mix(mix(mix(key.seed + kOdd) + key.sender + 1) + key.message + 1);
}

std::uint64_t word_at(std::uint64_t base, std::size_t index) noexcept {
  return (base + index) * kOdd;
}

// The loop has no branch, so that it runs at the speed of memory. Only a block with a mistake is
// examined word by word.
bool block_good(std::uint64_t base, const unsigned char* found) noexcept {
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < kBlock / kWord; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, found + i * kWord, kWord);
    difference |= word ^ word_at(base, i);
  }
  return difference == 0;
}

struct Range {
  std::size_t begin = 0, end = 0;
};

void check_words(std::uint64_t base, const unsigned char* in, const Range& range,
                 PatternVerdict& verdict) noexcept {
  for (std::size_t offset = range.begin; offset < range.end; offset += kWord) {
    const std::uint64_t expected = word_at(base, offset / kWord);
    unsigned char want[kWord];
    std::memcpy(want, &expected, kWord);
    for (std::size_t at = offset; at < std::min(offset + kWord, range.end); ++at) {
      if (in[at] != want[at - offset] && verdict.wrong_bytes++ == 0) verdict.first_offset = at;
    }
  }
}

void fill_range(std::uint64_t base, unsigned char* out, const Range& range) noexcept {
  std::size_t offset = range.begin;
  for (; offset + kWord <= range.end; offset += kWord) {
    const std::uint64_t word = word_at(base, offset / kWord);
    std::memcpy(out + offset, &word, kWord);
  }
  const std::uint64_t last = word_at(base, offset / kWord);
  std::memcpy(out + offset, &last, range.end - offset);
}

PatternVerdict check_range(std::uint64_t base, const unsigned char* in,
                           const Range& range) noexcept {
  PatternVerdict verdict;
  for (std::size_t offset = range.begin; offset < range.end; offset += kBlock) {
    const std::size_t room = std::min(kBlock, range.end - offset);
    if (room == kBlock && block_good(base + offset / kWord, in + offset)) continue;
    check_words(base, in, {offset, offset + room}, verdict);
  }
  return verdict;
}

// Joins the verdicts of two successive parts of one message.
PatternVerdict both(const PatternVerdict& before, const PatternVerdict& after) noexcept {
  return {before.wrong_bytes + after.wrong_bytes,
          before.good() ? after.first_offset : before.first_offset};
}

// Shares have kShare bytes, but for the last one, so every word lies in one of them.
using Shares = tbb::blocked_range<std::size_t>;
Shares shares_of(std::size_t bytes) { return {0, (bytes + kShare - 1) / kShare, 1}; }
Range bytes_of(const Shares& shares, std::size_t bytes) noexcept {
  return {shares.begin() * kShare, std::min(shares.end() * kShare, bytes)};
}

}  // namespace

void fill_pattern(const PatternKey& key, void* data, std::size_t bytes) {
  const std::uint64_t base = base_of(key);
  auto* const out = static_cast<unsigned char*>(data);
  if (bytes <= 2 * kShare) return fill_range(base, out, {0, bytes});
  tbb::parallel_for(shares_of(bytes),
                    [&](const Shares& shares) { fill_range(base, out, bytes_of(shares, bytes)); });
}

PatternVerdict check_pattern(const PatternKey& key, const void* data, std::size_t bytes) {
  const std::uint64_t base = base_of(key);
  const auto* const in = static_cast<const unsigned char*>(data);
  if (bytes <= 2 * kShare) return check_range(base, in, {0, bytes});
  const auto check_shares = [&](const Shares& shares, const PatternVerdict& before) {
    return both(before, check_range(base, in, bytes_of(shares, bytes)));
  };
  return tbb::parallel_reduce(shares_of(bytes), PatternVerdict{}, check_shares, both);
}

std::string describe(const PatternVerdict& verdict, const PatternKey& key, const void* data,
                     std::size_t bytes) {
  if (verdict.good()) return "every byte is in its place";
  std::string text = std::to_string(verdict.wrong_bytes) + " of " + std::to_string(bytes) +
                     " bytes wrong, first at offset " + std::to_string(verdict.first_offset) +
                     " of message " + std::to_string(key.message) + " from rank " +
                     std::to_string(key.sender);
  const std::size_t at = verdict.first_offset / kWord * kWord;
  if (at + kWord > bytes) return text;
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const unsigned char*>(data) + at, kWord);
  const std::uint64_t index = word * kOddInverse - base_of(key);
  if (index < bytes / kWord)
    return text + ": that word belongs at offset " + std::to_string(index * kWord);
  return text + (word == 0 ? ": never written" : ": that word is of no place in this message");
}

}  // namespace mesh::driver
