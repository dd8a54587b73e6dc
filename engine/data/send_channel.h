#pragma once
// The sending side: matches NCCL's sends with the credits that the receiver's NIC writes into our
// ring, cuts each message and stages its work requests. Sends of one tag go out in order; a send of
// another tag than the next credit's is passed over. Thread: loop (token), construction and
// take-back under the control mutex too. Bound: policy.slots sends.

#include "engine/data/channel.h"
#include "engine/data/queue_pair.h"
#include "engine/message/ring_cursor.h"
#include "engine/message/stripe.h"
#include "engine/message/wire.h"
#include "src/base/check.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint32_t kMessagesPerVisit = 8;  // then the other channels have their turn

class SendChannel final : public Channel {
 public:
  SendChannel(PeerLink& link_of, std::uint32_t index_of, std::byte* credits);
  ~SendChannel() override { leave_byte_wait(); }

  // The receiver's slots of records, by path; set when it has opened its side.
  struct Records {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kPathsMax> rkeys{};
  };
  void set_records(const Records& records) noexcept { records_ = records; }

  // The caller knows the side.
  static SendChannel& of(Channel& channel) noexcept {
    DCHECK(channel.side == Side::Send);
    return static_cast<SendChannel&>(channel);
  }

  // Takes over new sends and posts what has a credit. True: it wants another visit (waits for a
  // credit or for room). in_turn: the loop visits one active channel after the other; only then may
  // it become a path's byte waiter. (send_channel_datapath.h)
  bool advance(bool in_turn) noexcept;
  bool post_at_once(Request& request) noexcept;

  void start(std::uint32_t generation) noexcept {
    cursor_.start(generation);
  }  // of this life of the index

  MessageCounts counts() const noexcept override;
  bool uses(const Registration& region) const noexcept override { return reads(region); }
  Waiting waiting(std::uint64_t sequence) noexcept override;  // reads the peer's words anew

  // ---- A path was lost or is back (send_channel_loss.cc). The message under way keeps to the
  // queue pairs it has, small messages take another queue pair, and what the lost path was to carry
  // of the message is for others. After the fence what was begun on the lost path begins anew, and
  // what it has lost is sent again.
  void keep_queue_pairs() noexcept override;
  void choose_express() noexcept override;
  void leave_path(const Path& path) override;
  void fenced(const Path& path) noexcept override;
  void replay(const LostStripe& lost) override;

  // ---- The end, and what others ask (send_channel.cc).
  void drop_unposted(Errc why) noexcept override;
  bool idle() const noexcept { return outstanding == 0; }
  std::uint64_t posted_messages() const noexcept;  // ever posted whole: a counter, it never falls
  // What CLOSE says: those of them that the receiver gets. One of which a stripe was lost and given
  // up is not among them.
  std::uint64_t announced() const noexcept {
    DCHECK(given_up_ <= posted_messages());
    return posted_messages() - given_up_;
  }
  // Whether an open send reads the region, or one that failed while it was posted may.
  bool reads(const Registration& region) const noexcept;

 private:
  // A message that takes more than one work request, or that must wait for room.
  struct Posting {
    Request* request = nullptr;  // null: none under way
    Credit credit;
    StripePlan plan;
    StripeTable table;  // the plan's, over several paths
    std::uint32_t slot = 0;
    std::uint32_t first_bulk = 0;  // the link's cursor when the message began
    std::uint32_t stripes_left = 0;
    bool record = false;
    bool pinned = false;  // queue_pairs says where each stripe goes
    // By stripe; all ones say that nothing is left to post here.
    std::array<std::uint64_t, kStripesMax> posted_bytes{};
    std::array<QueuePair*, kStripesMax> queue_pairs{};
  };
  // A stripe that another queue pair must carry.
  struct Replay {
    LostStripe lost;
    std::uint64_t posted_bytes = 0;
    QueuePair* queue_pair = nullptr;  // that carries it; null: nothing of it is posted, and any may
    bool waits_for_fence() const noexcept;
  };

