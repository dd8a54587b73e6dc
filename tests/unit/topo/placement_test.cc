#include "src/topo/placement.h"

#include "src/base/user_directory.h"
#include "tests/prelude.h"
#include "tests/unit/base/child.h"

#include <sys/un.h>

namespace mesh::topo {
namespace {

using Cpus = std::vector<int>;

HostTopology host_of(std::vector<Cpu> cpus) { return {.cpus = std::move(cpus), .quota_cpus = 0}; }

// Two nodes of two cores with two hardware threads each. CPUs 0..3 are the first threads, 4..7 the
// second ones.
HostTopology two_nodes() {
  std::vector<Cpu> cpus;
  cpus.reserve(8);
  for (int i = 0; i < 8; ++i)
    cpus.push_back(
        {.index = i, .core = i % 4, .numa_node = i % 4 / 2, .max_khz = 3'000'000, .allowed = true});
  return host_of(cpus);
}

TEST(Placement, NicsNodeFirstThenWholeCoresThenHighNumbers) {
  EXPECT_EQ(poller_cpus(two_nodes(), 1), (Cpus{3, 2, 7, 6, 1, 0, 5, 4}));
  EXPECT_EQ(poller_cpus(two_nodes(), 0), (Cpus{1, 0, 5, 4, 3, 2, 7, 6}));
  EXPECT_EQ(poller_cpus(two_nodes(), -1), (Cpus{3, 2, 1, 0, 7, 6, 5, 4}));
}

TEST(Placement, FastCoresBeforeSlowOnes) {
  std::vector<Cpu> cpus;
  cpus.reserve(6);
  for (int i = 0; i < 6; ++i)
    cpus.push_back({.index = i,
                    .core = i,
                    .numa_node = 0,
                    .max_khz = i < 2 ? 3'900'000 : 2'800'000,
                    .allowed = true});
  EXPECT_EQ(poller_cpus(host_of(cpus), 0), (Cpus{1, 0, 5, 4, 3, 2}));
}

TEST(Placement, OnlyWhatTheProcessMayUse) {
  HostTopology host = two_nodes();
  for (Cpu& cpu : host.cpus) cpu.allowed = cpu.index == 1 || cpu.index == 5 || cpu.index == 7;
  EXPECT_EQ(poller_cpus(host, 0), (Cpus{1, 5, 7}));
  EXPECT_EQ(host.allowed_on(0), (Cpus{1, 5}));
  EXPECT_EQ(host.allowed_on(1), (Cpus{7}));
  EXPECT_EQ(host.allowed_on(9), (Cpus{1, 5, 7}));
  EXPECT_EQ(host.allowed_on(-1), (Cpus{1, 5, 7}));
  EXPECT_EQ(host.usable_cores(), 2);
}

// No host here has CPUs with these numbers, so that no running poller interferes.
TEST(Placement, ACoreIsClaimedOnceUntilGivenBack) {
  std::vector<Cpu> cpus;
  for (int i = 8001; i < 8003; ++i)
    cpus.push_back({.index = i, .core = i, .numa_node = 0, .max_khz = 0, .allowed = true});
  const HostTopology host = host_of(cpus);
  Result<CpuClaim> first = claim_cpu(host, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->cpu, 8002);
  {
    const Result<CpuClaim> second = claim_cpu(host, 0);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->cpu, 8001);
    EXPECT_EQ(claim_cpu(host, 0).code(), Errc::Exhausted);
  }
  const Result<CpuClaim> again = claim_cpu(host, 0);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cpu, 8001);
}

