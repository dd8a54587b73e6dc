#pragma once
// Work requests that are staged for one queue pair and posted with one doorbell. The chain owns the
// requests, their gather entries and the bytes of inline rows until post(). Nothing is allocated
// after construction. Thread: loop. Bound: its capacity of staged requests.

#include <infiniband/verbs.h>

#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace mesh::verbs {

struct RemoteTarget {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

struct LocalSource {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t lkey = 0;
};

// One work request in which everything that never changes is filled in. The rest is set before each
// post(). The bytes of a row live here.
class WrSingle {
 public:
  WrSingle() noexcept {
    wr_.sg_list = &gather_;
    wr_.num_sge = 1;
  }
  WrSingle(const WrSingle&) = delete;
  WrSingle& operator=(const WrSingle&) = delete;

  ibv_send_wr& wr() noexcept { return wr_; }
  ibv_sge& gather() noexcept { return gather_; }
  std::uint64_t* row() noexcept { return row_.data(); }
  int post(ibv_qp* qp) noexcept { return ibv_post_send(qp, &wr_, &bad_); }

 private:
  ibv_send_wr wr_{};
  ibv_sge gather_{};
  ibv_send_wr* bad_ = nullptr;  // verbs store the refused request here; it is not read
  alignas(64) std::array<std::uint64_t, 8> row_{};
};

class WrChain {
 public:
  static constexpr std::uint32_t kCapacity = 32;
  static constexpr std::uint32_t kRowBytesMax = 128;  // if the device grants that much inline

  static constexpr std::size_t bytes(std::uint32_t capacity) noexcept {
    return capacity * sizeof(Element);
  }
  // capacity: up to kCapacity.
  explicit WrChain(std::uint32_t capacity = kCapacity)
      : elements_(new Element[capacity]),
        next_(elements_.get()),
        end_(elements_.get() + capacity),
        interval_end_(end_) {
    DCHECK(capacity != 0 && capacity <= kCapacity);
    for (std::uint32_t i = 0; i < capacity; ++i) {
      Element& element = elements_[i];
      element.wr.sg_list = &element.gather;
      element.gather.addr = reinterpret_cast<std::uint64_t>(element.row.data());
      element.wr.num_sge = 1;
      element.wr.opcode = IBV_WR_RDMA_WRITE;
      element.wr.next = i + 1 < capacity ? &elements_[i + 1].wr : nullptr;
    }
  }
  WrChain(const WrChain&) = delete;
  WrChain& operator=(const WrChain&) = delete;

  std::uint32_t staged() const noexcept {
    return static_cast<std::uint32_t>(next_ - elements_.get());
  }
  std::uint32_t left() const noexcept { return static_cast<std::uint32_t>(end_ - next_); }
  bool full() const noexcept { return next_ == end_; }
  bool has_room(std::uint32_t count) const noexcept {
    DCHECK(count <= end_ - elements_.get());
    return next_ + count <= end_;
  }

  // Stages a write from registered memory, or from any memory if it is inlined; the bytes are read
  // at post(). For a write of no bytes the caller takes the gather element away (num_sge 0).
  ibv_send_wr& write(const LocalSource& source, const RemoteTarget& target,
                     std::uint32_t inline_bytes) noexcept {
    Element& element = next(target);
    element.gather = {.addr = source.address, .length = source.bytes, .lkey = source.lkey};
    element.wr.num_sge = 1;
    element.wr.send_flags =
        source.bytes <= inline_bytes ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
    return element.wr;
  }

  // Stages a write that is never inlined and is announced with imm. It stores only the fields that
  // change from one request to the next.
  void write_announced(const LocalSource& source, const RemoteTarget& target,
                       std::uint32_t imm) noexcept {
    Element& element = next_announced(target);
    element.gather.addr = source.address;
    write_pair(&element.gather.length, source.bytes, source.lkey);
    write_pair(&element.wr.num_sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM);
    write_pair(&element.wr.send_flags, 0, imm);
  }
  // Stages an empty write, which carries only imm.
  void write_announcement(const RemoteTarget& target, std::uint32_t imm) noexcept {
    Element& element = next_announced(target);
    write_pair(&element.wr.num_sge, 0, IBV_WR_RDMA_WRITE_WITH_IMM);
    write_pair(&element.wr.send_flags, 0, imm);
  }
  // Makes the last staged write shorter.
  void shorten_last(std::uint32_t bytes) noexcept {
    DCHECK(staged() != 0 && bytes <= next_[-1].gather.length);
    next_[-1].gather.length = bytes;
  }

