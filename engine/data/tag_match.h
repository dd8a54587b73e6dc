#pragma once
// Matches sends and credits by tag, on a channel with several tags. Credits that met no send of
// their tag are kept here in the order in which the peer gave them, and are served first. Of a kept
// credit only its tag and its immediate are noted. Its CTS entry is read again when it meets a
// send, because after the loss of a path the entry has other keys. Thread: loop (progress lock).
// Bound: as many kept credits as the channel has slots.

#include "engine/data/channel.h"
#include "engine/data/tag_queues.h"
#include "src/base/check.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mesh::engine {

class TagMatch {
 public:
  explicit TagMatch(const Channel& channel) : channel_(channel) {
    kept_.reserve(channel.slot_count);
  }

  struct Kept {
    std::uint32_t tag = 0, imm = 0;
  };
  // Without room, credits are not read: such a peer has given more of them than it has receives.
  bool has_room() const noexcept { return kept_.size() < kept_.capacity(); }
  void keep(const Kept& credit) noexcept {
    DCHECK(has_room());  // a turn allocates nothing
    kept_.push_back(credit);
  }
  bool keeps() const noexcept { return !kept_.empty(); }
  const Kept* first_of(std::uint32_t tag) const noexcept;  // of those kept; null: none

  // Sends whose tag is not that of the channel's first send: whether some are new, and how many
  // were taken.
  bool has_new() const noexcept {
    const TagQueues* const tags = queues();
    return tags != nullptr && tags->has_new();
  }
  std::uint64_t accepted() const noexcept {
    const TagQueues* const tags = queues();
    return tags == nullptr ? 0 : tags->accepted();
  }
  bool has_accepted(const Request& request) const noexcept;
  bool needed() const noexcept { return keeps() || has_new(); }

  // The first kept credit that has a send; without one the request is null. queue: null if the send
  // is the channel's next one, which the caller accepts.
  struct Pair {
    Request* request = nullptr;
    TagQueue* queue = nullptr;
    std::uint32_t imm = 0;
  };
  void begin() noexcept {  // at the start of a visit
    if (std::exchange(passed_, false)) next_ = 0;
  }
  Pair find() noexcept;
  // Takes the pair that find() returned last.
  void take(const Pair& found) noexcept;
  // Makes find() begin behind that pair, until the next begin(): it finds no room in this visit.
  void pass() noexcept {
    next_ = found_ + 1;
    passed_ = true;
  }
  // Takes a send of another tag than the first one's and returns it; null if there is none.
  Request* take_unposted() noexcept;

 private:
  TagQueues* queues() const noexcept { return channel_.tags.load(std::memory_order_acquire); }
  Pair pair_of(const Kept& credit) const noexcept;
  std::size_t place_of_only_send() const noexcept;

  const Channel& channel_;
  std::vector<Kept> kept_;
  // The index at which find() begins: no kept credit before it has a send, unless it was passed, or
  // a send was published since `seen_`.
  std::size_t next_ = 0, found_ = 0;
  bool passed_ = false;
  std::uint64_t seen_ = 0;
};

}  // namespace mesh::engine
