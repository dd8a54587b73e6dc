#pragma once
// Rows for places that follow one another, written inline with one doorbell: as many work requests
// as the rows take, in which everything that seldom changes is filled in. The caller fills the
// words. Nothing is allocated. Thread: loop. Bound: kBytesMax.

#include <infiniband/verbs.h>

#include "src/base/check.h"
#include "src/verbs/wr_chain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mesh::verbs {

class WrRows {
 public:
  static constexpr std::uint32_t kBytesMax = 256;

  WrRows() noexcept {
    for (std::size_t i = 0; i < wrs_.size(); ++i) {
      wrs_[i].sg_list = &gathers_[i];
      wrs_[i].num_sge = 1;
      wrs_[i].opcode = IBV_WR_RDMA_WRITE;
      wrs_[i].send_flags = IBV_SEND_INLINE;
    }
  }
  WrRows(const WrRows&) = delete;
  WrRows& operator=(const WrRows&) = delete;

  // Sets the bytes of one work request, and the id of the requests that are not signaled.
  void set_up(std::uint32_t bytes_each, std::uint64_t silent_id) noexcept {
    DCHECK(bytes_each >= kBytesMax / kWritesMax);
    bytes_each_ = bytes_each;
    bytes_ = 0;
    for (ibv_send_wr& wr : wrs_) wr.wr_id = silent_id;
  }
  std::uint64_t* words() noexcept { return words_.data(); }
  // Divides so many bytes into work requests, before post(). Returns how many requests these are.
  std::uint32_t shape(std::uint32_t bytes) noexcept {
    if (bytes != bytes_) [[unlikely]]
      shape_anew(bytes);
    return count_;
  }
  // Posts the words to the target and what follows it. Returns an errno value if they were refused.
  int post(ibv_qp* qp, RemoteTarget target) noexcept {
    ibv_send_wr* wr = wrs_.data();
    do {
      wr->wr.rdma.remote_addr = target.address;
      wr->wr.rdma.rkey = target.rkey;
      target.address += bytes_each_;
      wr = wr->next;
    } while (wr != nullptr);
    return ibv_post_send(qp, wrs_.data(), &bad_);
  }
  // Posts as post() does; the last request completes under this id.
  int post_signaled(ibv_qp* qp, const RemoteTarget& target, std::uint64_t wr_id) noexcept {
    ibv_send_wr& last = wrs_[count_ - 1];
    const std::uint64_t silent_id = last.wr_id;
    last.wr_id = wr_id;
    last.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    const int error = post(qp, target);
    last.wr_id = silent_id;
    last.send_flags = IBV_SEND_INLINE;
    return error;
  }

 private:
  static constexpr std::uint32_t kWritesMax = 8;

  [[gnu::noinline]] void shape_anew(std::uint32_t bytes) noexcept {
    DCHECK(bytes != 0 && bytes <= kBytesMax && bytes_each_ != 0);
    bytes_ = bytes;
    count_ = 0;
    for (std::uint32_t at = 0; at < bytes; at += bytes_each_, ++count_) {
      gathers_[count_] = {.addr = reinterpret_cast<std::uint64_t>(words_.data()) + at,
                          .length = std::min(bytes_each_, bytes - at),
                          .lkey = 0};
      wrs_[count_].next = at + bytes_each_ < bytes ? &wrs_[count_ + 1] : nullptr;
    }
  }

  ibv_send_wr* bad_ = nullptr;  // verbs store the refused request here; it is not read
  std::uint32_t bytes_each_ = 0, bytes_ = 0, count_ = 0;
  std::array<ibv_send_wr, kWritesMax> wrs_{};
  std::array<ibv_sge, kWritesMax> gathers_{};
  alignas(64) std::array<std::uint64_t, kBytesMax / sizeof(std::uint64_t)> words_{};
};

}  // namespace mesh::verbs
