#pragma once
// A host of the software fabric that counts the objects that are alive, so that nothing can leak
// unseen, and knows which memory is registered. What was made on a card that has left is gone, too.
// Completion queues die here. Else the data path does not pass here. Thread: one, of all hosts.

#include "src/base/held_locks.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh::sim {

class CountingProvider final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  struct Alive {
    std::int64_t devices = 0, pds = 0, mrs = 0, cqs = 0, qps = 0;
  };
  const Alive& alive() const noexcept { return alive_; }
  // Returns whether any memory region names a byte of the memory.
  bool registers(std::span<const std::byte> memory) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&memory](const auto& entry) {
      const std::span<const std::byte> range = entry.second;
      return range.data() < memory.data() + memory.size() &&
             memory.data() < range.data() + range.size();
    });
  }

  // Has a completion queue of the device die: its queue pairs fail, it shows nothing but what it
  // has, and the device says so. Takes the newest of the largest ones, which is a loop's. Returns
  // false if there is none.
  bool kill_queue(const std::string& nic) {
    ibv_cq* victim = nullptr;
    for (ibv_cq* const queue : queues_) {
      if (names_[queue->context] != nic || dead_queues().contains(queue)) continue;
      if (victim == nullptr || queue->cqe >= victim->cqe) victim = queue;
    }
    if (victim == nullptr) return false;
    std::deque<ibv_wc> shown;
    for (ibv_wc wc{}; polls_living()(victim, 1, &wc) == 1;) shown.push_back(wc);
    dead_queues()[victim] = std::move(shown);
    untold_.push_back(victim);
    const WaitsUnderLocks device_acts;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    for (const auto& [qp, queue] : queue_of_)
      if (queue == victim) static_cast<void>(PassingProvider::modify_qp(qp, &attr, IBV_QP_STATE));
    return true;
  }
  bool next_event(ibv_context* context, verbs::DeviceEvent* event) override {
    const auto at = std::find_if(untold_.begin(), untold_.end(), [context](const ibv_cq* queue) {
      return queue->context == context;
    });
    if (at == untold_.end()) return PassingProvider::next_event(context, event);
    *event = {.kind = verbs::DeviceEventKind::CqError, .cq = *at};
    untold_.erase(at);
    return true;
  }

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const context = born(PassingProvider::open_device(name), alive_.devices);
    if (context == nullptr) return nullptr;
    names_[context] = name;
    if (context->ops.poll_cq != poll_living) polls_living() = context->ops.poll_cq;
    context->ops.poll_cq = poll_living;
    return context;
  }
  int close_device(ibv_context* context) override {
    return dead(PassingProvider::close_device(context), alive_.devices);
  }
  // Called when a command has got its answer, and the caller does not have it yet.
  std::function<void()> before_answer{};
  ibv_pd* alloc_pd(ibv_context* context) override {
    ibv_pd* const pd = born(PassingProvider::alloc_pd(context), alive_.pds);
    const int error = errno;
    if (before_answer) before_answer();
    errno = error;
    return pd;
  }
  int dealloc_pd(ibv_pd* pd) override { return dead(PassingProvider::dealloc_pd(pd), alive_.pds); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    ibv_mr* const mr = born(PassingProvider::reg_mr(pd, address, bytes, access), alive_.mrs);
    if (mr != nullptr) ranges_[mr] = {static_cast<const std::byte*>(address), bytes};
    return mr;
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, const verbs::DmaBufferRange& range, int access) override {
    return born(PassingProvider::reg_dmabuf_mr(pd, range, access), alive_.mrs);
  }
  int dereg_mr(ibv_mr* mr) override {
    const int error = dead(PassingProvider::dereg_mr(mr), alive_.mrs);
    if (is_gone(error)) ranges_.erase(mr);
    return error;
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    ibv_cq* const queue = born(PassingProvider::create_cq(context, entries), alive_.cqs);
    if (queue != nullptr) queues_.push_back(queue);
    return queue;
  }
  int destroy_cq(ibv_cq* cq) override {
    const int error = dead(PassingProvider::destroy_cq(cq), alive_.cqs);
    if (!is_gone(error)) return error;
    std::erase(queues_, cq);
    std::erase(untold_, cq);
    dead_queues().erase(cq);
    return error;
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    ibv_qp* const qp = born(PassingProvider::create_qp(pd, attr), alive_.qps);
    if (qp != nullptr) queue_of_.emplace_back(qp, attr->recv_cq);
    return qp;
  }
  int destroy_qp(ibv_qp* qp) override {
    const int error = dead(PassingProvider::destroy_qp(qp), alive_.qps);
    if (is_gone(error))
      std::erase_if(queue_of_, [qp](const auto& each) { return each.first == qp; });
    return error;
  }

 private:
  using Poll = int (*)(ibv_cq*, int, ibv_wc*);
  // With what they still show.
  static std::map<const ibv_cq*, std::deque<ibv_wc>>& dead_queues() {
    static std::map<const ibv_cq*, std::deque<ibv_wc>> dead;
    return dead;
  }
  static Poll& polls_living() {
    static Poll poll = nullptr;
    return poll;
  }
  static int poll_living(ibv_cq* cq, int count, ibv_wc* wc) {
    const auto at = dead_queues().empty() ? dead_queues().end() : dead_queues().find(cq);
    if (at == dead_queues().end()) return polls_living()(cq, count, wc);
    std::deque<ibv_wc>& shown = at->second;
    const std::size_t taken = std::min(shown.size(), static_cast<std::size_t>(count));
    std::copy_n(shown.begin(), taken, wc);
    shown.erase(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(taken));
    return static_cast<int>(taken);
  }

  template <typename Object>
  static Object* born(Object* object, std::int64_t& count) {
    if (object != nullptr) ++count;
    return object;
  }
  static bool is_gone(int error) noexcept { return error == 0 || error == EIO; }
  static int dead(int error, std::int64_t& count) {
    if (is_gone(error)) --count;
    return error;
  }

  Alive alive_;
  std::map<const ibv_context*, std::string> names_;          // of devices
  std::vector<std::pair<ibv_qp*, const ibv_cq*>> queue_of_;  // in that order, too
  std::vector<ibv_cq*> queues_;                              // in the order in which they were made
  std::vector<const ibv_cq*> untold_;  // have died, and no event has told of it
  std::map<const ibv_mr*, std::span<const std::byte>> ranges_;
};

}  // namespace mesh::sim
