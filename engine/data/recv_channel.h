#pragma once
// The receiving side: gives credits for NCCL's receives and completes them when all their
// announcements (write-with-immediate completions) are in. Data lands only where a live credit of
// the same generation said; late announcements are counted and ignored. Thread: loop (progress
// lock), construction and take-back under the control mutex too. Bound: policy.slots receives.

#include "engine/data/channel.h"
#include "engine/data/progress_loop.h"
#include "engine/data/receive_groups.h"
#include "engine/message/ring_cursor.h"
#include "engine/message/wire.h"
#include "src/base/check.h"

#include <array>
#include <cstdint>
#include <span>

namespace mesh::engine {

class RecvQueuePair;

class RecvChannel final : public Channel {
 public:
  RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records);

  // The sender's CTS FIFO: its address, and its keys (LinkKeys).
  struct Credits {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kLinkKeysMax> rkeys{};
  };
  void set_credits(const Credits& credits) noexcept;
  // Sets the key of a path that is down: choose_express() takes it when the path is up.
  void set_credits_key(std::uint32_t place, std::uint32_t rkey) noexcept {
    credits_.rkeys[place] = rkey;
  }
  void start(std::uint32_t generation) noexcept {
    cursor_.start(generation);
  }  // the generation of this life of the index

  // The caller knows that the channel receives.
  static RecvChannel& of(Channel& channel) noexcept {
    DCHECK(channel.side == Side::Receive);
    return static_cast<RecvChannel&>(channel);
  }

  // Takes over new receives and writes their credits. Returns true if it wants another visit,
  // because the send queue is full. (recv_channel_datapath.h)
  bool advance() noexcept;
  bool post_at_once(Request& request) noexcept;
  // For NCCL's thread when it has just taken the progress lock. A group takes its slots, is
  // published and writes its credits in one go. Returns false, and takes nothing, if something
  // stands in the way.
  bool post_group(const RecvGroup& group) noexcept;
  // The message of a slot that expects it has landed. Returns the slot if it may be of a group and
  // the poll has brought more: then on_group() follows. (recv_channel_datapath.h)
  Request* on_message(Request& slot, std::uint32_t bytes, Behind behind) noexcept;
  // Takes the completions of a group that lie in a row; the first is that slot's. Returns how many
  // behind it bring other members of the group their messages: a group's messages mostly come
  // together, and over one queue pair.
  std::uint32_t on_group(Request& slot, std::span<const ibv_wc> completions) noexcept;
  void on_stripes(Request& slot) noexcept;  // all stripes of a message of several have landed
  // Counts a stripe of a message whose record knows how many there are.
  [[gnu::noinline]] void on_recorded(Request& slot) noexcept;
  [[gnu::noinline]] void on_overrun(const Request& slot, std::uint64_t said) noexcept;

  // ---- A path was lost or is back (recv_channel_loss.cc).
  void choose_express() noexcept override;
  void fenced(const Path& path) noexcept override;    // every live credit is to be written again
  void ask_rewrite() noexcept { rewrite_next_ = 0; }  // every live credit is to be written again
  // Advances a failed channel, or one that waits for rewritten entries. Returns true for another
  // visit.
  [[gnu::noinline]] bool advance_slow_path(std::uint64_t limit) noexcept;
  bool rewrite_credits() noexcept;  // false: the send queue is full, call again

  // ---- The end, and what others ask (recv_channel.cc).
  // Fails the new receives of a failed channel. Returns false, as it wants no further visit.
  [[gnu::noinline]] bool fail_new(std::uint64_t limit) noexcept;
  // Returns true if a live credit names the region, or a receive that is still to get a credit.
  bool names(const Registration& region) const noexcept;
  void drop_unposted(Errc why) noexcept override;
  MessageCounts counts() const noexcept override;
  bool uses(const Registration& region) const noexcept override { return names(region); }
  Waiting waiting(std::uint64_t sequence) noexcept override;
  // Returns the first member of an open group without a message, else the request itself.
  std::uint64_t awaited(std::uint64_t sequence) const noexcept;
  // Messages completed, failed ones included.
  std::uint64_t received() const noexcept { return received_; }
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }

  ReceiveGroups groups;

 private:
  void post_to(RecvQueuePair& express) noexcept;
  void change_keys() noexcept;
  std::uint64_t give_credits(std::uint64_t sequence, std::uint64_t limit) noexcept;
  bool takes_at_once(std::size_t receives) const noexcept;
  struct OfRegion;
  [[gnu::noinline]] static bool find_key(const Registration* region, OfRegion* of) noexcept;
  [[gnu::noinline]] std::size_t fill_members(const RecvGroup& group, Request* slot) noexcept;
  void give_group(std::size_t members) noexcept;
  [[gnu::cold, gnu::noinline]] bool leave_group(std::size_t members) noexcept;
  void write_credit(Request& request, std::uint32_t imm,
                    std::uint64_t* words) noexcept;  // in the cursor's round
  [[gnu::noinline]] void write_far_keys(const Request& request,
                                        std::uint64_t* words) const noexcept;
  // The slot's message is there, or cannot come. The slot is of a group, or its channel has failed.
  [[gnu::noinline]] void land_in_group(Request& slot, std::uint64_t bytes) noexcept;
  [[gnu::noinline]] void on_truncated(Request& slot, std::uint64_t sent) noexcept;
  // Also resets what has landed, for its next receive.
  void count_stripes_received(Request& slot, std::uint64_t bytes) noexcept {
    slot.landed = {};
    count_received(slot, bytes);
  }
  void count_received(Request& slot, std::uint64_t bytes) noexcept {
    DCHECK(loop.held());
    DCHECK(slot.expected != kNoAnnouncement);
    DCHECK(received_ < accepted.load(std::memory_order_relaxed));
    DCHECK(bytes <= slot.bytes);
    slot.expected = kNoAnnouncement;
    ++received_;
    received_bytes_ += bytes;
  }

  // The first fields share the cache line of what the loop moves in every channel.
  RecvQueuePair* express_;
  RingCursor cursor_;              // the next credit
  const std::uint32_t key_count_;  // the number of keys in a CTS entry
  std::uint32_t first_rail_ = 0;   // the rail of the first key's path
  std::uint32_t cts_per_write_ = 1;
  std::uint32_t credits_rkey_ = 0;  // on the express queue pair's path
  std::uint64_t received_ = 0, received_bytes_ = 0;
  Record* const records_;
  // The slot whose credit is written again next; from slot_count on there is none.
  std::uint32_t rewrite_next_ = UINT32_MAX;
  std::uint64_t rewritten_until_ = 0;  // the express queue pair's posted() after the last rewrite
  std::uint32_t key_set_;              // the set of keys that lies in the entries
  Credits credits_;
};

}  // namespace mesh::engine
