// Engines of several hosts in one process whose datagrams go through sockets of the kernel: each
// host has a network namespace, and each cable is a veth. Data goes over the software fabric.
// Skipped where no network namespace may be made.
#include <mesh/snapshot.h>

#include "src/base/timeouts.h"
#include "src/base/unique_fd.h"
#include "src/soft/soft_provider.h"
#include "src/verbs/forwarding_provider.h"
#include "src/verbs/kernel_datagrams.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/soft/open_host.h"

namespace mesh {
namespace {

using testkit::wait_until;

class Namespace {
 public:
  Namespace() {
    std::thread([this] {
      if (::unshare(CLONE_NEWNET) == 0) fd_ = own();
      if (!there()) why_ = std::strerror(errno);
    }).join();
  }
  bool there() const noexcept { return fd_.valid(); }
  const std::string& why() const noexcept { return why_; }
  std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_.get()); }

  // Calls the function in the namespace and returns what it returns.
  template <typename Function>
  auto within(Function&& function) const {
    const UniqueFd back = own();
    if (::setns(fd_.get(), CLONE_NEWNET) != 0) throw std::runtime_error("setns");
    auto result = function();
    if (::setns(back.get(), CLONE_NEWNET) != 0) std::abort();
    return result;
  }
  bool runs(const std::string& command) const {
    return within([&] { return std::system((command + " 2>/dev/null").c_str()) == 0; });
  }

 private:
  static UniqueFd own() { return UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY)); }
  UniqueFd fd_;
  std::string why_;
};

// The kernel's datagrams in a namespace.
class EndWithin final : public verbs::CableDatagrams {
 public:
  EndWithin(std::unique_ptr<verbs::CableDatagrams> end, const Namespace& at)
      : end_(std::move(end)), at_(at) {}
  verbs::DatagramPlace place() const noexcept override { return end_->place(); }
  bool refresh() override {
    return at_.within([this] { return end_->refresh(); });
  }
  int fd() const noexcept override { return end_->fd(); }
  void send(const verbs::DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
    end_->send(to, bytes);
  }
  std::optional<verbs::CableDatagram> next() noexcept override { return end_->next(); }

 private:
  const std::unique_ptr<verbs::CableDatagrams> end_;
  const Namespace& at_;
};

// A host of the software fabric whose NICs' net devices are in a namespace.
class KernelHost final : public verbs::ForwardingProvider {
 public:
  KernelHost(std::unique_ptr<soft::SoftProvider> soft, const Namespace& at)
      : ForwardingProvider(*soft), soft_(std::move(soft)), at_(at) {}

  ibv_context* open_device(const std::string& name) override {
    ibv_context* const context = ForwardingProvider::open_device(name);
    const std::lock_guard lock(mutex_);
    names_[context] = name;
    return context;
  }
  std::unique_ptr<verbs::CableDatagrams> open_datagrams(ibv_context* context,
                                                        const verbs::GidEntry&,
                                                        verbs::DatagramEnd end) override {
    const std::string name = name_of(context);
    auto opened = at_.within([&] { return verbs::open_kernel_datagrams(name, end); });
    if (opened == nullptr) return nullptr;
    return std::make_unique<EndWithin>(std::move(opened), at_);
  }
  soft::FaultPlan& faults() { return soft_->faults(); }

 private:
  std::string name_of(ibv_context* context) const {
    const std::lock_guard lock(mutex_);
    return names_.at(context);
  }
  const std::unique_ptr<soft::SoftProvider> soft_;
  const Namespace& at_;
  mutable std::mutex mutex_;
  std::map<ibv_context*, std::string> names_;
};

