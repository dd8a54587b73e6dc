#include "src/soft/queue_pair_table.h"

#include "src/soft/host_state.h"

#include <algorithm>

namespace mesh::soft {

namespace {
constexpr std::uint32_t kGenerations = 256;
static_assert(std::uint64_t{kGenerations} * kQpsMax == 1u << kSlotShift);
static_assert(kSlotsMax << kSlotShift == 1 << 24);
}  // namespace

std::size_t QueuePairTable::free_index() {
  const auto first = qps_.begin() + static_cast<std::ptrdiff_t>(free_from_);
  const auto free_slot = std::find(first, qps_.end(), nullptr);
  free_from_ = static_cast<std::size_t>(free_slot - qps_.begin());
  if (free_slot == qps_.end() && qps_.size() < kQpsMax) {
    // Different hosts start at different numbers, so that a mixed-up number is noticed.
    const auto seed = static_cast<std::uint32_t>(self_.host * 37 + self_.nic * 11);
    generations_.push_back(seed % (kGenerations - 1));
    qps_.push_back(nullptr);
    return qps_.size() - 1;
  }
  return static_cast<std::size_t>(free_slot - qps_.begin());
}

bool QueuePairTable::add(QueuePair& qp) {
  const std::size_t index = free_index();
  if (index == kQpsMax) return false;
  qp.index = static_cast<std::uint32_t>(index);
  std::uint32_t& generation = generations_[qp.index];
  generation = generation % (kGenerations - 1) + 1;
  qp.verbs.qp_num = (slot_ << kSlotShift) + generation * kQpsMax + qp.index;
  DCHECK(generation != 0 && qp.verbs.qp_num >> 24 == 0 && qps_[qp.index] == nullptr);
  qps_[qp.index] = &qp;
  return true;
}

void QueuePairTable::remove(QueuePair& qp) {
  DCHECK(find(qp.index) == &qp);
  gone_.add(qp);
  qps_[qp.index] = nullptr;
  free_from_ = std::min<std::size_t>(free_from_, qp.index);
}

QueuePairTable::Totals QueuePairTable::totals() const noexcept {
  Totals all = gone_;
  for (const QueuePair* qp : qps_)
    if (qp != nullptr) all.add(*qp);
  return all;
}

void QueuePairTable::Totals::add(const QueuePair& qp) noexcept {
  work_requests += qp.work_requests.load(std::memory_order_relaxed);
  bytes += qp.bytes.load(std::memory_order_relaxed);
  rnr_events += qp.rnr_events.load(std::memory_order_relaxed);
  doorbells += qp.doorbells.load(std::memory_order_relaxed);
}

}  // namespace mesh::soft
