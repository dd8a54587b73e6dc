// A job that NCCL's profiler watches, with a profiler of ours in NCCL's place: every request has a
// start and a stop of its events, in this order, with the bytes that it moves: over several paths,
// and while paths are lost.
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"
#include "tests/unit/plugin/profiler_recorder.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;
using testkit::ProfilerRecorder;
using Event = ProfilerRecorder::Event;

constexpr std::size_t kRoom = 1 << 20, kDepth = 8;

std::size_t bytes_of(std::uint64_t number) {
  constexpr std::array<std::size_t, 6> kSizes{0, 1, 700, 5000, 100'000, kRoom};
  return kSizes[number % kSizes.size()];
}

struct Asked {
  void* request = nullptr;
  std::uint64_t number = 0;
};

// Rank 0 sends to rank 1, eight messages at a time, each with a handle made from its number.
class Job {
 public:
  explicit Job(Peer& peer)
      : api_(peer.load(std::stoi(peer.argument()))),
        communicator_(watched(*api_)),
        line_(peer, *communicator_, {.bytes = kDepth * kRoom}) {
    communicator_->progress().detach(line_.pipe());
  }
  bool sends() const { return line_.sends(); }
  void run(std::uint64_t first, std::uint64_t end) {
    auto patience_ends = SteadyClock::now() + patience();
    for (std::uint64_t next = first; next < end || !open_.empty();) {
      bool moved = next < end && open_.size() < kDepth && start(next);
      if (moved) ++next;
      moved = (!open_.empty() && take()) || moved;
      if (moved) {
        patience_ends = SteadyClock::now() + patience();
      } else {
        std::this_thread::yield();
        require(SteadyClock::now() < patience_ends, "the job is stuck");
      }
    }
  }
  bool start(std::uint64_t number) {
    driver::NetPiece piece = line_.memory().piece(number % kDepth * kRoom, kRoom, 3);
    if (sends()) piece.bytes = bytes_of(number);
    piece.phandle = handle_of(number);
    void* request = nullptr;
    require_success(sends() ? api_->isend(line_.comm(), piece, &request)
                            : api_->irecv(line_.comm(), piece, &request),
                    "isend or irecv");
    if (request != nullptr) open_.push_back({request, number});
    return request != nullptr;
  }
  void close(Peer& peer) {
    peer.barrier();
    line_.close();
    require_success(communicator_->close(), "finalize");
    require(ProfilerRecorder::mistakes().empty(), ProfilerRecorder::mistakes());
    require(ProfilerRecorder::open_count() == 0, "an event has a start and no stop");
  }
  static void* handle_of(std::uint64_t number) {
    return reinterpret_cast<void*>((number + 1) * 64);
  }
  static std::uint64_t number_of(const Event& event) {
    return reinterpret_cast<std::uintptr_t>(event.phandle) / 64 - 1;
  }

 private:
  static std::unique_ptr<driver::Communicator> watched(driver::NetApi& api) {
    api.set_profiler(&ProfilerRecorder::callback);
    return open_communicator(api);
  }
  // All events of a request have ended when NCCL hears that it is done.
  bool take() {
    int done = 0, bytes = -1;
    const Asked asked = open_.front();
    require_success(api_->test(asked.request, &done, &bytes), "test");
    if (done == 0) return false;
    open_.pop_front();
    require(bytes == static_cast<int>(bytes_of(asked.number)), "the wrong size");
    require(ProfilerRecorder::ended(handle_of(asked.number)), "done before its events");
    return true;
  }

  std::unique_ptr<driver::NetApi> api_;
  std::unique_ptr<driver::Communicator> communicator_;
  Line line_;
  std::deque<Asked> open_;
};

// Returns the events that were started for each message, in order.
std::map<std::uint64_t, std::vector<Event>> by_message() {
  std::map<std::uint64_t, std::vector<Event>> found;
  for (const Event& event : ProfilerRecorder::events())
    found[Job::number_of(event)].push_back(event);
  return found;
}

void expect_sends(std::uint64_t count, std::set<std::pair<int, int>>* queue_pairs) {
  const auto found = by_message();
  require(found.size() == count, "a send has no event");
  for (const auto& [number, events] : found) {
    std::size_t sum = 0;
    for (const Event& event : events) {
      sum += event.started.qp.length;
      require(event.started.qp.qpNum > 0, "an event without its queue pair");
      queue_pairs->insert({event.started.qp.device, event.started.qp.qpNum});
    }
    require(sum == bytes_of(number), "a send of " + std::to_string(bytes_of(number)) +
                                         " bytes has events of " + std::to_string(sum));
  }
}

void expect_receives(std::uint64_t count) {
  const auto found = by_message();
  require(found.size() == count, "a receive has no event");
  for (const auto& [number, events] : found)
    require(events.size() == 1 && events.front().updated.qp.length == bytes_of(number),
            "a receive's event has the wrong bytes");
}

const Scenario kHealthy("watched_job", [](Peer& peer) {
  const std::uint64_t count = trimmed(600);
  Job job(peer);
  job.run(0, count);
  job.close(peer);
  if (!job.sends()) return expect_receives(count);
  std::set<std::pair<int, int>> queue_pairs;
  std::set<int> rails;
  expect_sends(count, &queue_pairs);
  for (const auto& [rail, queue_pair] : queue_pairs) rails.insert(rail);
  require(rails.size() == 2, "both cables carry");
  require(queue_pairs.size() >= 6, "and several queue pairs of each");
});

RunOptions watched(const char* version) {
  RunOptions options{.fabric = "pair2.json", .argument = version};
  options.environment = {{"NCCL_MESH_RAILS", "all"}, {"NCCL_PROFILER_PLUGIN", "recorder"}};
  return options;
}

TEST(Profiler, SeesEveryRequestOfAJobOverTwoCables) {
  for (const char* version : {"10", "11", "12"}) {
    SCOPED_TRACE(version);
    expect_run(kHealthy, watched(version));
  }
}

const Scenario kPathsLost("watched_while_paths_are_lost", [](Peer& peer) {
  Job job(peer);
  Breaker breaker;
  const std::uint64_t step = trimmed(300);
  constexpr std::uint64_t kTimes = 6;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const std::string nic = breaker.nics()[i % 2].name;
    std::optional<LaterBlow> blow;
    if (job.sends())
      blow.emplace(breaker, LaterBlow::Order{i % 3 == 0 ? Blow::PulledCable : Blow::Adapter, nic,
                                             kRoom * (1 + i), i});
    job.run(i * step, (i + 1) * step);
    if (blow) blow->finish();
    if (job.sends()) breaker.plug(nic);
    peer.barrier();
  }
  job.close(peer);
  if (!job.sends()) return expect_receives(kTimes * step);
  require(by_message().size() == kTimes * step, "a send has no event");
});

TEST(Profiler, SeesEveryRequestWhilePathsAreLost) {
  RunOptions options = watched("12");
  options.software_only = "its ports are broken through the software fabric's own door";
  options.environment.emplace_back("NCCL_IB_TIMEOUT", "12");
  options.environment.emplace_back("NCCL_IB_RETRY_CNT", "2");
  expect_run(kPathsLost, options);
}

}  // namespace
}  // namespace mesh::e2e
