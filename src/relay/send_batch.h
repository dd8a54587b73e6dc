#pragma once
// Work requests of one real queue pair, staged and then posted with one doorbell, and how many of
// them are outstanding. Every kSignalInterval-th and the last one of a doorbell are signaled, so
// that all of them are known to be done when their last one is. Thread: the queue pair's poster.
// Bounds: kCapacity staged, the depth outstanding.

#include "src/base/check.h"
#include "src/verbs/provider.h"
#include "src/verbs/wr_chain.h"

#include <array>
#include <cstdint>

namespace mesh::relay {

class SendBatch {
 public:
  static constexpr std::uint32_t kCapacity = 32;
  static constexpr std::uint32_t kElements = 2;  // a header, and a payload that lies elsewhere

  SendBatch() noexcept;
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  struct Place {
    ibv_qp* qp = nullptr;
    std::uint32_t depth = 0;         // of the send queue, less what others post there
    std::uint32_t inline_bytes = 0;  // granted
    std::uint64_t id_base = 0;       // its low 32 bits are zero: the count goes there
  };
  void open(const Place& place) noexcept;

  bool has_room(std::uint32_t count) const noexcept {
    return posted_ - retired_ + count <= place_.depth && staged_ + count <= kCapacity;
  }
  bool empty() const noexcept { return staged_ == 0; }

  // Stages a plain write without bytes; the caller has asked has_room().
  ibv_send_wr& stage(const verbs::RemoteTarget& target) noexcept;
  // Adds bytes to the work request that was staged last.
  void add(const verbs::LocalSource& source) noexcept;
  // Makes the work request that was staged last inline, if its bytes fit. The CPU must be able to
  // read them.
  void allow_inline() noexcept;

  // Posts what is staged with one doorbell. Returns 0, or the errno value of a refusal.
  [[nodiscard]] int ring() noexcept;

  std::uint64_t posted() const noexcept { return posted_; }  // with those that are staged
  std::uint64_t retired() const noexcept { return retired_; }
  // Retires all up to the count in an id. Returns false if no work request of ours has it.
  bool retire_through(std::uint32_t count) noexcept;
  // Retires all before the one with this count, which has completed with an error.
  bool retire_before(std::uint32_t count) noexcept { return retire_through(count - 1); }

 private:
  static constexpr std::uint32_t kSignalInterval = 16;

  struct Element {
    ibv_send_wr wr{};
    std::array<ibv_sge, kElements> gather{};
  };
  Place place_;
  std::array<Element, kCapacity> elements_;
  std::uint32_t staged_ = 0;
  std::uint64_t posted_ = 0, retired_ = 0;
};

}  // namespace mesh::relay
