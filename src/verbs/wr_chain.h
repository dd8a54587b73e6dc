#pragma once
// Work requests staged for one queue pair and rung with one doorbell. Owns the requests, their gather entries and the bytes
// of inline rows until post(). Nothing is allocated after construction.
// Thread: loop. Bound: kCapacity staged requests.

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

class WrChain {
 public:
  static constexpr std::uint32_t kCapacity = 32;
  static constexpr std::uint32_t kRowBytesMax = 64;

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

  // An inline write of a small row that the chain keeps until post().
  ibv_send_wr& write_row(const void* row, std::uint32_t bytes, const RemoteTarget& target) noexcept {
    std::byte* cell = rows_[staged_].data();
    std::memcpy(cell, row, bytes);
    return write({.address = reinterpret_cast<std::uint64_t>(cell), .bytes = bytes, .lkey = 0}, target, kRowBytesMax);
  }

  static void announce(ibv_send_wr& wr, std::uint32_t imm) noexcept {
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = __builtin_bswap32(imm);  // network order on the wire
  }
  static void signal(ibv_send_wr& wr) noexcept { wr.send_flags |= IBV_SEND_SIGNALED; }
  ibv_send_wr& last() noexcept { return requests_[staged_ - 1]; }

  void clear() noexcept { staged_ = 0; }

  // Rings the doorbell. An errno value on failure; the chain is empty afterwards either way.
  int post(ibv_qp* qp) noexcept {
    ibv_send_wr& tail = last();
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
  alignas(64) std::array<std::array<std::byte, kRowBytesMax>, kCapacity> rows_{};
};

}  // namespace mesh::verbs
