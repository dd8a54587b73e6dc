#pragma once
// The sending side: matches NCCL's sends with the credits that the receiver's NIC writes into our
// ring, cuts each message and posts it in one of five ways (engine/README.md): small, uniform,
// shared or apart, where all of it has room at once, else as spans, each as far as there is room.
// Stripes that a lost path has not carried are spans too. Sends of one tag go out in order. Sends
// of different tags do not wait for one another: a credit without a send of its tag is kept, and
// further tags than the first have queues of their own (tag_queues.h). Thread: loop (progress
// lock), construction and take-back under the control mutex too. Bound: policy.slots sends of the
// first tag, and as many kept credits.

#include "engine/data/channel.h"
#include "engine/data/send_queue_pair.h"
#include "engine/data/tag_match.h"
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

  // The receiver's records: address, and keys (LinkKeys); set when the receiver has opened.
  struct Records {
    std::uint64_t address = 0;
    std::array<std::uint32_t, kLinkKeysMax> rkeys{};
  };
  void set_records_key(std::uint32_t at, std::uint32_t rkey) noexcept { records_.rkeys[at] = rkey; }
  void set_records(const Records& records) noexcept { records_ = records; }

  // The caller knows that the channel sends.
  static SendChannel& of(Channel& channel) noexcept {
    DCHECK(channel.side == Side::Send);
    return static_cast<SendChannel&>(channel);
  }

  // Takes over new sends and posts those that have a credit. Returns true if it wants another
  // visit: it waits for a credit or for room. in_turn: the loop visits one active channel after the
  // other; only then may it become a path's byte waiter. (send_channel_datapath.h)
  bool advance(bool in_turn) noexcept;
  bool post_at_once(Request& request) noexcept;
  // Returns true if it has begun a message for which its paths have no room.
  bool waits_for_room() const noexcept { return posting_.request != nullptr && held_back_ == 0; }
  // Returns true if the next bytes that come free on some path are for it.
  bool is_next() const noexcept { return waits_for_bytes_; }

  // Begins a life of the index, with its generation.
  void start(std::uint32_t generation) noexcept { cursor_.start(generation); }
  // Notes new sends of further tags, for the slow path. Returns false if there are none.
  bool see_tagged() noexcept {
    const bool seen = tag_match_.has_new();
    slow_path_ = slow_path_ || seen;
    tagged_ = tagged_ || seen;
    return seen;
  }

  MessageCounts counts() const noexcept override {
    return {.messages = posted_messages(), .bytes_received = 0, .close_says = announced()};
  }
  bool uses(const Registration& region) const noexcept override { return reads(region); }
  Waiting waiting(std::uint64_t sequence) noexcept override;  // reads the peer's words anew

  // ---- A path was lost or is back (send_channel_loss.cc). Small messages take another queue pair,
  // and what the lost path was to carry of the message under way goes over others. After the fence,
  // what was begun on the lost path begins anew, and what the path has lost is sent again.
  void choose_express() noexcept override;
  void leave_path(const Path& path) override;
  void fenced(const Path& path) noexcept override;
  void replay(const Span& lost) override;

  // ---- The end, and what others ask (send_channel.cc).
  void drop_unposted(Errc why) noexcept override;
  bool idle() const noexcept { return outstanding == 0; }
  std::uint64_t posted_messages() const noexcept;  // ever posted whole: a counter, it never falls
  // The number that CLOSE carries: of the posted messages, those that the receiver gets. A message
  // of which a stripe was lost and given up is not among them.
  std::uint64_t announced() const noexcept {
    DCHECK(given_up_ <= posted_messages());
    return posted_messages() - given_up_;
  }
  // Returns true if an open send reads the region, or a send that failed while it was posted may.
  bool reads(const Registration& region) const noexcept;

 private:
  // The message that goes out next: it has met its credit, and lacks room for some of its stripes.
  struct Posting {
    Request* request = nullptr;  // null: none
    Credit credit;
    StripePlan plan;               // over one path; kept for the next one, which is mostly as large
    std::uint32_t first_bulk = 0;  // the bulk queue pair where its stripes begin
    bool uniform = false;          // nothing of it is posted, and the plan is uniform
    std::vector<Span> spans;       // stripes that are not posted whole
  };
  enum class PartOutcome : std::uint8_t { Blocked, Posted, Ended };

  static constexpr std::uint32_t kNoPath = 1u << 31;  // in held_back_: no path is up
  static std::uint64_t apart_above(const PeerLink& link_of) noexcept;
  Waiting completion_of(const Request& open) const noexcept;
  Waiting posting_waits() noexcept;
  Waiting replay_waits(const Span& replay) noexcept;
  [[gnu::noinline]] bool advance_slow_path(bool in_turn) noexcept;
  [[gnu::noinline]] bool advance_tagged(bool moves) noexcept;
  bool needs_slow_path() const noexcept;
  void change_keys() noexcept;
  // Returns true if the only primary path carries the link: nothing else ever can beside it.
  bool one_path() const noexcept { return key_count_ == 1 && key_set_ == 0; }
  bool match() noexcept;
  bool match_by_tag() noexcept;
  void drop(Request& unposted, Errc why) noexcept;
  static bool fits(const Request& request, const NearCredit& credit) noexcept;
  // Returns true for a message of 1 to near_bytes_ bytes.
  bool is_near(const Request& request) const noexcept { return request.bytes - 1 < near_bytes_; }
  // Takes room for a middle message. Returns the queue pair that must then carry it, or null.
  [[gnu::noinline]] SendQueuePair* try_take_middle(std::uint64_t bytes) noexcept;
  bool next_credit(NearCredit* credit) noexcept;
  SendQueuePair::Small small_message(Request& request, verbs::RemoteTarget target) noexcept;
  void begin(Request& request, std::uint32_t slot) noexcept;
  void cut(std::uint64_t bytes) noexcept;
  bool post() noexcept;
  bool post_uniform() noexcept;
  [[gnu::noinline]] bool post_large(Request& request, verbs::RemoteTarget target) noexcept;
  // The way of a message above near_bytes, which the express queue pair need not carry. Of the five
  // ways of engine/README.md, Halves is uniform, but in two stripes if the path has little in
  // flight, and Middle is small; a message up to near_bytes is small without being asked for.
  enum class Way : std::uint8_t { Halves, Uniform, Spans, Apart, Shared, Middle };
  // Returns the way of such a message. The plan of a large one is usual_plan_ then.
  Way way_of(std::uint64_t bytes) noexcept {
    return bytes == usual_plan_.total_bytes ? usual_way_ : plan_usual(bytes);
  }
  [[gnu::noinline]] Way plan_usual(std::uint64_t bytes) noexcept;
  bool lacks_queue_pairs(std::uint64_t bytes) const noexcept;
  // Returns true for a message, or a lost stripe, that the express queue pair does not carry while
  // the bulk ones are made.
  bool waits_for_queue_pairs(std::uint64_t bytes) const noexcept;
  bool plan_halves(std::uint64_t bytes) noexcept;
  [[gnu::noinline]] bool stage_middle(Request& request, verbs::RemoteTarget target) noexcept;
  [[gnu::noinline]] bool post_middle(Request& request, verbs::RemoteTarget target) noexcept;
  bool try_take_uniform(std::uint64_t bytes) noexcept;
  struct UniformMessage {
    const StripePlan& plan;
    std::uint32_t first_bulk = 0;
    verbs::RemoteTarget target;
  };
  [[gnu::always_inline]] inline void stage_uniform(Request& request,
                                                   const UniformMessage& message) noexcept;
  // Posts a large message over several paths that are alike. Returns false if it did nothing.
  inline bool post_shared(Request& request, const Credit& credit) noexcept;
  [[gnu::flatten, gnu::noinline]] bool post_next_shared(Request& request) noexcept;
  inline void stage_shared(Request& request, const UniformMessage& message,
                           const Credit& credit) noexcept;
  static inline void stage_rest(SendQueuePair& queue_pair, const Request& request,
                                SendQueuePair::Uniform stripe) noexcept;
  // Posts a message whose data goes apart from its announcements. Returns false if it did nothing.
  inline bool post_apart(Request& request) noexcept;
  inline void stage_apart(Request& request, const UniformMessage& message) noexcept;
  // Posts one work request of a span whose queue pair is chosen, and at its end the announcement.
  PartOutcome post_part(Span& span, const Credit& credit) noexcept;
  void stage_part(SendQueuePair& queue_pair, const SendQueuePair::Part& part) noexcept;
  void stage_record(SendQueuePair& queue_pair, const Request& request) noexcept;
  WaitReason room_waits(SendQueuePair& queue_pair, std::uint64_t left) const noexcept;
  void count_stall(WaitReason reason) noexcept;
  bool bytes_fit(const Path& path, std::uint64_t bytes) const noexcept {
    if (path.inflight_bytes() == 0) return true;
    if (path.byte_waiter != nullptr && path.byte_waiter != this) return false;
    return path.inflight_bytes() + bytes <= path.inflight_bytes_max;
  }
  void wait_for_bytes(Path& path) noexcept;
  void leave_byte_wait() noexcept;
  static bool waits_for_fence(const Span& replay) noexcept;
  bool post_replays() noexcept;
  bool post_replay(Span& replay) noexcept;
  [[gnu::always_inline]] inline bool read_kept_credit(std::uint32_t imm,
                                                      Credit* credit) const noexcept;
  [[gnu::noinline]] bool read_credit_of(std::uint32_t imm, Credit* credit) const noexcept;  // rare
  SendQueuePair* queue_pair_for(const Span& replay) noexcept;
  void drop_replays(Errc why) noexcept;
  void give_up(const Span& lost) noexcept;
  static bool withdraw(Request& request) noexcept;
  std::uint64_t* cts_entry() const noexcept {
    return reinterpret_cast<std::uint64_t*>(cursor_.address());
  }

  // The first fields share the line of what the loop moves: a small message needs no other. Rare
  // ones come last. slow_path_ is true if anything holds that needs_slow_path() looks at.
  bool far_ = false;  // the express queue pair is not on the first path: its key lies elsewhere
  std::uint8_t express_rail_ = 0;  // the rail of the express queue pair; kRailsMax fits
  SendQueuePair* express_;
  std::uint64_t near_bytes_ = 0;  // a message up to this size takes the express queue pair only
  RingCursor cursor_;             // the next credit
  std::byte* const credits_;
  std::uint32_t express_place_ = 0;  // the place of the express queue pair's path
  const std::uint32_t key_count_;    // the number of keys in a CTS entry
  // A larger message has a record where its data goes apart from its announcements.
  const std::uint64_t apart_above_;
  const std::uint64_t wr_bytes_, express_bytes_;
  bool have_credit_ = false;
  // True until it posts in this visit: a channel that has had its share does not claim the rest.
  bool may_wait_for_bytes_ = false;
  bool waits_for_bytes_ = false;  // some path may have it as its byte_waiter
  bool tagged_ = false;           // it has had more tags than one
  std::uint32_t held_back_ = 0;   // stripes that must go out again: their number; and kNoPath
  std::uint64_t dropped_ = 0;     // accepted, but not posted whole
  std::uint64_t given_up_ = 0;    // posted whole, then lost and carried by no other queue pair
  Credit credit_;                 // the next one, when have_credit_
  Posting posting_;
  // Plan and way of the last large message: the next is mostly as large.
  StripePlan usual_plan_, halves_;
  Way usual_way_ = Way::Spans;
  std::uint32_t key_set_ = 0;  // the set of keys that the entries hold that count
  std::vector<Span> replays_;  // stripes that other queue pairs must carry, in this order
  TagMatch tag_match_;
  Records records_;
};

}  // namespace mesh::engine
