#pragma once
// A host's board tells it that there is work: each NIC has one set of bells for requests (as
// target) and one for responses (as initiator). Every peer shares the board; it carries no data. A
// Peer is another host as this one sees it. Thread: any. Bound: kNicsMax NICs.

#include "src/base/check.h"
#include "src/base/unique_fd.h"
#include "src/soft/fabric_file.h"
#include "src/soft/host_state.h"
#include "src/soft/index_set.h"
#include "src/soft/segment.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace mesh::soft {

struct NicBoard {
  Bells requests, responses;
  Marks awaited;  // a thread sleeps until a completion of these queue pairs
};

struct HostBoard {
  alignas(64) std::atomic<std::uint32_t> agent_asleep;  // 1: the ringer must also wake the agent
  std::array<NicBoard, kNicsMax> nics;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class Board {
 public:
  // Eventfds of the board's owner, or invalid if the owner has no agent.
  struct Wakers {
    UniqueFd agent{};
    UniqueFd waiters{};  // nobody reads it; the threads that await completions see its edges
  };
  Board(Segment memory, Wakers wakers);

  void ring_request(int nic, std::uint32_t index) noexcept;
  void ring_response(int nic, std::uint32_t index) noexcept;
  void wake() noexcept;  // wakes the agent, asleep or not
  // Returns true for a NIC that every board has, whatever a peer says.
  static bool has_nic(int index) noexcept {
    return index >= 0 && static_cast<std::size_t>(index) < kNicsMax;
  }
  HostBoard& host() noexcept { return *host_; }
  NicBoard& nic(int index) noexcept {
    DCHECK(has_nic(index));
    return host_->nics[static_cast<std::size_t>(index)];
  }
  int memory_fd() const noexcept { return memory_.fd(); }
  int wake_fd() const noexcept { return wakers_.agent.get(); }
  int waiters_fd() const noexcept { return wakers_.waiters.get(); }

 private:
  void wake_if_awaited(int nic, std::uint32_t index) noexcept;
  void wake_if_asleep() noexcept;
  Segment memory_;
  Wakers wakers_;
  HostBoard* host_;
};

// Another host, or this one. The board is set once, when it is known, with the host's state if its
// cards' slots have rates. Until then bells cannot be rung and need not be: a target that attaches
// later looks for work by itself.
class Peer {
 public:
  explicit Peer(std::string host) : host_(std::move(host)) {}

  const std::string& host() const noexcept { return host_; }
  // Ordered with the bells (seq_cst): if a ringer finds no board after its own bell, the thread
  // that sets the board sees the bell (Poster::publish).
  Board* board() const noexcept { return board_.load(std::memory_order_seq_cst); }
  // Returns the slot of a NIC, or null if it has none or is not known yet.
  CardSlot* slot_of(int nic) const noexcept {
    return board() == nullptr || state_ == nullptr ? nullptr : state_->memory().slot_of(nic);
  }
  void set_board(std::shared_ptr<Board> board, std::shared_ptr<HostState> state) noexcept {
    CHECK(owner_ == nullptr && board != nullptr);  // other threads use it without a lock
    owner_ = std::move(board);
    state_ = std::move(state);
    board_.store(owner_.get(), std::memory_order_seq_cst);
  }
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void lose() noexcept { lost_.store(true, std::memory_order_release); }

 private:
  std::string host_;
  std::shared_ptr<Board> owner_;
  std::shared_ptr<HostState> state_;
  std::atomic<Board*> board_{nullptr};
  std::atomic<bool> lost_{false};
};

}  // namespace mesh::soft