  // Stages an inline write of a small row that the chain keeps until post(). The caller fills the
  // words at the returned place.
  std::uint64_t* write_row(std::uint32_t bytes, const RemoteTarget& target) noexcept {
    DCHECK(bytes <= kRowBytesMax);
    Element& element = next(target);
    element.gather = {
        .addr = reinterpret_cast<std::uint64_t>(element.row.data()), .length = bytes, .lkey = 0};
    element.wr.num_sge = 1;
    element.wr.send_flags = IBV_SEND_INLINE;
    return element.row.data();
  }

  // Stages a row as write_row() does, on a chain that stages nothing but rows.
  std::uint64_t* write_next_row(std::uint32_t bytes, const RemoteTarget& target) noexcept {
    DCHECK(bytes <= kRowBytesMax);
    Element& element = next_announced(target);
    DCHECK(element.gather.addr == reinterpret_cast<std::uint64_t>(element.row.data()));
    DCHECK(element.wr.num_sge == 1 && element.wr.opcode == IBV_WR_RDMA_WRITE);
    element.gather.length = bytes;
    element.wr.send_flags = IBV_SEND_INLINE;
    return element.row.data();
  }

  static void announce(ibv_send_wr& wr, std::uint32_t imm) noexcept {
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = imm;
  }
  // Makes the i-th staged request complete under this id.
  void signal(std::uint32_t i, std::uint64_t wr_id) noexcept {
    DCHECK(i < staged());
    signal(elements_[i].wr, wr_id);
  }
  void signal_last(std::uint64_t wr_id) noexcept {
    DCHECK(staged() != 0);
    signal(next_[-1].wr, wr_id);
  }
  // Sets how many requests one signal covers; exceeds_interval(): more than that are staged.
  void set_interval(std::uint32_t interval) noexcept {
    interval_end_ = elements_.get() + std::min(interval, capacity());
  }
  bool exceeds_interval() const noexcept { return next_ > interval_end_; }
  // Sets the id of requests that are not signaled. Only a failure shows it.
  void set_silent_id(std::uint64_t wr_id) noexcept {
    for (Element* element = elements_.get(); element != end_; ++element) element->wr.wr_id = wr_id;
  }

  void clear() noexcept { next_ = elements_.get(); }

  // Rings the doorbell. Returns an errno value on failure. The chain is empty afterwards.
  int post(ibv_qp* qp) noexcept {
    DCHECK(staged() != 0 && staged() <= capacity());
    ibv_send_wr& tail = next_[-1].wr;
    ibv_send_wr* const link = tail.next;
    tail.next = nullptr;
    const int error = ibv_post_send(qp, &elements_[0].wr, &bad_);
    tail.next = link;
    clear();
    return error;
  }

 private:
  // The parts of a request lie together, so that one address leads to all.
  struct alignas(64) Element {
    ibv_send_wr wr{};
    ibv_sge gather{};
    alignas(64) std::array<std::uint64_t, kRowBytesMax / sizeof(std::uint64_t)> row{};
  };

  // Stores two fields that lie side by side at once.
  static_assert(std::endian::native == std::endian::little);
  static_assert(offsetof(ibv_sge, lkey) == offsetof(ibv_sge, length) + 4);
  static_assert(offsetof(ibv_send_wr, opcode) == offsetof(ibv_send_wr, num_sge) + 4);
  static_assert(offsetof(ibv_send_wr, imm_data) == offsetof(ibv_send_wr, send_flags) + 4);
  static void write_pair(void* first, std::uint32_t low, std::uint32_t high) noexcept {
    const std::uint64_t both = std::uint64_t{high} << 32 | low;
    std::memcpy(first, &both, sizeof both);
  }
  static void signal(ibv_send_wr& wr, std::uint64_t wr_id) noexcept {
    wr.wr_id = wr_id;
    wr.send_flags |= IBV_SEND_SIGNALED;
  }
  Element& next(const RemoteTarget& target) noexcept {
    Element& element = next_announced(target);
    element.wr.opcode = IBV_WR_RDMA_WRITE;
    return element;
  }
  Element& next_announced(const RemoteTarget& target) noexcept {
    DCHECK(!full());
    Element& element = *next_++;
    element.wr.wr.rdma.remote_addr = target.address;
    element.wr.wr.rdma.rkey = target.rkey;
    return element;
  }

  ibv_send_wr* bad_ = nullptr;  // verbs store the refused request here; it is not read
  std::uint32_t capacity() const noexcept {
    return static_cast<std::uint32_t>(end_ - elements_.get());
  }

  const std::unique_ptr<Element[]> elements_;
  Element* next_;
  Element* const end_;
  const Element* interval_end_;
};

}  // namespace mesh::verbs
