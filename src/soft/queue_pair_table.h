#pragma once
// The queue pairs of one NIC by index and by number, and what all of them together have done. An
// index is used again with another number, so that an old number finds nothing. Thread: the NIC's
// turn lock. Bound: kQpsMax queue pairs.

#include "src/base/check.h"
#include "src/soft/fabric_file.h"
#include "src/soft/index_set.h"
#include "src/soft/queue_pair.h"

#include <cstdint>
#include <vector>

namespace mesh::soft {

class QueuePairTable {
 public:
  struct Totals {
    std::uint64_t work_requests = 0, bytes = 0, rnr_events = 0, doorbells = 0;
    void add(const QueuePair& qp) noexcept;
  };

  QueuePairTable(NicRef self, int slot) : self_(self), slot_(static_cast<std::uint32_t>(slot)) {}

  // Gives the queue pair its index and its number. Returns false if the table is full.
  bool add(QueuePair& qp);
  void remove(QueuePair& qp);
  QueuePair* find(std::uint32_t index) const noexcept {
    return index < qps_.size() ? qps_[index] : nullptr;
  }
  QueuePair* find_num(std::uint32_t qp_num) const noexcept {
    QueuePair* qp = find(qp_num % kQpsMax);
    DCHECK(qp == nullptr || qp->index == qp_num % kQpsMax);
    return qp != nullptr && qp->verbs.qp_num == qp_num ? qp : nullptr;
  }
  const std::vector<QueuePair*>& slots() const noexcept { return qps_; }  // null: free
  Totals totals() const noexcept;  // with those of queue pairs that were removed

 private:
  std::size_t free_index();  // kQpsMax: the table is full

  const NicRef self_;
  const std::uint32_t slot_;  // of the process
  std::vector<QueuePair*> qps_;
  std::size_t free_from_ = 0;  // no index before it is free
  std::vector<std::uint32_t> generations_;
  Totals gone_;  // totals of removed queue pairs
};

}  // namespace mesh::soft
