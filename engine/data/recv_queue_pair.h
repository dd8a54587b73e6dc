#pragma once
// An acceptor's queue pair: announcements come in on it, and entries go out. The express one of a
// path carries credits; each tells the peer in window words how many receives were posted again.
// Nobody waits for an entry, so one in a quarter queue is signaled. Thread: loop (progress lock).
// Set-up calls: control mutex and progress lock. Bounds: those of SendRoom.

#include "engine/data/queue_pair.h"
#include "src/verbs/wr_rows.h"

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

class RecvQueuePair final : public QueuePair {
 public:
  RecvQueuePair(const TransferPolicy& policy, const QueuePairPlace& place)
      : QueuePair(policy, place) {
    DCHECK(rows_only_);
  }
  // The caller knows that its link receives.
  static RecvQueuePair& of(QueuePair& queue_pair) noexcept {
    auto& receiver = static_cast<RecvQueuePair&>(queue_pair);
    DCHECK(receiver.rows_only_);
    return receiver;
  }
  void adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) override;
  void renew() noexcept override;
  void set_peer_window(const verbs::RemoteTarget& target) noexcept { peer_window_ = target; }
  std::uint32_t cts_bytes_max() const noexcept { return cts_bytes_max_; }

  // ---- Staged credits. Each try_take_cts() takes room for one stage_credits(), of at most
  // cts_bytes_max(); the caller fills in the bytes at the returned address before ring().
  bool try_take_cts() noexcept { return reservation_.take() || reserve_cts(); }
  inline std::uint64_t* stage_credits(std::uint32_t bytes,
                                      const verbs::RemoteTarget& target) noexcept;

  // ---- While nothing is staged: one credit with a doorbell of its own, after try_take_one().
  // Returns the words, which the caller fills before post_credit(); that returns false if it was
  // refused.
  void set_cts_bytes(std::uint32_t bytes) noexcept {  // of every credit that post_credit() posts
    DCHECK(bytes != 0 && bytes <= cts_bytes_max_);
    single_.gather().length = bytes;
  }
  inline std::uint64_t* credit_to(const verbs::RemoteTarget& target) noexcept;
  inline bool post_credit() noexcept;

  // ---- While nothing is staged: entries for consecutive places, at most as many as has_cts_room()
  // confirms, and as kCtsMax. The caller fills cts_words() before post_cts().
  static constexpr std::uint32_t kCtsMax = verbs::WrRows::kBytesMax / kCreditHalfBytes;
  bool has_cts_room(std::size_t entries) noexcept {
    return reservation_.covers(entries) || find_cts_room(entries);
  }
  std::uint64_t* cts_words() noexcept { return rows_.words(); }
  inline void post_cts(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;

  void signal_next_doorbell() noexcept { signal_next_ = true; }  // somebody waits for these entries
  bool return_window() noexcept;  // reposts, and tells the peer; false: call it again

 private:
  [[gnu::noinline]] bool reserve_cts() noexcept;
  // Even what cannot be reserved may have room: see reserve_cts().
  [[gnu::noinline]] bool find_cts_room(std::size_t entries) noexcept {
    if (!reserve_cts()) return false;
    reservation_.put_back();
    if (reservation_.covers(entries)) return true;
    reservation_.withdraw();
    return room_.left() >= entries;
  }
  // Posts nothing after a refusal, as ring() does.
  [[gnu::noinline]] void post_rows_signaled(const verbs::RemoteTarget& target) noexcept;

  // posted() when the last word of a round of window words was staged.
  std::uint64_t window_round_end_ = 0;
  verbs::RemoteTarget peer_window_;
  verbs::WrRows rows_;
};

}  // namespace mesh::engine
