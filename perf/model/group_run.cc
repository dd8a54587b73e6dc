#include "perf/model/group_run.h"

#include "plugin/oneshot/bring_up.h"

#include <algorithm>
#include <utility>

namespace mesh::model {
namespace {

constexpr int kConnectSteps = 4'000'000;

// The member whose call is under way, for its sums.
struct Adder {
  soft::SoftProvider* provider = nullptr;
  std::uint64_t add_ps = 0;
};
thread_local Adder g_adder;

void add_in_model_time(const oneshot::Reduction& reduction,
                       std::span<const std::byte* const> inputs, std::byte* out,
                       std::size_t count) noexcept {
  oneshot::reduce(reduction, inputs, out, count);
  const std::size_t bytes = count * inputs.size() * element_bytes(reduction.element);
  g_adder.provider->spend_cpu_ns(bytes * g_adder.add_ps / 1000);
}

}  // namespace

class GroupRun::Member : public Driven {
 public:
  Member(GroupRun& run, std::size_t rank, oneshot::Group::Parts parts)
      : run_(run),
        host_(run.order_.hosts[rank]),
        members_(parts.members.size()),
        group_(std::move(parts)),
        from_(run.order_.load.bytes / sizeof(float), static_cast<float>(rank + 1)),
        to_(from_.size()) {}

  Called call_start(std::uint64_t now_ns) override {
    if (job_ != nullptr || begun_ == run_.rounds_.size()) return Called::Nothing;
    if (begun_ > 0 && run_.rounds_[begun_ - 1].ended < members_) return Called::Nothing;
    const Result<oneshot::Job*> job =
        group_.all_reduce({.from = reinterpret_cast<const std::byte*>(from_.data()),
                           .to = reinterpret_cast<std::byte*>(to_.data()),
                           .count = from_.size(),
                           .reduction = {}});
    if (job.code() == Errc::WouldBlock) return Called::Waiting;
    if (!job.ok()) return Called::Failed;
    job_ = *job;
    Round& round = run_.rounds_[begun_++];
    if (round.began_ns == 0) round.began_ns = now_ns;
    return Called::Progress;
  }
  Called call_test() override {
    if (job_ == nullptr) return Called::Waiting;  // until the others have ended, too
    g_adder = {&host_.provider, run_.order_.costs.add_ps};
    const Status status = group_.test(*job_);
    if (status.code() == Errc::WouldBlock) return Called::Waiting;
    const std::size_t all = members_ * (members_ + 1) / 2;
    const auto sum = static_cast<float>(all);
    const bool right = std::all_of(to_.begin(), to_.end(), [sum](float x) { return x == sum; });
    if (!status.ok() || !right) return Called::Failed;
    std::fill(to_.begin(), to_.end(), 0.0f);
    job_ = nullptr;
    return Called::Progress;
  }
  void note_progress(std::uint64_t at_ns) override {
    Round& round = run_.rounds_[begun_ - 1];
    round.ended_ns = std::max(round.ended_ns, at_ns);
    ++round.ended;
  }
  bool over() const noexcept override { return job_ == nullptr && begun_ == run_.rounds_.size(); }
  // A start stages a copy, and calls the engine for each message of the first step.
  std::uint64_t own_ns(const CallCosts& costs, bool testing) const noexcept override {
    if (testing || job_ != nullptr) return costs.test_ns;
    const std::uint64_t calls = 2 * (group_.steps() == 1 ? members_ - 1 : group_.steps());
    return calls * costs.start_ns + run_.order_.load.bytes * costs.copy_ps / 1000;
  }
  std::size_t steps() const noexcept { return group_.steps(); }

 private:
  GroupRun& run_;
  const Host host_;
  const std::size_t members_;
  oneshot::Group group_;
  const std::vector<float> from_;
  std::vector<float> to_;
  oneshot::Job* job_ = nullptr;
  std::size_t begun_ = 0;
};

std::unique_ptr<GroupRun> GroupRun::open(const Order& order, std::string& why) {
  std::unique_ptr<GroupRun> run(new GroupRun(order));
  return run->connect(why) ? std::move(run) : nullptr;
}

bool GroupRun::connect(std::string& why) {
  const std::size_t count = order_.hosts.size();
  std::vector<HandleBytes> handles(count);
  std::vector<Listener*> listeners;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Host& host = order_.hosts[rank];
    const auto listener = host.engine.listen(host.context, 0, handles[rank]);
    if (!listener.ok()) return why = "no listener", false;
    listeners.push_back(*listener);
  }
  std::vector<std::unique_ptr<oneshot::BringUp>> bring_ups;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Host& host = order_.hosts[rank];
    bring_ups.push_back(std::make_unique<oneshot::BringUp>(
        oneshot::BringUp::Invitation{.engine = host.engine,
                                     .context = host.context,
                                     .listener = *listeners[rank],
                                     .handles = handles,
                                     .rank = rank}));
  }
  std::vector<Errc> answers(count, Errc::WouldBlock);
  const auto waits = [&] {
    return std::find(answers.begin(), answers.end(), Errc::WouldBlock) != answers.end();
  };
  for (int step = 0; step < kConnectSteps && waits(); ++step) {
    for (std::size_t rank = 0; rank < count; ++rank) {
      if (answers[rank] == Errc::WouldBlock) answers[rank] = bring_ups[rank]->step().code();
    }
    order_.step();
  }
  for (std::size_t rank = 0; rank < count; ++rank) {
    order_.hosts[rank].engine.close_listener(listeners[rank]);
    if (answers[rank] != Errc::Ok) return why = "the members do not connect", false;
    oneshot::Group::Parts parts = bring_ups[rank]->take();
    parts.reducer = &add_in_model_time;
    members_.push_back(std::make_unique<Member>(*this, rank, std::move(parts)));
  }
  return true;
}

GroupRun::GroupRun(const Order& order) : order_(order), rounds_(order.load.rounds) {}
GroupRun::~GroupRun() = default;
Driven& GroupRun::member(std::size_t rank) noexcept { return *members_[rank]; }
std::size_t GroupRun::steps() const noexcept { return members_[0]->steps(); }

std::vector<double> GroupRun::latencies_us() const {
  std::vector<double> latencies;
  for (std::size_t i = order_.load.warmup; i < rounds_.size(); ++i)
    latencies.push_back(static_cast<double>(rounds_[i].ended_ns - rounds_[i].began_ns) / 1000);
  return latencies;
}

}  // namespace mesh::model
