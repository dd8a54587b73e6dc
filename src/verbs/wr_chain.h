#pragma once
// Work requests staged for one queue pair and rung with one doorbell. Owns the requests, their gather entries and the bytes
// of inline rows until post(). Nothing is allocated after construction.
// Thread: loop. Bound: kCapacity staged requests.

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

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

// One work request with everything that never changes filled in; what changes is set before each post(). The bytes of a row
// live here.
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
  int post(ibv_qp* qp) noexcept {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr_, &bad);
  }

 private:
  ibv_send_wr wr_{};
  ibv_sge gather_{};
  alignas(64) std::array<std::uint64_t, 8> row_{};
};

class WrChain {
 public:
  static constexpr std::uint32_t kCapacity = 32;
  static constexpr std::uint32_t kRowBytesMax = 64;  // what every device grants inline

  WrChain() noexcept {
    for (std::uint32_t i = 0; i < kCapacity; ++i) {
      requests_[i].sg_list = &gather_[i];
      requests_[i].next = i + 1 < kCapacity ? &requests_[i + 1] : nullptr;
    }
  }
  WrChain(const WrChain&) = delete;
  WrChain& operator=(const WrChain&) = delete;

  std::uint32_t staged() const noexcept { return staged_; }
  bool full() const noexcept { return staged_ == kCapacity; }

  // A write from registered memory (or from any memory when inlined; the bytes are read at post()).
  ibv_send_wr& write(const LocalSource& source, const RemoteTarget& target, std::uint32_t inline_bytes) noexcept {
    ibv_send_wr& wr = next(target);
    ibv_sge& sge = gather_[staged_ - 1];
    sge = {.addr = source.address, .length = source.bytes, .lkey = source.lkey};
    wr.num_sge = source.bytes == 0 ? 0 : 1;
    wr.send_flags = source.bytes <= inline_bytes ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
    return wr;
  }

  // An inline write of a small row that the chain keeps until post(); the caller fills last_row().
  ibv_send_wr& write_row(std::uint32_t bytes, const RemoteTarget& target) noexcept {
    const auto cell = reinterpret_cast<std::uint64_t>(rows_[staged_].data());
    ibv_send_wr& wr = next(target);
    gather_[staged_ - 1] = {.addr = cell, .length = bytes, .lkey = 0};
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_INLINE;
    return wr;
  }
  std::uint64_t* last_row() noexcept { return rows_[staged_ - 1].data(); }

  static void announce(ibv_send_wr& wr, std::uint32_t imm) noexcept {
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = __builtin_bswap32(imm);  // network order on the wire
  }
  // Makes the i-th staged one complete under this id.
  void signal(std::uint32_t i, std::uint64_t wr_id) noexcept {
    requests_[i].wr_id = wr_id;
    requests_[i].send_flags |= IBV_SEND_SIGNALED;
  }
  // Of those that are not signaled: only a failure shows it.
  void set_silent_id(std::uint64_t wr_id) noexcept {
    for (ibv_send_wr& wr : requests_) wr.wr_id = wr_id;
  }

  void clear() noexcept { staged_ = 0; }

  // Rings the doorbell. An errno value on failure; the chain is empty afterwards either way.
  int post(ibv_qp* qp) noexcept {
    ibv_send_wr& tail = requests_[staged_ - 1];
    ibv_send_wr* const link = tail.next;
    tail.next = nullptr;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, requests_.data(), &bad);
    tail.next = link;
    staged_ = 0;
    return error;
  }

 private:
  ibv_send_wr& next(const RemoteTarget& target) noexcept {
    ibv_send_wr& wr = requests_[staged_++];
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = target.address;
    wr.wr.rdma.rkey = target.rkey;
    return wr;
  }

  std::uint32_t staged_ = 0;
  std::array<ibv_send_wr, kCapacity> requests_{};
  std::array<ibv_sge, kCapacity> gather_{};
  alignas(64) std::array<std::array<std::uint64_t, kRowBytesMax / sizeof(std::uint64_t)>, kCapacity> rows_{};
};

}  // namespace mesh::verbs
