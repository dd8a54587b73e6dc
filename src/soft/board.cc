#include "src/soft/board.h"

#include "src/base/check.h"

#include <unistd.h>

namespace mesh::soft {

// The memory is zeroed and only touched through its atomics, so a cast constructs them.
Board::Board(Segment memory, UniqueFd wake_fd)
    : memory_(std::move(memory)),
      wake_fd_(std::move(wake_fd)),
      host_(reinterpret_cast<HostBoard*>(memory_.data())) {
  CHECK(memory_.bytes() >= sizeof(HostBoard));
}

void Board::ring_request(int nic_index, std::uint32_t index) noexcept {
  nic(nic_index).requests.ring(index);
  wake_if_asleep();
}

void Board::ring_response(int nic_index, std::uint32_t index) noexcept {
  nic(nic_index).responses.ring(index);
  wake_if_asleep();
}

// Pairs with the agent, which sets agent_asleep and then looks at the bells. The ringer rings and
// then looks at agent_asleep.
void Board::wake_if_asleep() noexcept {
  if (host_->agent_asleep.load(std::memory_order_seq_cst) == 0) return;
  if (host_->agent_asleep.exchange(0, std::memory_order_seq_cst) == 1) wake();
}

void Board::wake() noexcept {
  if (!wake_fd_.valid()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

}  // namespace mesh::soft
