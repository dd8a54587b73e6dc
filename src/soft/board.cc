#include "src/soft/board.h"

#include "src/base/check.h"

#include <unistd.h>

namespace mesh::soft {

// The memory is zeroed and only touched through its atomics, so a cast constructs them.
namespace {
void count_up(const UniqueFd& eventfd) noexcept {
  if (!eventfd.valid()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd.get(), &one, sizeof one);
}
}  // namespace

Board::Board(Segment memory, Wakers wakers)
    : memory_(std::move(memory)),
      wakers_(std::move(wakers)),
      host_(reinterpret_cast<HostBoard*>(memory_.data())) {
  CHECK(memory_.bytes() >= sizeof(HostBoard));
}

void Board::ring_request(int nic_index, std::uint32_t index) noexcept {
  nic(nic_index).requests.ring(index);
  wake_if_awaited(nic_index, index);
  wake_if_asleep();
}

void Board::ring_response(int nic_index, std::uint32_t index) noexcept {
  nic(nic_index).responses.ring(index);
  wake_if_awaited(nic_index, index);
  wake_if_asleep();
}

// Pairs with the agent, which sets agent_asleep and then looks at the bells. The ringer rings and
// then looks at agent_asleep.
void Board::wake_if_asleep() noexcept {
  if (host_->agent_asleep.load(std::memory_order_seq_cst) == 0) return;
  if (host_->agent_asleep.exchange(0, std::memory_order_seq_cst) == 1) wake();
}

void Board::wake() noexcept { count_up(wakers_.agent); }

// Pairs with CompletionQueue::arm(), which marks and then looks at the bells. The thread that waits
// turns the NIC itself when it polls: it need not wait until the agent has.
void Board::wake_if_awaited(int nic_index, std::uint32_t index) noexcept {
  if (nic(nic_index).awaited.take(index)) count_up(wakers_.waiters);
}

}  // namespace mesh::soft
