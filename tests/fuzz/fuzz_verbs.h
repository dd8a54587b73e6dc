#pragma once
// A device that checks what it is told to do, and completes when the fuzzer says so. The peer's
// writes come in through write(), which allows what a device would: a write inside a region that
// was registered for it. Thread: one. Bound: what the engine creates.

#include "tests/unit/verbs/fake_provider.h"

namespace mesh::fuzz {

class FuzzVerbs final : public verbs::testkit::FakeProvider {
 public:
  FuzzVerbs();

  ibv_mr* reg_mr(ibv_pd*, void* address, std::size_t bytes, int access) override;
  int dereg_mr(ibv_mr* mr) override;
  ibv_cq* create_cq(ibv_context*, int) override;
  int destroy_cq(ibv_cq* cq) override;
  ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int destroy_qp(ibv_qp* qp) override;

  // The peer's side. A call returns false if a device would have refused it.
  bool write(std::uint64_t address, std::uint32_t rkey, const void* bytes, std::size_t size);
  bool write_anywhere(std::uint32_t region, std::uint64_t offset,
                      std::uint64_t word);  // in any region that it may write
  bool announce(std::uint32_t queue_pair, std::uint32_t imm, std::uint32_t bytes);
  void complete(std::uint32_t queue_pair, std::uint32_t count, ibv_wc_status status);
  bool empty() const { return regions_.empty() && queues_.empty() && pairs_.empty(); }

 private:
  struct Region {
    ibv_mr mr{};
    int access = 0;
  };
  struct Queue {
    ibv_cq cq{};
    std::deque<ibv_wc> ready;
  };
  struct Pair {
    ibv_qp qp{};
    Queue* queue = nullptr;  // of its sends
    Queue* receive_queue = nullptr;
    bool failed = false;
    std::uint32_t send_max = 0, receive_max = 0,
                  taken = 0;  // taken: posted sends whose room is not free yet
    struct Sent {
      std::uint64_t id = 0;
      bool signaled = false;
    };
    std::deque<Sent> sent;
    std::deque<std::uint64_t> receives;
  };
  static int poll(ibv_cq* cq, int most, ibv_wc* out);
  static int post_send(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** bad);
  static int post_receive(ibv_qp* qp, ibv_recv_wr* chain, ibv_recv_wr** bad);
  void check_source(const ibv_send_wr& request) const;
  Pair* pair_at(std::uint32_t index);
  void flush(Pair& pair);

  ibv_context context_{};
  std::map<std::uint32_t, std::unique_ptr<Region>> regions_;  // by key
  std::map<ibv_cq*, std::unique_ptr<Queue>> queues_;
  std::map<std::uint32_t, std::unique_ptr<Pair>> pairs_;  // by number
  std::uint32_t last_key_ = 0, last_number_ = 0;
};

}  // namespace mesh::fuzz
