#pragma once
// A relayed queue pair whose next host counts, and whose user posts, as the input likes. Thread:
// one. Bound: kStepsMax steps.

#include "src/relay/end_device.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"
#include "tests/fuzz/relay_bed.h"

namespace mesh::fuzz {

// The end of a relayed queue pair whose next host counts as it likes.
class PlayedEnd {
 public:
  explicit PlayedEnd(Input& input)
      : input_(input), device_(bed_.verbs, bed_.contexts[0]), memory_(4096) {
    mr_ = device_.reg_mr(bed_.pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    cq_ = device_.create_cq(bed_.contexts[0], 64);
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {.max_send_wr = 1 + input_.below(8),
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64};
    qp_ = device_.create_qp(bed_.pd, &attr);
    expect(qp_ != nullptr, "no queue pair");
    const relay::RingShape shape = shape_of(input_);
    expect(device_
               .set_ring(qp_, {.address = 0x10000,
                               .rkey = 3,
                               .slots = shape.slots,
                               .payload_bytes = shape.payload_bytes,
                               .wr_bytes = shape.wr_bytes})
               .ok(),
           "a ring is refused");
    set_state(IBV_QPS_RTS);
  }
  ~PlayedEnd() {
    device_.destroy_qp(qp_);
    device_.destroy_cq(cq_);
    device_.dereg_mr(mr_);
    expect(bed_.verbs.empty(), "an end that leaves something behind");
  }

  void play() {
    for (int step = 0; step < kStepsMax && !input_.empty(); ++step) {
      switch (input_.below(6)) {
        case 0:
        case 1: post(); break;
        case 2: count(); break;
        case 3: complete(); break;
        default: poll(); break;
      }
    }
    set_state(IBV_QPS_ERR);
    poll();
    poll();
    // Unsignaled work may have been done without a completion.
    const bool all = std::none_of(expected_.begin(), expected_.end(),
                                  [&](const auto& e) { return e.signaled || failed_; });
    expect(all, "work that never completes");
  }

 private:
  void set_state(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    device_.modify_qp(qp_, &attr, IBV_QP_STATE);
  }
  void post() {
    ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(memory_.data()),
                .length = input_.below(2) == 0 ? input_.below(65) : 8u * input_.u8(),
                .lkey = mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = posted_;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = input_.below(2) == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    const std::uint32_t flags = input_.below(4);
    if ((flags & 1) != 0) wr.send_flags |= IBV_SEND_SIGNALED;
    if ((flags & 2) != 0) wr.send_flags |= IBV_SEND_INLINE;
    if (ibv_post_send(qp_, &wr, &bad) != 0) return;
    expected_.push_back({.wr_id = posted_++, .signaled = (flags & 1) != 0});
  }
  void count() {
    const relay::CountsTarget target = device_.counts(qp_);
    const std::uint64_t word =
        relay::pack({.free = counted_ + input_.below(3),
                     .done = counted_ + input_.below(3),
                     .status = input_.below(8) == 7 ? input_.u8() : std::uint8_t{0}});
    bed_.verbs.write(target.address + input_.below(8) * sizeof word, target.rkey, &word,
                     sizeof word);
    counted_ += input_.below(3);
  }
  void complete() {
    const std::uint32_t count = input_.below(6);
    bed_.verbs.complete(0, count, status_of(input_.u8()));
  }
  void poll() {
    std::array<ibv_wc, 16> completions{};
    const int found = ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < found; ++i) take(completions[static_cast<std::size_t>(i)]);
  }
  // Checks that completions come in order; only unsignaled work is passed over, and only before an
  // error.
  void take(const ibv_wc& completion) {
    const bool good = completion.status == IBV_WC_SUCCESS;
    expect(good || !failed_ || completion.status == IBV_WC_WR_FLUSH_ERR, "more than one reason");
    expect(!good || !failed_, "success after an error");
    if (good) {
      const auto first = std::find_if(expected_.begin(), expected_.end(),
                                      [](const auto& e) { return e.signaled; });
      expected_.erase(expected_.begin(), first);
    } else if (!failed_) {
      // Unsignaled work may have been done before the failure.
      const auto first = std::find_if(expected_.begin(), expected_.end(), [&](const auto& e) {
        return e.signaled || e.wr_id == completion.wr_id;
      });
      expected_.erase(expected_.begin(), first);
    }
    failed_ |= !good;
    expect(!expected_.empty() && expected_.front().wr_id == completion.wr_id,
           "a completion of something else");
    expected_.erase(expected_.begin());
  }

  struct Expected {
    std::uint64_t wr_id = 0;
    bool signaled = false;
  };
  Input& input_;
  RelayBed bed_;
  relay::EndDevice device_;
  std::vector<std::byte> memory_;
  ibv_mr* mr_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::vector<Expected> expected_;
  std::uint64_t posted_ = 0;
  std::uint32_t counted_ = 0;
  bool failed_ = false;
};

}  // namespace mesh::fuzz
