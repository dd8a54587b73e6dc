#pragma once
// Reads and writes words with counts: the next host writes them, and the previous host has them in
// its memory and reads them. Thread: the queue pair's poster; a NIC writes the words. Bound:
// kCountWords + 1 work requests outstanding, which need entries of their own in the send queue.

#include "src/relay/wire.h"
#include "src/verbs/provider.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace mesh::relay {

// A cache line of words, registered for remote writes. Words that are not counts stay zero.
struct alignas(64) CountLine {
  std::array<std::uint64_t, 8> words{};
  bool has_last() noexcept {
    return std::atomic_ref(words[kLastWord]).load(std::memory_order_relaxed) != 0;
  }
};
static_assert(kLastWord < 8 && sizeof(CountLine) == 64);

// Tells whether a line has changed since it was looked at last.
class CountLook {
 public:
  bool finds_news(CountLine& line) noexcept;
  void forget() noexcept { seen_ = {}; }

 private:
  CountLine seen_;
};

// read_counts() returns the newest counts of a line. It needs the counts known so far, because a
// word has the low bits only.
struct KnownCounts {
  std::uint64_t free = 0, done = 0;
};
Counts read_counts(CountLine& line, const KnownCounts& known) noexcept;

// Returns the status that the counts bring, which is not success. A value that no device reports
// becomes IBV_WC_RETRY_EXC_ERR, that of a lost path.
ibv_wc_status told_status(const Counts& counts) noexcept;

class CountWriter {
 public:
  static constexpr std::uint32_t kRequestsMax = kCountWords + 1;

  struct Setup {
    ibv_qp* qp = nullptr;
    CountLine* source = nullptr;  // registered
    std::uint32_t lkey = 0;
    std::uint32_t inline_bytes = 0;
    std::uint64_t id_base = 0;  // the word's index is added
  };
  void open(const Setup& setup) noexcept { setup_ = setup; }
  void set_target(const CountsTarget& target) noexcept { target_ = target; }

  // Returns true if the next word in turn can be written.
  bool ready() const noexcept { return (busy_ & 1u << next_) == 0; }
  [[nodiscard]] int write(const Counts& counts) noexcept;       // 0, or the errno of a refusal
  [[nodiscard]] int write_last(const Counts& counts) noexcept;  // may be called once
  void on_written(std::uint32_t word) noexcept { busy_ &= ~(1u << word); }
  bool last_is_written() const noexcept { return (busy_ & 1u << kLastWord) == 0; }

 private:
  int post(std::uint32_t word, const Counts& counts) noexcept;

  Setup setup_;
  CountsTarget target_;
  std::uint32_t next_ = 0;
  std::uint32_t busy_ = 0;  // a bit for each word that is on its way
};

}  // namespace mesh::relay
