#pragma once
// An acceptor's queue pair: announcements come in on it, and rows go out. The express one of a path
// carries credits; each tells the peer in window words how many receives were posted again. Nobody
// waits for a row, so one in a quarter queue is signaled. Thread: loop (token). Set-up calls:
// control mutex and token. Bounds: those of SendRoom.

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
  std::uint32_t row_bytes_max() const noexcept { return row_bytes_max_; }

  // ---- Staged credits. Each take_row() takes room for one stage_credits(), of at most
  // row_bytes_max(); the caller fills in the bytes at the returned address before ring().
  bool take_row() noexcept { return promise_.take() || promise_rows(); }
  inline std::uint64_t* stage_credits(std::uint32_t bytes,
                                      const verbs::RemoteTarget& target) noexcept;

  // ---- While nothing is staged: one credit with a doorbell of its own, after take_one(). Returns
  // the words, which the caller fills before post_credit(); that returns false if it was refused.
  void set_row_bytes(std::uint32_t bytes) noexcept {  // of every credit that post_credit() posts
    DCHECK(bytes != 0 && bytes <= row_bytes_max_);
    single_.gather().length = bytes;
  }
  inline std::uint64_t* credit_to(const verbs::RemoteTarget& target) noexcept;
  inline bool post_credit() noexcept;

  // ---- While nothing is staged: rows for consecutive places, at most as many as has_row_room()
  // confirms, and as kRowsMax. The caller fills row_words() before post_rows().
  static constexpr std::uint32_t kRowsMax = verbs::WrRows::kBytesMax / kCreditHalfBytes;
  bool has_row_room(std::size_t rows) noexcept {
    return promise_.covers(rows) || find_row_room(rows);
  }
  std::uint64_t* row_words() noexcept { return rows_.words(); }
  inline void post_rows(std::uint32_t bytes, const verbs::RemoteTarget& target) noexcept;

  void signal_next_doorbell() noexcept { signal_next_ = true; }  // somebody waits for these rows
  bool return_window() noexcept;  // reposts, and tells the peer; false: call it again

 private:
  [[gnu::noinline]] bool promise_rows() noexcept;
  // Even what cannot be promised may have room: see promise_rows().
  [[gnu::noinline]] bool find_row_room(std::size_t rows) noexcept {
    if (!promise_rows()) return false;
    promise_.put_back();
    if (promise_.covers(rows)) return true;
    promise_.withdraw();
    return room_.left() >= rows;
  }
  // Posts nothing after a refusal, as ring() does.
  [[gnu::noinline]] void post_rows_signaled(const verbs::RemoteTarget& target) noexcept;

  // posted() when the last word of a round of window words was staged.
  std::uint64_t window_round_end_ = 0;
  verbs::RemoteTarget peer_window_;
  verbs::WrRows rows_;
};

}  // namespace mesh::engine
