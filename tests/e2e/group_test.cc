// Receives that are started together, as NCCL does where the ranks of a host share one connection
// (PXN): one proxy sends for eight local ranks, whose messages are ready in any order.
#include "tests/e2e/breaker.h"
#include "tests/e2e/proxy.h"
#include "tests/e2e/ring_job.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Receives what a proxy sends, each round as one group, and checks every size and byte.
class GroupReceiver {
 public:
  GroupReceiver(Line& line, const Plan& plan) : line_(line), plan_(plan) {}

  bool done() const { return next_ == plan_.rounds() && open_.empty(); }
  bool turn() {
    bool moved = false;
    if (next_ < plan_.rounds() && open_.size() < kOpen) moved = start();
    if (!open_.empty()) moved = take() || moved;
    return moved;
  }

 private:
  struct Group {
    void* request = nullptr;
    std::uint64_t round = 0;
    std::vector<std::size_t> tags;  // of its members
    void* flush = nullptr;
  };
  driver::NetPiece piece(std::uint64_t round, std::size_t tag, std::size_t bytes) const {
    return line_.memory().piece(place_of(round, tag), bytes, kFirstTag + static_cast<int>(tag));
  }
  bool start() {
    Group group;
    group.round = next_;
    std::vector<driver::NetPiece> pieces;
    for (std::size_t i = 0; i < kTags; ++i) {
      const std::size_t tag = (i * 5 + next_) % kTags;
      if (!plan_.has(next_, tag)) continue;
      group.tags.push_back(tag);
      // NCCL's receives have the room of a whole slot.
      pieces.push_back(piece(next_, tag, plan_.bytes(next_, tag) == 0 ? 0 : kRoom));
    }
    group.request = this;
    require_success(line_.communicator().api().irecv_group(line_.comm(), pieces, &group.request),
                    "irecv");
    if (group.request == nullptr) return false;
    open_.push_back(group);
    ++next_;
    return true;
  }
  bool take() {
    Group& group = open_.front();
    std::array<int, kTags + 1> sizes;
    sizes.fill(-9);
    int finished = 0;
    if (group.flush == nullptr) {
      require_success(line_.communicator().api().test(group.request, &finished, sizes.data()),
                      "test");
      if (finished == 0) return false;
      check_sizes(group, sizes);
      if (flush(group)) return true;
    } else {
      require_success(line_.communicator().api().test(group.flush, &finished, nullptr), "test");
      if (finished == 0) return false;
    }
    check_bytes(group);
    open_.pop_front();
    return true;
  }
  // Returns false if no flush is needed.
  bool flush(Group& group) {
    for (const std::size_t tag : group.tags) {
      const driver::NetPiece flushed = piece(group.round, tag, plan_.bytes(group.round, tag));
      if (!flushed.flush || flushed.bytes == 0) continue;
      require_success(line_.communicator().api().iflush(line_.comm(), flushed, &group.flush),
                      "iflush");
      return group.flush != nullptr;
    }
    return false;
  }
  void check_sizes(const Group& group, std::span<const int> sizes) const {
    for (std::size_t i = 0; i < group.tags.size(); ++i) {
      const auto wanted = static_cast<int>(plan_.bytes(group.round, group.tags[i]));
      require(sizes[i] == wanted, "member " + std::to_string(i) + " of round " +
                                      std::to_string(group.round) + " says " +
                                      std::to_string(sizes[i]) + " bytes instead of " +
                                      std::to_string(wanted));
    }
    require(sizes[group.tags.size()] == -9, "a size beyond the members was written");
  }
  void check_bytes(const Group& group) const {
    for (const std::size_t tag : group.tags) {
      const driver::PatternKey key = Plan::key(group.round, tag);
      const std::size_t bytes = plan_.bytes(group.round, tag);
      const char* data = line_.memory().data() + place_of(group.round, tag);
      const driver::PatternVerdict verdict = driver::check_pattern(key, data, bytes);
      require(verdict.good(), driver::describe(verdict, key, data, bytes));
    }
  }

  Line& line_;
  const Plan& plan_;
  std::uint64_t next_ = 0;
  std::deque<Group> open_;
};

template <typename Side>
void drive(Side& side, const char* name) {
  auto patience_ends = SteadyClock::now() + patience();
  while (!side.done()) {
    if (side.turn()) {
      patience_ends = SteadyClock::now() + patience();
    } else {
      std::this_thread::yield();
      require(SteadyClock::now() < patience_ends, std::string("the ") + name + " is stuck");
    }
  }
}

