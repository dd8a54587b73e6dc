#pragma once
// Where a host of the fabric is told that there is work: one set of bells per NIC for requests (as
// target) and one for responses (as initiator). Shared with every peer; carries no data. Peer is
// how we see another host. Thread: any. Bound: kNicsMax NICs.

#include "src/base/unique_fd.h"
#include "src/soft/fabric_file.h"
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
};

struct HostBoard {
  alignas(64) std::atomic<std::uint32_t> agent_asleep;  // 1: whoever rings must also wake it
  std::array<NicBoard, kNicsMax> nics;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class Board {
 public:
  // wake_fd: an eventfd of the board's owner, or invalid when it has no agent.
  Board(Segment memory, UniqueFd wake_fd);

  void ring_request(int nic, std::uint32_t index) noexcept;
  void ring_response(int nic, std::uint32_t index) noexcept;
  void wake() noexcept;  // unconditionally
  HostBoard& host() noexcept { return *host_; }
  NicBoard& nic(int index) noexcept { return host_->nics[static_cast<std::size_t>(index)]; }
  int memory_fd() const noexcept { return memory_.fd(); }
  int wake_fd() const noexcept { return wake_fd_.get(); }

 private:
  void wake_if_asleep() noexcept;
  Segment memory_;
  UniqueFd wake_fd_;
  HostBoard* host_;
};

// Another host, or ourselves. `board` is set once, when it is known; until then nobody can be told
// and nobody needs to be: whoever attaches later looks for himself.
class Peer {
 public:
  explicit Peer(std::string host) : host_(std::move(host)) {}

  const std::string& host() const noexcept { return host_; }
  Board* board() const noexcept { return board_.load(std::memory_order_acquire); }
  void set_board(std::shared_ptr<Board> board) noexcept {
    owner_ = std::move(board);
    board_.store(owner_.get(), std::memory_order_release);
  }
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void lose() noexcept { lost_.store(true, std::memory_order_release); }

 private:
  std::string host_;
  std::shared_ptr<Board> owner_;
  std::atomic<Board*> board_{nullptr};
  std::atomic<bool> lost_{false};
};

}  // namespace mesh::soft
