#pragma once
// Fills the ring of the next host: small payloads go into their slot, larger ones, before the slot
// is written, into the payload ring. It knows which slots are written, which of these have left
// this host, and which the next host has given back. Thread: the queue pair's poster. Bound: the
// ring's slots and bytes.

#include "src/relay/wire.h"
#include "src/verbs/provider.h"
#include "src/verbs/wr_chain.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::relay {

// Work requests of one real queue pair, staged and then posted with one doorbell, and how many of
// them are outstanding. Every kSignalInterval-th and the last one of a doorbell are signaled, so
// that all of them are known to be done when their last one is. Thread: the queue pair's poster.
// Bounds: kCapacity staged, the depth outstanding.
class SendBatch {
 public:
  static constexpr std::uint32_t kCapacity = 32;
  static constexpr std::uint32_t kElements = 2;  // a header, and a payload that lies elsewhere

  SendBatch() noexcept;
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  struct Setup {
    ibv_qp* qp = nullptr;
    std::uint32_t depth = 0;         // of the send queue, less what others post there
    std::uint32_t inline_bytes = 0;  // granted
    std::uint64_t id_base = 0;       // its low 32 bits are zero: the count goes there
  };
  void open(const Setup& setup) noexcept;

  bool has_room(std::uint32_t count) const noexcept {
    return posted_ - retired_ + count <= setup_.depth && staged_ + count <= kCapacity;
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
  Setup setup_;
  std::array<Element, kCapacity> elements_;
  std::uint32_t staged_ = 0;
  std::uint64_t posted_ = 0, retired_ = 0;
};

// A work request for the next host.
struct RingItem {
  SlotHeader header;  // address, rkey, bytes, imm and kind
  // Registered memory for the header, which stays as it is until the slot has left.
  std::byte* place = nullptr;
  std::uint32_t place_lkey = 0;
  // The payload. A small one that lies right behind the header's place, where the CPU may read it,
  // is `joined`.
  verbs::LocalSource payload;
  bool joined = false;
};

class RingWriter {
 public:
  // Makes the book-keeping for a ring for which is_ring() is true.
  void open(const RingTarget& ring);
  void close() noexcept { ring_ = {}; }
  bool is_open() const noexcept { return ring_.slots != 0; }
  const RingTarget& ring() const noexcept { return ring_; }

  static constexpr std::uint32_t kRequestsMax = 2;  // real work requests of an item
  // Returns true if there is a slot, and room for so many bytes. The caller asks the batch whether
  // it has room for kRequestsMax.
  bool fits(std::uint32_t bytes) const noexcept;
  void write(SendBatch& batch, const RingItem& item) noexcept;

  // ---- Counts of slots, without end.
  std::uint64_t written() const noexcept { return written_; }
  // Returns how many slots' work requests have completed, as the batch tells.
  std::uint64_t sent(const SendBatch& batch) noexcept;
  std::uint64_t freed() const noexcept { return freed_; }
  // Takes the next host's count, which has the low bits only. Returns false if it cannot be right.
  bool take_freed(std::uint32_t count) noexcept;

 private:
  struct Written {
    std::uint64_t end = 0;          // what the batch had posted with the slot
    std::uint64_t payload_end = 0;  // where the payload ring went on behind it
  };
  Written& at(std::uint64_t number) noexcept { return written_slots_[number % ring_.slots]; }
  std::uint64_t units() const noexcept { return ring_.payload_bytes / kPayloadUnit; }
  // Returns where a payload of so many units would begin: it may not cross the ring's end.
  std::uint64_t begin_of(std::uint64_t wanted) const noexcept;
  void write_payload(SendBatch& batch, const RingItem& item, std::uint64_t begin) noexcept;

  RingTarget ring_;
  std::vector<Written> written_slots_;
  std::uint64_t written_ = 0, sent_ = 0, freed_ = 0;
  std::uint64_t payload_head_ = 0, payload_tail_ = 0;  // units, without end
};

}  // namespace mesh::relay
