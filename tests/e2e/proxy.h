#pragma once
// A proxy that sends for eight local ranks over one connection, as NCCL's does with PXN, and the
// plan of every round, which both sides know beforehand. Thread: one owner, in the place of the
// progress thread.

#include "tests/e2e/line.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <random>

namespace mesh::e2e {

inline constexpr std::size_t kTags = 8;
inline constexpr std::size_t kOpen = 8;  // open sends of each tag, and open groups
inline constexpr std::size_t kRoom = 65536;
inline constexpr int kFirstTag = 40;

// The plan of every round, known to both sides: which ranks send, and how much.
class Plan {
 public:
  Plan(std::uint64_t seed, std::uint64_t rounds, std::size_t bytes_max)
      : seed_(seed), rounds_(rounds), bytes_max_(bytes_max) {}

  std::uint64_t rounds() const { return rounds_; }
  bool has(std::uint64_t round, std::size_t tag) const {
    const std::uint64_t mask = mix(round) & 0xff;
    return mask == 0 ? tag == round % kTags : ((mask >> tag) & 1) != 0;
  }
  std::size_t bytes(std::uint64_t round, std::size_t tag) const {
    const std::uint64_t drawn = mix(round * kTags + tag + 1);
    if (drawn % 8 == 0) return 0;
    return drawn % 64 == 1 ? bytes_max_ : (drawn >> 8) % std::min<std::size_t>(bytes_max_, 3000);
  }
  static driver::PatternKey key(std::uint64_t round, std::size_t tag) {
    return {.seed = 5, .sender = static_cast<std::uint32_t>(tag), .message = round};
  }

 private:
  std::uint64_t mix(std::uint64_t value) const {
    std::uint64_t x = (value + 1) * 0x9e3779b97f4a7c15u + seed_;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 29);
  }
  std::uint64_t seed_, rounds_;
  std::size_t bytes_max_;
};

inline std::size_t place_of(std::uint64_t number, std::size_t tag) {
  return (number % kOpen * kTags + tag) * kRoom;
}

// The proxy starts the sends that are ready, for each local rank, and tests the oldest one.
class Proxy {
 public:
  Proxy(Line& line, const Plan& plan) : line_(line), plan_(plan), random_(7) {
    for (Rank& rank : ranks_) skip(rank);
  }
  // The rank that sends nothing until all other ranks are stuck or done.
  std::size_t late_tag = SIZE_MAX;

  bool done() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.round == plan_.rounds() && rank.open.empty();
    });
  }
  bool turn() {
    const std::size_t tag = random_() % kTags;
    Rank& rank = ranks_[tag];
    bool moved = false;
    if (rank.round < plan_.rounds() && rank.open.size() < kOpen && may_send(tag))
      moved = start(rank, tag);
    if (!rank.open.empty()) moved = take(rank) || moved;
    idle_ = moved ? 0 : idle_ + 1;
    return moved;
  }

 private:
  struct Rank {
    std::uint64_t round = 0, sent = 0;
    std::deque<void*> open;
  };
  bool may_send(std::size_t tag) const { return tag != late_tag || idle_ > 500; }
  std::size_t tag_of(const Rank& rank) const {
    return static_cast<std::size_t>(&rank - ranks_.data());
  }
  void skip(Rank& rank) const {
    while (rank.round < plan_.rounds() && !plan_.has(rank.round, tag_of(rank))) ++rank.round;
  }
  bool start(Rank& rank, std::size_t tag) {
    const std::size_t at = place_of(rank.sent, tag), bytes = plan_.bytes(rank.round, tag);
    driver::fill_pattern(Plan::key(rank.round, tag), line_.memory().data() + at, bytes);
    void* request = &rank;
    require_success(
        line_.communicator().api().isend(
            line_.comm(), line_.memory().piece(at, bytes, kFirstTag + static_cast<int>(tag)),
            &request),
        "isend");
    if (request == nullptr) return false;
    rank.open.push_back(request);
    ++rank.sent, ++rank.round;
    skip(rank);
    return true;
  }
  bool take(Rank& rank) {
    int finished = 0, bytes = -1;
    require_success(line_.communicator().api().test(rank.open.front(), &finished, &bytes),
                    "test of a send");
    if (finished != 0) rank.open.pop_front();
    return finished != 0;
  }

  Line& line_;
  const Plan& plan_;
  std::mt19937 random_;
  std::array<Rank, kTags> ranks_;
  std::uint64_t idle_ = 0;
};

}  // namespace mesh::e2e