  static constexpr std::uint32_t kNoPath = 1u << 31;  // none is up
  Waiting completion_of(const Request& open) const noexcept;
  Waiting posting_waits() noexcept;
  Waiting replay_waits(const Replay& replay) noexcept;
  Waiting room_waits(QueuePair& queue_pair, std::uint64_t left) const noexcept;
  [[gnu::noinline]] bool advance_slow_path(bool in_turn) noexcept;
  bool needs_slow_path() const noexcept;
  bool match() noexcept;
  Request* take_matching() noexcept;
  static bool fits(const Request& request, const NearCredit& credit) noexcept;
  bool is_small(const Request& request) const noexcept;
  bool next_credit(NearCredit* credit) noexcept;
  QueuePair::Data whole_message(Request& request, const NearCredit& credit) noexcept;
  void begin(Request& request, std::uint32_t slot) noexcept;
  bool post() noexcept;
  bool post_uniform() noexcept;
  [[gnu::noinline]] bool post_large(Request& request, verbs::RemoteTarget target) noexcept;
  [[gnu::noinline]] void plan_usual(std::uint64_t bytes) noexcept;
  bool uniform_fits(std::uint64_t bytes) noexcept;
  struct UniformMessage {
    const UniformPlan& plan;
    std::uint32_t first_bulk = 0;
    verbs::RemoteTarget target;
  };
  [[gnu::always_inline]] inline void stage_uniform(Request& request,
                                                   const UniformMessage& message) noexcept;
  void stage_record(QueuePair& queue_pair, const Request& request) noexcept;
  bool post_stripe(std::uint32_t stripe) noexcept;
  bool bytes_fit(Path& path, std::uint64_t bytes) noexcept;
  void leave_byte_wait() noexcept;
  bool post_replays() noexcept;
  bool post_replay(Replay& replay) noexcept;
  bool credit_of(const Request& request, Credit* credit) const noexcept;
  bool takes_next(QueuePair& queue_pair, const Replay& replay) noexcept;
  QueuePair* queue_pair_for(const Replay& replay) noexcept;
  void drop_replays(Errc why) noexcept;
  void give_up(const LostStripe& lost) noexcept;
  static bool withdraw(Request& request) noexcept;
  void stage(QueuePair& queue_pair, std::uint32_t stripe, std::uint64_t bytes);
  QueuePair& queue_pair_of(std::uint32_t stripe) noexcept;
  std::uint64_t* row() const noexcept {
    return reinterpret_cast<std::uint64_t*>(cursor_.address());
  }

  // The first ones share the line of what the loop moves in every channel; rare ones come last.
  bool slow_path_ = false;  // not the plain case: any of what needs_slow_path() looks at
  // The express queue pair is not the first path's, whose key lies with the others.
  bool far_ = false;
  std::byte* const credits_;
  QueuePair* express_;
  RingCursor cursor_;                                  // the next credit
  std::uint32_t express_path_ = 0, express_rail_ = 0;  // of the express queue pair
  const std::uint32_t path_count_;
  const std::uint64_t wr_bytes_, express_bytes_;
  bool have_credit_ = false;
  // True until it posts in this visit: a channel that has had its share does not keep the rest.
  bool may_wait_for_bytes_ = false;
  bool waits_for_bytes_ = false;  // some path may name this channel
  std::uint32_t begun_ = 0;       // requests marked so
  std::uint32_t held_back_ = 0;   // by stripes that must go out again: their number; and by kNoPath
  std::uint64_t dropped_ = 0;     // accepted or begun, but not posted whole
  std::uint64_t given_up_ = 0;    // posted whole, then lost and carried by no other queue pair
  Credit credit_;                 // the next one, when have_credit_
  Records records_;
  Posting posting_;
  UniformPlan usual_plan_;       // of the last large message: the next one is mostly as large
  std::vector<Replay> replays_;  // in the order in which they go out
};

}  // namespace mesh::engine