// Two processes of one host, as two ranks are. The second process is killed.
TEST(Placement, AnotherProcessKeepsACoreUntilItsEnd) {
  std::vector<Cpu> cpus;
  for (int i = 8101; i < 8103; ++i)
    cpus.push_back({.index = i, .core = i, .numa_node = 0, .max_khz = 0, .allowed = true});
  const HostTopology host = host_of(cpus);
  std::array<int, 2> answer{};
  ASSERT_EQ(::pipe(answer.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    const Result<CpuClaim> claim = claim_cpu(host, 0);
    const int taken = claim.ok() ? claim->cpu : -1;
    if (::write(answer[1], &taken, sizeof(taken)) != sizeof(taken)) ::_exit(1);
    for (;;) ::pause();
  }
  ASSERT_GT(other, 0);
  int taken = 0;
  EXPECT_EQ(::read(answer[0], &taken, sizeof(taken)), static_cast<ssize_t>(sizeof(taken)));
  EXPECT_EQ(taken, 8102);
  EXPECT_EQ(claim_cpu(host, 0)->cpu, 8101);
  ::kill(other, SIGKILL);
  EXPECT_EQ(::waitpid(other, nullptr, 0), other);
  EXPECT_EQ(claim_cpu(host, 0)->cpu, 8102) << "a killed process leaves nothing behind";
  ::close(answer[0]);
  ::close(answer[1]);
}

HostTopology cpus_from(int first, int count) {
  std::vector<Cpu> cpus;
  for (int i = first; i < first + count; ++i)
    cpus.push_back({.index = i, .core = i, .numa_node = 0, .max_khz = 0, .allowed = true});
  return host_of(cpus);
}

// Two pods of one machine have their own networks but share the CPUs.
TEST(Placement, AClaimHoldsInEveryNetworkNamespace) {
  const HostTopology host = cpus_from(8121, 2);
  mesh::testkit::Child other([&](int fd) {
    if (!mesh::testkit::leave_network()) return 2;
    const Result<CpuClaim> claim = claim_cpu(host, 0);
    const bool told = mesh::testkit::Child::tell(fd, claim.ok() ? claim->cpu : 0);
    return told && mesh::testkit::Child::hear(fd) < 0 ? 0 : 1;
  });
  const int taken = other.next();
  if (taken < 0 && other.join() == 2)
    GTEST_SKIP() << "this process may not make a network namespace";
  EXPECT_EQ(taken, 8122);
  EXPECT_EQ(claim_cpu(host, 0)->cpu, 8121);
  EXPECT_EQ(other.join(), 0);
  EXPECT_EQ(claim_cpu(host, 0)->cpu, 8122);
}

// Binds a name in the kernel's abstract name space. Whoever binds a name first owns it, so claims
// must not depend on such names.
bool squat(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0;
}

TEST(Placement, AnotherUserCanTakeNoCpuOfOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const HostTopology host = cpus_from(8141, 2);
  mesh::testkit::Child nobody([&](int fd) {
    if (!mesh::testkit::become_nobody()) return 2;
    const bool squatted = squat("nccl-mesh poller cpu 8141") && squat("nccl-mesh poller cpu 8142");
    const Result<CpuClaim> claim = claim_cpu(host, 0);  // as an honest job of that user would
    const bool told = mesh::testkit::Child::tell(fd, squatted && claim.ok() ? claim->cpu : 0);
    return told && mesh::testkit::Child::hear(fd) < 0 ? 0 : 1;
  });
  EXPECT_EQ(nobody.next(), 8142);
  const Result<CpuClaim> ours = claim_cpu(host, 0);
  ASSERT_TRUE(ours.ok()) << errc_name(ours.code());
  EXPECT_EQ(ours->cpu, 8142);
  EXPECT_EQ(nobody.join(), 0);
}

// Somebody removes the file of a claim. The directory must not give that CPU to two others then.
TEST(Placement, AClaimWhoseFileIsRemovedDisturbsNobody) {
  const HostTopology host = cpus_from(8161, 1);
  const Result<CpuClaim> first = claim_cpu(host, 0);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(::unlink((*user_directory(user_places()) + "/poller-cpu-8161").c_str()), 0);
  const Result<CpuClaim> second = claim_cpu(host, 0);
  ASSERT_TRUE(second.ok()) << "the file is new";
  EXPECT_EQ(claim_cpu(host, 0).code(), Errc::Exhausted);
}

TEST(Placement, AListOfCpusNarrowsTheChoice) {
  HostTopology host = two_nodes();
  host.cpus[5].allowed = false;
  EXPECT_TRUE(restrict_cpus(host, Cpus{1, 3, 5, 99}).ok());
  EXPECT_EQ(poller_cpus(host, 0), (Cpus{1, 3}));
  EXPECT_EQ(host.usable_cores(), 2);
  EXPECT_EQ(restrict_cpus(host, Cpus{0, 5}).code(), Errc::NotFound) << "neither is allowed";
  EXPECT_EQ(poller_cpus(host, 0), (Cpus{1, 3}));
}

cpu_set_t affinity_of_this_thread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(::sched_getaffinity(0, sizeof cpus, &cpus), 0);
  return cpus;
}

TEST(Placement, PinsOnlyTheCallingThread) {
  const HostTopology host = read_host_topology();
  const Cpus allowed = host.allowed_on(-1);
  ASSERT_FALSE(allowed.empty());
  cpu_set_t inside;
  Status answer;
  std::thread([&] {
    answer = pin_this_thread(std::span(allowed).first(1));
    inside = affinity_of_this_thread();
  }).join();
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(CPU_COUNT(&inside), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(allowed.front()), &inside));
  const cpu_set_t outside = affinity_of_this_thread();
  EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&outside)), allowed.size());
}

TEST(Placement, ImpossiblePinIsAnAnswer) {
  EXPECT_EQ(pin_this_thread(Cpus{kCpusMax}).code(), Errc::InvalidArgument);
  EXPECT_EQ(pin_this_thread(Cpus{-1}).code(), Errc::InvalidArgument);
  EXPECT_EQ(pin_this_thread(Cpus{kCpusMax - 1}).code(), Errc::System);
  EXPECT_EQ(pin_this_thread({}).code(), Errc::System);
}

}  // namespace
}  // namespace mesh::topo
