#pragma once
// Receives what a proxy sends, each round as one group, and checks every size and byte. Thread: one
// owner, in the place of the progress thread.

#include "tests/e2e/proxy.h"

#include <array>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace mesh::e2e {

class GroupReceiver {
 public:
  GroupReceiver(Line& line, const Plan& plan) : line_(line), plan_(plan) {}

  bool done() const { return next_ == plan_.rounds() && open_.empty(); }
  bool turn() {
    bool moved = false;
    if (next_ < plan_.rounds() && open_.size() < kOpen) moved = start();
    if (!open_.empty()) moved = take() || moved;
    return moved;
  }

 private:
  struct Group {
    void* request = nullptr;
    std::uint64_t round = 0;
    std::vector<std::size_t> tags;  // of its members
    void* flush = nullptr;
  };
  driver::NetPiece piece(std::uint64_t round, std::size_t tag, std::size_t bytes) const {
    return line_.memory().piece(place_of(round, tag), bytes, kFirstTag + static_cast<int>(tag));
  }
  bool start() {
    Group group;
    group.round = next_;
    std::vector<driver::NetPiece> pieces;
    for (std::size_t i = 0; i < kTags; ++i) {
      const std::size_t tag = (i * 5 + next_) % kTags;
      if (!plan_.has(next_, tag)) continue;
      group.tags.push_back(tag);
      // NCCL's receives have the room of a whole slot.
      pieces.push_back(piece(next_, tag, plan_.bytes(next_, tag) == 0 ? 0 : kRoom));
    }
    group.request = this;
    require_success(line_.communicator().api().irecv_group(line_.comm(), pieces, &group.request),
                    "irecv");
    if (group.request == nullptr) return false;
    open_.push_back(group);
    ++next_;
    return true;
  }
  bool take() {
    Group& group = open_.front();
    std::array<int, kTags + 1> sizes;
    sizes.fill(-9);
    int finished = 0;
    if (group.flush == nullptr) {
      require_success(line_.communicator().api().test(group.request, &finished, sizes.data()),
                      "test");
      if (finished == 0) return false;
      check_sizes(group, sizes);
      if (flush(group)) return true;
    } else {
      require_success(line_.communicator().api().test(group.flush, &finished, nullptr), "test");
      if (finished == 0) return false;
    }
    check_bytes(group);
    open_.pop_front();
    return true;
  }
  // Returns false if no flush is needed.
  bool flush(Group& group) {
    for (const std::size_t tag : group.tags) {
      const driver::NetPiece flushed = piece(group.round, tag, plan_.bytes(group.round, tag));
      if (!flushed.flush || flushed.bytes == 0) continue;
      require_success(line_.communicator().api().iflush(line_.comm(), flushed, &group.flush),
                      "iflush");
      return group.flush != nullptr;
    }
    return false;
  }
  void check_sizes(const Group& group, std::span<const int> sizes) const {
    for (std::size_t i = 0; i < group.tags.size(); ++i) {
      const auto wanted = static_cast<int>(plan_.bytes(group.round, group.tags[i]));
      require(sizes[i] == wanted, "member " + std::to_string(i) + " of round " +
                                      std::to_string(group.round) + " says " +
                                      std::to_string(sizes[i]) + " bytes instead of " +
                                      std::to_string(wanted));
    }
    require(sizes[group.tags.size()] == -9, "a size beyond the members was written");
  }
  void check_bytes(const Group& group) const {
    for (const std::size_t tag : group.tags) {
      const driver::PatternKey key = Plan::key(group.round, tag);
      const std::size_t bytes = plan_.bytes(group.round, tag);
      const char* data = line_.memory().data() + place_of(group.round, tag);
      const driver::PatternVerdict verdict = driver::check_pattern(key, data, bytes);
      require(verdict.good(), driver::describe(verdict, key, data, bytes));
    }
  }

  Line& line_;
  const Plan& plan_;
  std::uint64_t next_ = 0;
  std::deque<Group> open_;
};

}  // namespace mesh::e2e
