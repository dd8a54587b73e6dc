// Several processes that are one host: what is theirs, and what is the host's. They live in this
// process here; contract_test and the end-to-end tests have processes of their own.

#include "src/soft/fault_door.h"
#include "src/soft/host_state.h"
#include "src/verbs/cable_datagrams.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"
#include "tests/unit/base/child.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::soft {
namespace {

using contract::Endpoint;

constexpr const char* kPair = R"({"name": "siblings",
  "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.12.1/24"}]},
            {"name": "b", "nics": [{"name": "n0", "address": "10.0.12.2/24"}]}],
  "links": [{"ends": ["a/n0", "b/n0"], "gbps": 8}]})";

using Process = std::unique_ptr<SoftProvider>;

int slot_in(const Process& process) {
  Endpoint endpoint;
  EXPECT_TRUE(open_endpoint(endpoint, *process, {}));
  const int slot = slot_of(endpoint.qp->qp_num);
  close_endpoint(endpoint);
  return slot;
}

bool port_up(const Process& process) {
  ibv_context* const context = process->open_device("n0");
  ibv_port_attr port{};
  EXPECT_EQ(process->query_port(context, 1, &port), 0);
  process->close_device(context);
  return port.state == IBV_PORT_ACTIVE;
}

// Two processes of host a, in real time.
class Siblings : public testing::Test {
 protected:
  Process open() { return testkit::open_host({.fabric = fabric_, .host = "a", .clock = Clock()}); }
  FaultAnswer tell(FaultVerb verb, int queue_pair = -1) {
    const Fault down{.kind = FaultKind::PortDown, .nic = "n0"};
    const auto answer =
        tell_host(fabric_, "a", {.verb = verb, .fault = down, .queue_pair = queue_pair});
    EXPECT_TRUE(answer.ok());
    return answer.ok() ? *answer : FaultAnswer{};
  }

  const FabricFile fabric_ = *parse(kPair);
  Process first_ = open(), second_ = open();
};

TEST_F(Siblings, AFreePlaceIsTakenAgain) {
  Process third = open();
  EXPECT_EQ(slot_in(first_), 0);
  EXPECT_EQ(slot_in(second_), 1);
  EXPECT_EQ(slot_in(third), 2);
  second_.reset();
  second_ = open();
  EXPECT_EQ(slot_in(second_), 1);
  first_.reset();
  EXPECT_EQ(slot_in(open()), 0) << "the host is there without its first process";
}

TEST_F(Siblings, AHostHasPlacesForSixteen) {
  std::vector<Process> all;
  for (int slot = 2; slot < kSlotsMax; ++slot) all.push_back(open());
  const testkit::LogCapture log;
  const auto one_more = SoftProvider::open({.fabric = fabric_, .host = "a", .clock = Clock()});
  EXPECT_EQ(one_more.code(), Errc::Exhausted);
  EXPECT_EQ(log.count(LogLevel::Warn, "host a has no place for a process: 16 at most"), 1)
      << log.joined();
}

TEST_F(Siblings, APortIsDownForAllThatAreThereAndThatCome) {
  ibv_context* const context = second_->open_device("n0");
  verbs::DeviceEvent event;
  EXPECT_EQ(tell(FaultVerb::Arm).code, Errc::Ok);
  ASSERT_TRUE(second_->next_event(context, &event)) << "an answer means that all know";
  EXPECT_EQ(event.kind, verbs::DeviceEventKind::PortError);
  EXPECT_FALSE(port_up(first_));
  EXPECT_FALSE(port_up(open()));
  first_.reset();
  EXPECT_FALSE(port_up(second_)) << "the host is there without its first process";
  EXPECT_EQ(tell(FaultVerb::Lift).code, Errc::Ok);
  ASSERT_TRUE(second_->next_event(context, &event));
  EXPECT_EQ(event.kind, verbs::DeviceEventKind::PortActive);
  EXPECT_TRUE(port_up(open()));
  second_->close_device(context);
}

// The second process gets the host's state from the first one, which is another one here.
TEST(SiblingProcesses, HaveTheFaultsOfTheirHost) {
  const SoftOptions options{.fabric = *parse(kPair), .host = "a", .clock = Clock()};
  testkit::Child first([&](int fd) {
    const Process there = testkit::open_host(options);
    bool good = true;
    for (int look = 0; good && look < 2; ++look)
      good = testkit::Child::tell(fd, port_up(there) ? 1 : 0) && testkit::Child::hear(fd) >= 0;
    return good ? 0 : 1;
  });
  ASSERT_EQ(first.next(), 1);
  const Process second = testkit::open_host(options);
  EXPECT_TRUE(port_up(second));
  const Fault down{.kind = FaultKind::PortDown, .nic = "n0"};
  EXPECT_TRUE(tell_host(options.fabric, "a", {.verb = FaultVerb::Arm, .fault = down}).ok());
  EXPECT_FALSE(port_up(second));
  ASSERT_TRUE(first.say(0));
  EXPECT_EQ(first.next(), 0);
  ASSERT_TRUE(first.say(0));
  EXPECT_EQ(first.join(), 0);
  EXPECT_FALSE(port_up(second)) << "the host is there without its first process";
}