struct Job {
  explicit Job(Peer& peer)
      : api(peer.load()),
        communicator(open_communicator(*api)),
        line(peer, *communicator, {.bytes = kOpen * kTags * kRoom}) {
    communicator->progress().detach(line.pipe());
  }
  void run(const Plan& plan, std::size_t late_tag = SIZE_MAX) {
    if (line.sends()) {
      Proxy proxy(line, plan);
      proxy.late_tag = late_tag;
      drive(proxy, "proxy");
    } else {
      GroupReceiver receiver(line, plan);
      drive(receiver, "receiver");
    }
  }
  void end(Peer& peer) {
    peer.barrier();
    line.close();
    require_success(communicator->close(), "finalize");
  }
  std::unique_ptr<driver::NetApi> api;
  std::unique_ptr<driver::Communicator> communicator;
  Line line;
};

const Scenario kRandom("random_groups", [](Peer& peer) {
  Job job(peer);
  job.run(Plan(1, trimmed(10'000), kRoom));
  job.end(peer);
});
TEST(Group, TenThousandOfEightRanksInAnyOrder) { expect_run(kRandom); }

// Pollers match sends and credits while the proxy goes on.
TEST(Group, TenThousandWithPollers) {
  RunOptions options;
  options.environment = {{"NCCL_MESH_THREADS", "1"}};
  expect_run(kRandom, options);
}

const Scenario kLate("late_rank", [](Peer& peer) {
  Job job(peer);
  for (const std::size_t late : {0u, 3u, 7u}) job.run(Plan(late, trimmed(40), 4096), late);
  job.end(peer);
});
TEST(Group, OneLateRankHoldsUpNoOther) { expect_run(kLate); }

// Starts more sends of one rank than a connection has slots, before a receive of another rank.
const Scenario kAhead("rank_runs_ahead", [](Peer& peer) {
  Job job(peer);
  driver::NetApi& net = *job.api;
  driver::Registered& memory = job.line.memory();
  const auto finish = [&](void* request) {
    int done = 0, bytes = -1;
    const auto end = SteadyClock::now() + patience();
    while (done == 0 && SteadyClock::now() < end)
      require_success(net.test(request, &done, &bytes), "test");
    require(done == 1, "a request is not done in time");
  };
  constexpr int kAheadMost = 32;
  void* request = nullptr;
  if (job.line.sends()) {
    std::deque<void*> ahead;
    for (int i = 0; i < kAheadMost; ++i) {
      require_success(net.isend(job.line.comm(), memory.piece(0, 64, 1), &request), "isend");
      if (request != nullptr) ahead.push_back(request);
    }
    require(ahead.size() >= 8, "a rank may have eight sends open");
    require_success(net.isend(job.line.comm(), memory.piece(0, 64, 2), &request), "isend");
    require(request != nullptr, "a rank that runs ahead leaves no slot for another one");
    finish(request);
    for (std::size_t i = 0; i < kAheadMost; ++i) {
      while (ahead.size() <= i) {
        require_success(net.isend(job.line.comm(), memory.piece(0, 64, 1), &request), "isend");
        if (request != nullptr) ahead.push_back(request);
      }
      finish(ahead[i]);
    }
  } else {
    require_success(net.irecv(job.line.comm(), memory.piece(0, 64, 2), &request), "irecv");
    finish(request);
    for (int i = 0; i < kAheadMost; ++i) {
      require_success(net.irecv(job.line.comm(), memory.piece(0, 64, 1), &request), "irecv");
      require(request != nullptr, "a receive finds no slot");
      finish(request);
    }
  }
  job.end(peer);
});
TEST(Group, ARankThatRunsAheadLeavesRoomForAnother) { expect_run(kAhead); }

constexpr const char* kTwoCables = R"({"name": "two_cables",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"},
               {"name": "mesh1", "address": "10.0.13.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"},
               {"name": "mesh1", "address": "10.0.13.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}, {"ends": ["a/mesh1", "b/mesh1"]}]})";

const Scenario kPathsLost("groups_while_paths_are_lost", [](Peer& peer) {
  Job job(peer);
  Breaker breaker;
  constexpr std::uint64_t kTimes = 12;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const std::string nic = breaker.nics()[i % 2].name;
    std::optional<LaterBlow> blow;
    if (job.line.sends())
      blow.emplace(breaker, LaterBlow::Order{i % 3 == 0 ? Blow::PulledCable : Blow::Adapter, nic,
                                             kRoom * (1 + i), i});
    job.run(Plan(100 + i, trimmed(600), kRoom));
    if (blow) blow->finish();
    if (job.line.sends()) breaker.plug(nic);
    peer.barrier();
  }
  job.end(peer);
});
TEST(Group, OutlivesLostPaths) {
  RunOptions options{
      .fabric_text = kTwoCables,
      .software_only = "its ports are broken through the software fabric's own door"};
  options.environment = {
      {"NCCL_MESH_RAILS", "all"}, {"NCCL_IB_TIMEOUT", "12"}, {"NCCL_IB_RETRY_CNT", "2"}};
  expect_run(kPathsLost, options);
}

// Rank 0 sends for the four ranks of its host to rank 4, from memory of a GPU into which they
// write. Rank 3, which has a connection of its own to rank 7, is killed before its last messages
// are sent.
constexpr int kLocalRanks = 4, kVictim = 3;
constexpr std::uint64_t kDiesAfter = 200, kRoundsOfProcesses = 400;
constexpr const char* kGpus = R"({"name": "gpus",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24",
               "device_memory": "both"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24",
               "device_memory": "both"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";

// Maps what another process has exported, until this one ends.
char* mapped(const std::string& file, std::size_t bytes) {
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  require(memory != MAP_FAILED, file + " cannot be mapped");
  return static_cast<char*>(memory);
}

struct ProxyAndRank {
  Proxy& proxy;
  LocalRank& rank;
  bool done() const { return proxy.done(); }
  bool turn() {
    const bool wrote = rank.turn();
    return proxy.turn() || wrote;
  }
};

const Scenario kProcesses("processes_of_local_ranks", [](Peer& peer) {
  constexpr std::size_t kSlots = kOpen * kTags * kRoom, kBytes = kSlots + kTags * sizeof(Progress);
  Plan plan(3, kRoundsOfProcesses, kRoom);
  plan.end_tags(1u << kVictim | 1u << (kVictim + kLocalRanks), kDiesAfter);
  const std::vector<pid_t> pids = processes(peer);
  if (peer.rank() == 0) driver::use_memory(driver::MemoryKind::Device);
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const int local = peer.rank() % kLocalRanks;
  std::optional<Line> line;
  driver::ConnectionSet none(*communicator);
  if (local == 0 || local == kVictim) {
    line.emplace(peer, *communicator,
                 LineOptions{.bytes = kBytes, .from = local, .to = local + kLocalRanks});
  } else {
    require_success(none.connect(peer.bootstrap(), {}), "connecting to nobody");
  }
  const UniqueFd exported = peer.rank() == 0 ? line->memory().buffer().export_buffer() : UniqueFd();
  const std::string file = fmt::format("/proc/{}/fd/{}", pids[0], exported.get());
  const std::string of_proxy = peer.all_gather(file).front();
  if (local == kVictim) transfer(*line, {.bytes = 4096});
  if (local == 0) communicator->progress().detach(line->pipe());
  if (peer.rank() == kLocalRanks) {
    GroupReceiver receiver(*line, plan);
    drive(receiver, "receiver");
    line->close();
    return require_success(communicator->close(), "finalize");
  }
  if (peer.rank() > kLocalRanks)
    return require(ends_within(pids[kVictim], patience()), "the rank to be killed has not ended");
  char* const memory = mapped(of_proxy, kBytes);
  auto* const progress = reinterpret_cast<Progress*>(memory + kSlots);
  const auto tag = static_cast<std::size_t>(local);
  LocalRank rank(memory, progress, plan, {tag, tag + kLocalRanks});
  if (local != 0) {
    drive(rank, "local rank");
    if (local == kVictim) ::raise(SIGKILL);
    return;
  }
  Proxy proxy(*line, plan);
  proxy.progress = progress;
  proxy.held_from = kDiesAfter - kOpen;  // the victim has room for the rest
  ProxyAndRank both{proxy, rank};
  drive(both, "proxy");
  require(ends_within(pids[kVictim], patience()), "the rank to be killed has not ended");
  proxy.held_from = UINT64_MAX;
  drive(both, "proxy");
  require(!logged(" is lost"), "the proxy has lost a path");
  line->close();
  require_success(communicator->close(), "finalize");
});
TEST(Group, ALocalRankThatIsKilledTakesNoMessageOfAnother) {
  const std::vector<RankEnd> ranks =
      run(kProcesses, {.fabric_text = kGpus,
                       .ranks_per_host = kLocalRanks,
                       .software_only = "its hosts have several ranks, and memory of a GPU"});
  if (IsSkipped()) return;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool well = rank == kVictim ? ranks[rank].end.code == SIGKILL : ranks[rank].end.success();
    EXPECT_TRUE(ranks[rank].finished && well) << "rank " << rank << ":\n" << ranks[rank].output;
  }
}

}  // namespace
}  // namespace mesh::e2e