constexpr const char* kCrossed = R"({"name": "crossed", "hosts": [
  {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"},
                         {"name": "n1", "address": "10.0.0.2/24"}]},
  {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.3/24"},
                         {"name": "n1", "address": "10.0.0.4/24"}]}],
  "links": [{"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]}]})";
constexpr const char* kRow = R"({"name": "row", "hosts": [
  {"name": "a", "nics": [{"name": "n0", "address": "10.1.0.1/24"}]},
  {"name": "b", "nics": [{"name": "n0", "address": "10.1.0.2/24"},
                         {"name": "n1", "address": "10.2.0.1/24"}]},
  {"name": "c", "nics": [{"name": "n0", "address": "10.2.0.2/24"}]}],
  "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["b/n1", "c/n0"]}]})";

class KernelSockets : public testing::Test {
 protected:
  // Makes the namespaces and the cables. Returns what this machine lacks, or an empty text.
  std::string cable(const char* fabric) {
    file_ = testkit::parsed(fabric);
    for (std::size_t i = 0; i < file_.hosts.size(); ++i)
      if (!places_.emplace_back().there())
        return "no network namespace may be made: " + places_.back().why();
    for (std::size_t i = 0; i < file_.links.size(); ++i)
      if (!lay(i)) return "iproute2 makes no veth between network namespaces here";
    return {};
  }
  void open(const std::string& job = "") {
    for (std::size_t i = 0; i < file_.hosts.size(); ++i) {
      EngineOptions options = testkit::on_loopback(0);
      options.settings.job = job;
      auto soft =
          testkit::open_host({.fabric = file_, .host = file_.hosts[i].name, .clock = Clock()});
      hosts_.emplace_back().open(std::make_unique<KernelHost>(std::move(soft), places_[i]),
                                 std::move(options));
    }
  }
  void TearDown() override {
    for (auto& host : hosts_) host.close();
  }

  // Lays the cable of a link, gives both net devices their addresses and takes them up.
  bool lay(std::size_t link) const {
    const auto& ends = file_.links[link].ends;
    const auto& one = ends[0];
    const auto& other = ends[1];
    return place(one).runs(fmt::format("ip link add {} type veth peer name {} netns {}",
                                       file_.nic(one).name, file_.nic(other).name,
                                       place(other).path())) &&
           takes_up(one) && takes_up(other);
  }
  bool takes_up(const soft::NicRef& end) const {
    const std::string& name = file_.nic(end).name;
    return place(end).runs(fmt::format(
        "ip link set {0} addrgenmode none && ip link set {0} up && ip addr add {1}/24 dev {0} && "
        "ip -6 addr add fe80::{2}:{3}/64 dev {0} nodad",
        name, file_.nic(end).address, end.host + 1, end.nic + 1));
  }
  const Namespace& place(const soft::NicRef& end) const {
    return places_[static_cast<std::size_t>(end.host)];
  }
  void fault(std::size_t host, soft::FaultKind kind, const std::string& nic, bool on) {
    soft::FaultPlan& plan = hosts_[host].provider->faults();
    if (on)
      ASSERT_TRUE(plan.arm({.kind = kind, .nic = nic}).ok());
    else
      plan.lift({.kind = kind, .nic = nic});
  }
  testkit::Pair connect(std::size_t from, std::size_t to) {
    return testkit::connect(member(from), member(to));
  }
  testkit::Member member(std::size_t host) {
    return {*hosts_[host].engine, *hosts_[host].contexts[0]};
  }
  static void carries(const testkit::Pair& pair) {
    testkit::exchange(pair, {100'000}, testkit::Leaves::Nothing);
  }
  // Returns the names of the paths of host `from`'s link that are up, sorted.
  std::vector<std::string> up_from(std::size_t from) const {
    std::vector<std::string> names;
    for (const PeerSnapshot& peer : hosts_[from].engine->snapshot().peers)
      for (const PathSnapshot& path : peer.paths)
        if (peer.sends && path.up) names.push_back(path.name);
    std::sort(names.begin(), names.end());
    return names;
  }

  testkit::LogCapture log_;
  soft::FabricFile file_;
  std::deque<Namespace> places_;
  std::deque<testkit::EngineHost<KernelHost>> hosts_;
};

const std::vector<std::string> kBothCrossed{"n0:1 10.0.0.1 -> n1:1 10.0.0.4",
                                            "n1:1 10.0.0.2 -> n0:1 10.0.0.3"};

TEST_F(KernelSockets, CrossedCablesAreFoundWhereOneHostHasNoIpv6) {
  if (const std::string missing = cable(kCrossed); !missing.empty()) GTEST_SKIP() << missing;
  for (const char* const name : {"n0", "n1"})
    ASSERT_TRUE(places_[0].runs(fmt::format("ip -6 addr flush dev {}", name)));
  open();
  carries(connect(0, 1));
  EXPECT_EQ(up_from(0), kBothCrossed) << log_.joined();
}

// The addresses of a's ports become valid after its first handshake: the kernel tests them for
// duplicates, and b has no IPv4 address that datagrams could use.
TEST_F(KernelSockets, AHandshakeWhileAddressesAreTestedDoesNotDecideForTheProcess) {
  if (const std::string missing = cable(kCrossed); !missing.empty()) GTEST_SKIP() << missing;
  for (const char* const name : {"n0", "n1"}) {
    ASSERT_TRUE(places_[0].runs(fmt::format("ip -6 addr flush dev {}", name)));
    ASSERT_TRUE(places_[1].runs(fmt::format("ip -4 addr flush dev {}", name)));
  }
  open();
  static_cast<void>(connect(0, 1));  // by the order of the ports, which is wrong
  for (const char* const name : {"n0", "n1"})
    ASSERT_TRUE(places_[0].runs(
        fmt::format("ip -6 addr add fe80::1:{}/64 dev {} nodad", name[1] - '0' + 1, name)));
  std::this_thread::sleep_for(std::chrono::nanoseconds(kEndToReadAgainNs));
  carries(connect(1, 0));
  EXPECT_EQ(up_from(1), (std::vector<std::string>{"n0:1 10.0.0.3 -> n1:1 10.0.0.2",
                                                  "n1:1 10.0.0.4 -> n0:1 10.0.0.1"}))
      << log_.joined();
}

TEST_F(KernelSockets, AnAddressThatChangesIsFollowed) {
  if (const std::string missing = cable(kCrossed); !missing.empty()) GTEST_SKIP() << missing;
  open();
  carries(connect(0, 1));
  for (const char* const name : {"n0", "n1"})
    ASSERT_TRUE(places_[0].runs(
        fmt::format("ip -6 addr flush dev {0} && ip -6 addr add fe80::77:{1}/64 dev {0} nodad",
                    name, name[1])));
  fault(0, soft::FaultKind::PortDown, "n0", true);  // the port's event is a reason to read them
  ASSERT_TRUE(wait_until([this] { return up_from(0).size() == 1; })) << log_.joined();
  fault(0, soft::FaultKind::PortDown, "n0", false);
  ASSERT_TRUE(wait_until([this] { return up_from(0).size() == 2; })) << log_.joined();
  carries(connect(1, 0));
  EXPECT_EQ(up_from(1).size(), 2u) << log_.joined();
  EXPECT_EQ(log_.count(LogLevel::Warn, "one way"), 0) << log_.joined();
}

// The second cable is out when the processes start, and then put in.
TEST_F(KernelSockets, APortWithoutCarrierAtTheStartIsAskedWhenItsCableIsIn) {
  if (const std::string missing = cable(kCrossed); !missing.empty()) GTEST_SKIP() << missing;
  ASSERT_TRUE(places_[1].runs("ip link set n0 down"));  // a's n1 has no carrier, b's n0 no address
  open();
  fault(0, soft::FaultKind::PortDown, "n1", true);
  fault(1, soft::FaultKind::PortDown, "n0", true);
  carries(connect(0, 1));
  EXPECT_EQ(up_from(0), (std::vector{kBothCrossed[0]})) << log_.joined();
  ASSERT_TRUE(places_[1].runs("ip link set n0 up && ip -6 addr add fe80::2:1/64 dev n0 nodad"));
  fault(0, soft::FaultKind::PortDown, "n1", false);
  fault(1, soft::FaultKind::PortDown, "n0", false);
  EXPECT_TRUE(wait_until([this] { return up_from(0) == kBothCrossed; })) << log_.joined();
}

// Both cards of the host between are replaced, and its net devices with them.
TEST_F(KernelSockets, AHostWhoseCardsWereReplacedHearsItsNeighbours) {
  if (const std::string missing = cable(kRow); !missing.empty()) GTEST_SKIP() << missing;
  open("a secret");
  for (const char* const nic : {"n0", "n1"}) {
    fault(1, soft::FaultKind::CardReplaced, nic, true);
    ASSERT_TRUE(places_[1].runs(fmt::format("ip link del {}", nic)));
  }
  ASSERT_TRUE(wait_until([this] { return log_.count(LogLevel::Warn, "the card left") == 2; }));
  for (const std::size_t link : {0u, 1u}) ASSERT_TRUE(lay(link));
  for (const char* const nic : {"n0", "n1"}) fault(1, soft::FaultKind::CardReplaced, nic, false);
  ASSERT_TRUE(
      wait_until([this] { return log_.count(LogLevel::Info, "a new card is in its place") == 2; }));
  carries(connect(0, 2));
  EXPECT_GE(hosts_[1].engine->snapshot().neighbours.answered, 1u);
}

TEST_F(KernelSockets, APortThatAnotherProgramHasIsNamedAndTakenWhenItIsFree) {
  if (const std::string missing = cable(kRow); !missing.empty()) GTEST_SKIP() << missing;
  UniqueFd taker = places_[1].within([] {
    UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(verbs::kCableGroup.port);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    return fd;
  });
  open("a secret");
  EXPECT_TRUE(log_.said(LogLevel::Info, "another program has UDP port 28005")) << log_.joined();
  taker.reset();
  ASSERT_TRUE(wait_until([this] { return log_.count(LogLevel::Info, "port 28005 is free") == 1; }));
  carries(connect(0, 2));
}

}  // namespace
}  // namespace mesh
