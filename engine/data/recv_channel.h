#pragma once
// The receiving side: gives credits for NCCL's receives and completes them when all their
// announcements are in. Data lands only where a live credit of the same generation said; late
// announcements are counted and ignored. Thread: loop (token), construction and take-back under the
// control mutex too. Bound: policy.slots receives.

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

class QueuePair;

class RecvChannel final : public Channel {
 public:
  RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records);

  // The sender's credit ring, by path.
  struct Credits {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kPathsMax> rkeys{};
  };
  void set_credits(const Credits& credits) noexcept;
  void start(std::uint32_t generation) noexcept {
    cursor_.start(generation);
  }  // of this life of the index

  // The caller knows the side.
  static RecvChannel& of(Channel& channel) noexcept {
    DCHECK(channel.side == Side::Receive);
    return static_cast<RecvChannel&>(channel);
  }

  // Takes over new receives and writes their credits. True: it wants another visit (the send queue
  // is full). (recv_channel_datapath.h)
  bool advance() noexcept;
  bool post_at_once(Request& request) noexcept;
  // NCCL's thread that has just taken the token: a group takes its slots, is published and writes
  // its credits in one go. False: something stands in the way, and nothing was taken.
  bool post_group(const RecvGroup& group) noexcept;
  // Of one of its slots, which expects it. The slot, if it may be of a group and the poll has
  // brought more: then on_group() follows. (recv_channel_datapath.h)
  Request* on_message(Request& slot, std::uint32_t bytes, Behind behind) noexcept;
  // The first completion is that slot's. How many of those behind it say the same of other members
  // of its group, which have their messages then: those of a group come together mostly, and over
  // one queue pair.
  std::uint32_t on_group(Request& slot, std::span<const ibv_wc> completions) noexcept;
  void on_stripes(Request& slot) noexcept;  // of a message of several, all of them
  // One stripe has come of a message whose record knows how many there are.
  [[gnu::noinline]] void on_recorded(Request& slot) noexcept;
  [[gnu::noinline]] void on_overrun(const Request& slot, std::uint64_t said) noexcept;

  // ---- A path was lost or is back (recv_channel_loss.cc).
  void choose_express() noexcept override;
  void fenced(const Path& path) noexcept override;    // every live credit is to be written again
  void ask_rewrite() noexcept { rewrite_next_ = 0; }  // likewise
  // It has failed, or waits for what was written again. True: it wants another visit.
  [[gnu::noinline]] bool advance_slow_path(std::uint64_t limit) noexcept;
  bool rewrite_credits() noexcept;  // false: the send queue is full, ask again

  // ---- The end, and what others ask (recv_channel.cc).
  // The channel has failed. Answers false: it wants no further visit.
  [[gnu::noinline]] bool fail_new(std::uint64_t limit) noexcept;
  // Whether a live credit names the region, or a receive that still is to get a credit.
  bool names(const Registration& region) const noexcept;
  void drop_unposted(Errc why) noexcept override;
  MessageCounts counts() const noexcept override;
  bool uses(const Registration& region) const noexcept override { return names(region); }
  Waiting waiting(std::uint64_t sequence) noexcept override;
  // Of an open group the first member without a message, else the request itself.
  std::uint64_t awaited(std::uint64_t sequence) const noexcept;
  // Messages completed, failed ones included.
  std::uint64_t received() const noexcept { return received_; }
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }

  ReceiveGroups groups;

 private:
  void post_to(QueuePair& express) noexcept;
  void write_keys_of_tier() noexcept;
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
  // Its message is there, or cannot come; it is one of a group, or of a channel that has failed.
  [[gnu::noinline]] void land_in_group(Request& slot, std::uint64_t bytes) noexcept;
  [[gnu::noinline]] void on_truncated(Request& slot, std::uint64_t sent) noexcept;
  // Of the slot's next receive none has been announced.
  void count_stripes_received(Request& slot, std::uint64_t bytes) noexcept {
    slot.stripes = 0;
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

  // The first ones share the line of what the loop moves in every channel.
  QueuePair* express_;
  RingCursor cursor_;              // the next credit
  const std::uint32_t key_count_;  // of a row
  std::uint32_t first_rail_ = 0;   // of the first key's path
  std::uint32_t rows_per_write_ = 1;
  std::uint32_t credits_rkey_ = 0;  // on the express queue pair's path
  std::uint64_t received_ = 0, received_bytes_ = 0;
  Record* const records_;
  Credits credits_;
  // The slot whose credit is written again next; from slot_count on there is none.
  std::uint32_t rewrite_next_ = UINT32_MAX;
  std::uint64_t rewritten_until_ = 0;  // posted on the express queue pair when the last of them was
  std::uint32_t tier_;                 // whose keys lie in the rows
};

}  // namespace mesh::engine
