#pragma once
// A proxy that sends for eight local ranks over one connection, as NCCL's does with PXN, and the
// plan of every round, which both sides know beforehand. The local ranks may be in processes of
// their own, which share the proxy's memory. Thread: one owner, in the place of the progress
// thread.

#include "tests/e2e/line.h"

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
  // From that round on these tags have no messages. Tag 0 stays.
  void end_tags(std::uint64_t mask, std::uint64_t from_round) {
    ended_ = mask;
    ended_from_ = from_round;
  }
  bool has(std::uint64_t round, std::size_t tag) const {
    const std::uint64_t mask = mix(round) & 0xff & (round < ended_from_ ? 0xff : ~ended_);
    return mask == 0 ? tag == 0 : ((mask >> tag) & 1) != 0;
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
  std::uint64_t ended_ = 0, ended_from_ = UINT64_MAX;
};

inline std::size_t place_of(std::uint64_t number, std::size_t tag) {
  return (number % kOpen * kTags + tag) * kRoom;
}

// Counts the messages of a tag that its rank has written and its proxy has sent.
struct Progress {
  std::atomic<std::uint64_t> written{0}, sent{0};  // released after the bytes, and after the send
};

// The proxy starts the sends that are ready, for each local rank, and tests the oldest one.
class Proxy {
 public:
  Proxy(Line& line, const Plan& plan) : line_(line), plan_(plan), random_(7) {
    for (Rank& rank : ranks_) skip(rank);
  }
  // The rank that sends nothing until all other ranks are stuck or done.
  std::size_t late_tag = SIZE_MAX;
  Progress* progress = nullptr;  // by tag: other processes write the messages; null: none does
  std::uint64_t held_from = UINT64_MAX;  // the first round that it does not send yet

  bool done() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.round >= std::min(plan_.rounds(), held_from) && rank.open.empty();
    });
  }
  bool turn() {
    const std::size_t tag = random_() % kTags;
    Rank& rank = ranks_[tag];
    bool moved = false;
    if (rank.round < std::min(plan_.rounds(), held_from) && rank.open.size() < kOpen &&
        may_send(tag))
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
  bool may_send(std::size_t tag) const {
    const bool written = progress == nullptr ||
                         progress[tag].written.load(std::memory_order_acquire) > ranks_[tag].sent;
    return written && (tag != late_tag || idle_ > 500);
  }
  std::size_t tag_of(const Rank& rank) const {
    return static_cast<std::size_t>(&rank - ranks_.data());
  }
  void skip(Rank& rank) const {
    while (rank.round < plan_.rounds() && !plan_.has(rank.round, tag_of(rank))) ++rank.round;
  }
  bool start(Rank& rank, std::size_t tag) {
    const std::size_t at = place_of(rank.sent, tag), bytes = plan_.bytes(rank.round, tag);
    if (progress == nullptr)
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
    if (finished == 0) return false;
    rank.open.pop_front();
    if (progress != nullptr) progress[tag_of(rank)].sent.fetch_add(1, std::memory_order_release);
    return true;
  }

  Line& line_;
  const Plan& plan_;
  std::mt19937 random_;
  std::array<Rank, kTags> ranks_;
  std::uint64_t idle_ = 0;
};

// Writes the messages of some tags into the memory of the proxy, each as soon as there is room.
class LocalRank {
 public:
  LocalRank(char* memory, Progress* progress, const Plan& plan,
            const std::vector<std::size_t>& tags)
      : memory_(memory), progress_(progress), plan_(plan) {
    for (const std::size_t tag : tags) rounds_.push_back({.tag = tag});
  }
  bool done() const {
    return std::all_of(rounds_.begin(), rounds_.end(),
                       [&](const Round& each) { return each.number == plan_.rounds(); });
  }
  bool turn() {
    bool moved = false;
    for (Round& each : rounds_) moved |= each.number < plan_.rounds() && write(each);
    return moved;
  }

 private:
  struct Round {
    std::size_t tag = 0;
    std::uint64_t number = 0;
  };
  bool write(Round& round) {
    Progress& progress = progress_[round.tag];
    if (plan_.has(round.number, round.tag)) {
      const std::uint64_t number = progress.written.load(std::memory_order_relaxed);
      if (number >= progress.sent.load(std::memory_order_acquire) + kOpen) return false;
      driver::fill_pattern(Plan::key(round.number, round.tag),
                           memory_ + place_of(number, round.tag),
                           plan_.bytes(round.number, round.tag));
      progress.written.store(number + 1, std::memory_order_release);
    }
    ++round.number;
    return true;
  }

  char* memory_;
  Progress* progress_;
  const Plan& plan_;
  std::vector<Round> rounds_;
};

}  // namespace mesh::e2e
