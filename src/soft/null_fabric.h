#pragma once
// The inside of the null fabric, with which the instructions around verbs calls are counted. Its
// queue pairs live in one process and keep the rules that users of reliable connected ones rely on:
// order, one receive for each immediate, completions only where signaled and then cumulative, room
// in every queue. They move almost nothing: plain inline writes of up to kNullRowBytes. Payload is
// not copied. Polls deliver what is due. With a delay of 0 the peer's memory changes while posting,
// as a real NIC changes it between two calls; still only polls report completions. Thread: any; one
// lock is held for one call. Bounds: kNullQpsMax queue pairs, the depths they were created with.

#include <infiniband/verbs.h>

#include "src/soft/memory_table.h"
#include "src/soft/spin_lock.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::soft {

inline constexpr std::uint32_t kNullQpsMax = 16384;
inline constexpr std::size_t kNullRowBytes = 128;
inline constexpr std::uint32_t kNullInlineMax = 512;

class NullFabric;
struct NullQp;

// Counted over the fabric's life.
struct NullCounters {
  std::uint64_t doorbells = 0, work_requests = 0, announcements = 0, receives_posted = 0;
  std::uint64_t send_completions = 0, receive_completions = 0, rnr_events = 0, polls = 0;
  std::uint64_t queue_pairs = 0, registered_bytes = 0;  // at their peak
};

struct NullCompletion {
  ibv_wc wc{};
  NullQp* qp = nullptr;  // null: the queue pair was destroyed, and the entry is skipped
  // Send: polling this entry frees the send queue's entries up to this running count.
  std::uint64_t end = 0;
  bool is_receive = false;
};

struct NullCq {
  ibv_cq verbs{};  // first, so that the pointer the user holds is ours
  NullFabric* fabric = nullptr;
  std::vector<NullCompletion> entries;
  // Running indices into the entries. Both are 0 again when the queue is empty, so that a shallow
  // queue stays in the near cache.
  std::uint32_t in = 0, out = 0;
  bool overflown = false;
  int users = 0;
};

// A posted work request that is not delivered yet.
struct NullRequest {
  std::uint64_t wr_id = 0;
  std::uint64_t due = 0;  // in polls of the fabric
  std::uint64_t address = 0;
  std::uint32_t rkey = 0, bytes = 0, imm = 0;
  bool announces = false, signaled = false, is_row = false;
  ibv_wc_opcode opcode = IBV_WC_RDMA_WRITE;  // of its completion
  alignas(8) std::array<std::byte, kNullRowBytes> row;
};

struct NullQp {
  ibv_qp verbs{};  // first, so that the pointer the user holds is ours
  NullFabric* fabric = nullptr;
  NullCq* send_cq = nullptr;
  NullCq* receive_cq = nullptr;
  std::uint32_t max_sge = 1, max_receive_sge = 1, max_inline = 0;
  bool signal_all = false, pending = false, rnr_seen = false;
  ibv_qp_state state = IBV_QPS_RESET;
  std::uint32_t dest_qp_num = 0;
  NullQp* next_pending = nullptr;

  // Work requests that are posted and not delivered. When there are none, the first entry is used
  // again.
  std::vector<NullRequest> sends;
  std::uint32_t sends_in = 0, sends_out = 0;  // running indices into `sends`
  std::uint64_t posted = 0, delivered = 0, freed = 0;
  std::vector<std::uint64_t> receives;  // the wr_id of each, by running count
  std::uint64_t receives_posted = 0, receives_taken = 0, receives_freed = 0;
};

class NullFabric {
 public:
  explicit NullFabric(std::uint32_t delivery_polls);

  // Data path, the targets of ibv_post_send, ibv_post_recv and ibv_poll_cq.
  int post_send(NullQp& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
  int post_receive(NullQp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept;
  int poll(NullCq& cq, int count, ibv_wc* wc) noexcept;

  // Control path.
  bool add(NullQp& qp);  // false: there are kNullQpsMax already
  void remove(NullQp& qp);
  void set_state(NullQp& qp, ibv_qp_state state);  // ERR flushes, RESET forgets
  bool has(std::uint32_t qp_num);
  std::uint32_t add_region(const MemoryTable::Region& region);  // 0: the table is full
  void remove_region(std::uint32_t key, std::uint64_t bytes);
  NullCounters counters();

 private:
  int stage(NullQp& qp, const ibv_send_wr& wr) noexcept;
  void deliver() noexcept;
  bool deliver_one(NullQp& qp, NullRequest& request) noexcept;  // false: the request waits
  void finish(NullQp& qp, const NullRequest& request, ibv_wc_status status) noexcept;
  void take_receive(NullQp& qp, const NullRequest* request, ibv_wc_status status) noexcept;
  void to_error(NullQp& qp) noexcept;
  void wait_for_delivery(NullQp& qp) noexcept;
  NullQp* find(std::uint32_t qp_num) noexcept;
  static void push(NullCq& cq, const NullCompletion& completion) noexcept;
  static void forget(NullCq& cq, const NullQp& qp) noexcept;

  const std::uint64_t delivery_polls_;
  const std::uint32_t base_;  // of queue pair numbers; it differs between processes
  SpinLock lock_;             // protects all members below
  MemoryTable regions_;
  std::vector<NullQp*> qps_;
  NullQp* pending_first_ = nullptr;
  std::uint64_t polls_ = 0;
  NullCounters counters_;
  std::uint64_t qp_count_ = 0, registered_ = 0;
};

// The data path's entries in ibv_context_ops. perf/instructions counts the instructions of their
// callers, but not their own.
int null_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int null_post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int null_poll_cq(ibv_cq* cq, int count, ibv_wc* wc);

}  // namespace mesh::soft
