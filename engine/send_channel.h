#pragma once
// The sending side: matches NCCL's sends with the credits that the receiver's NIC writes into our ring, cuts each message
// and stages its work requests. Sends of one tag go out in order; a send of another tag than the next credit's is passed over.
// Thread: loop (token), construction and take-back under the control mutex too. Bound: policy.slots sends.

#include "engine/channel_base.h"
#include "engine/stripe.h"
#include "engine/wire.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class QueuePair;
struct Path;

class SendChannel final : public Channel {
 public:
  SendChannel(PeerLink& link_of, std::uint32_t index_of, CreditRow* credits);
  ~SendChannel() override { leave_byte_wait(); }

  // The receiver's slots of records, by path; set when it has opened its side.
  struct Records {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kPathsMax> rkeys{};
  };
  void set_records(const Records& records) noexcept { records_ = records; }

  // Takes over new sends and posts what has a credit. True: it wants another visit (waits for a credit or for room).
  // in_turn: the loop visits one active channel after the other; only then may it become a path's byte waiter.
  bool advance(bool in_turn) noexcept;

  // Take-back. Unposted sends fail with `why`; zero-byte ones succeed when the receiver merely closed.
  void drop_unposted(Errc why) noexcept;
  bool idle() const noexcept { return outstanding == 0; }
  std::uint64_t announced() const noexcept { return announced_; }  // messages posted whole
  bool reads(const Registration& region) const noexcept;           // an open send does, or one that failed while posted may

 private:
  struct Posting {
    Request* request = nullptr;  // null: none under way
    Credit credit;
    StripePlan plan;
    StripeTable table;  // the plan's, over several paths
    std::uint32_t slot = 0;
    std::uint32_t first_bulk = 0;  // the link's cursor when the message began
    std::uint32_t stripes_left = 0;
    bool record = false;
  };

  void accept() noexcept;
  bool match() noexcept;
  std::uint32_t take_pending(std::uint32_t position) noexcept;
  void begin(Request& request) noexcept;
  bool post() noexcept;
  bool post_stripe(std::uint32_t stripe) noexcept;
  bool bytes_fit(Path& path, std::uint64_t bytes) noexcept;
  void leave_byte_wait() noexcept;
  void stage(QueuePair& queue_pair, std::uint32_t stripe, std::uint64_t bytes);
  QueuePair& queue_pair_of(std::uint32_t stripe) noexcept;

  CreditRow* const credits_;
  Records records_;
  std::uint64_t credit_sequence_ = 0;  // credits used
  Credit credit_;                      // the next one, when have_credit_
  bool have_credit_ = false;
  std::uint32_t pending_head_ = 0, pending_count_ = 0;
  std::vector<std::uint16_t> pending_;  // ring of slot numbers in the order of isend
  Posting posting_;
  bool may_wait_for_bytes_ = false;  // in this visit, until it posts: who has had something does not keep the rest
  bool waits_for_bytes_ = false;     // some path may name this channel
  std::uint64_t announced_ = 0;
  std::array<std::uint64_t, kStripesMax> posted_bytes_{};  // of the message under way, by stripe
};

}  // namespace mesh::engine