// Queue pairs of one process that are connected with each other.
struct Pair {
  explicit Pair(SoftProvider& process) { EXPECT_TRUE(open_pair(left, process, right, process)); }
  ~Pair() {
    close_endpoint(left);
    close_endpoint(right);
  }
  Endpoint left, right;
};

TEST_F(Siblings, QueuePairsAreCountedOverAllProcesses) {
  const Pair one(*first_), two(*second_);
  EXPECT_EQ(tell(FaultVerb::FailQueuePairs, 3).count, 1u);
  EXPECT_EQ(two.right.qp->state, IBV_QPS_ERR);
  EXPECT_EQ(tell(FaultVerb::FailQueuePairs, 3).count, 0u) << "three are left";
  EXPECT_EQ(tell(FaultVerb::FailQueuePairs, 0).count, 1u);
  EXPECT_EQ(one.left.qp->state, IBV_QPS_ERR);
  EXPECT_EQ(tell(FaultVerb::FailQueuePairs).count, 2u);
}

// A process's card, with an end of datagrams there.
struct Ear {
  Ear(SoftProvider& process, verbs::DatagramEnd takes)
      : provider(process), context(process.open_device("n0")) {
    const std::vector<verbs::GidEntry> gids = process.gids(context, 1);
    end = process.open_datagrams(context, gids.front(), takes);
  }
  ~Ear() {
    end.reset();
    provider.close_device(context);
  }
  // Returns true if a datagram arrives within 60 s.
  bool hears() const {
    pollfd waiting{end->fd(), POLLIN, 0};
    return ::poll(&waiting, 1, 60'000) == 1 && end->next().has_value();
  }
  SoftProvider& provider;
  ibv_context* context;
  std::unique_ptr<verbs::CableDatagrams> end;
};

TEST_F(Siblings, ADatagramIsForAllProcessesOrForOne) {
  const Process b = testkit::open_host({.fabric = fabric_, .host = "b", .clock = Clock()});
  const Ear asks(*b, verbs::DatagramEnd::Port), first(*first_, verbs::DatagramEnd::Group),
      second(*second_, verbs::DatagramEnd::Group), one(*first_, verbs::DatagramEnd::Port),
      other(*second_, verbs::DatagramEnd::Port);
  const std::array<std::byte, 4> bytes{};
  asks.end->send(verbs::kCableGroup, bytes);
  EXPECT_TRUE(first.hears() && second.hears()) << "the group is in both processes";
  EXPECT_NE(one.end->place(), other.end->place());
  asks.end->send(other.end->place(), bytes);
  EXPECT_TRUE(other.hears());
  EXPECT_FALSE(one.end->next().has_value()) << "it was for the other process";
}

// On a manual clock two processes of a write to one of b.
TEST(SiblingsOnTheWire, ShareTheRateOfTheirPort) {
  constexpr std::uint32_t kBytes = 1 << 20;
  constexpr std::uint64_t kEach = 8;
  std::atomic<std::uint64_t> clock_ns{1'000'000};
  const FabricFile fabric = *parse(kPair);
  const auto open = [&](const char* host) {
    return testkit::open_host(
        {.fabric = fabric, .host = host, .agent = Agent::None, .clock = Clock(&clock_ns)});
  };
  const std::array<Process, 3> all{open("a"), open("a"), open("b")};
  std::array<Endpoint, 2> from, to;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(open_pair(from[i], *all[i], to[i], *all[2]));
    for (std::uint64_t n = 0; n < kEach; ++n)
      ASSERT_EQ(post(from[i], write_request(from[i], to[i], n, kBytes)), 0);
  }
  const std::uint64_t start_ns = clock_ns;
  for (std::uint64_t done = 0; done < 2 * kEach;) {
    bool moved = false;
    std::uint64_t due_ns = UINT64_MAX;
    for (const Process& process : all) moved |= process->turn();
    for (std::size_t i = 0; i < 2; ++i) {
      ibv_wc wc{};
      while (ibv_poll_cq(from[i].send_cq, 1, &wc) > 0) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ++done;
      }
    }
    for (const Process& process : all) due_ns = std::min(due_ns, process->next_due_ns());
    ASSERT_NE(due_ns, UINT64_MAX);
    if (!moved) clock_ns = std::max(clock_ns.load(), due_ns);
  }
  const double took_ns = static_cast<double>(clock_ns - start_ns);
  const double bytes_per_ns = 2.0 * kEach * kBytes / took_ns;
  EXPECT_LE(bytes_per_ns, 1.0) << "8 Gb/s are one byte per ns, for both together";
  EXPECT_GT(bytes_per_ns, 0.95);
  for (Endpoint& endpoint : from) close_endpoint(endpoint);
  for (Endpoint& endpoint : to) close_endpoint(endpoint);
}

}  // namespace
}  // namespace mesh::soft
