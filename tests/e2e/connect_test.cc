// Connections: in every order, many of them, to oneself, to nobody, and past unauthenticated
// connections.
#include "perf/driver/plugin_log.h"
#include "perf/driver/stream.h"
#include "src/topo/pairing.h"
#include "tests/e2e/line.h"
#include "tests/e2e/process_figures.h"
#include "tests/e2e/raw.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

namespace mesh::e2e {
namespace {

using driver::PluginLog;

// Moves one checked message over each connection of a two-rank set, in both directions of the plan.
void move_over_all(driver::Communicator& communicator, driver::ConnectionSet& connections,
                   int channels) {
  for (int channel = 0; channel < channels; ++channel) {
    driver::Registered from(communicator, connections.send(0, channel), 4096);
    driver::Registered to(communicator, connections.recv(0, channel), 4096);
    std::memset(from.data(), channel + 1, 4096);
    Raw sender(communicator.api(), connections.send(0, channel), driver::Side::Send);
    Raw receiver(communicator.api(), connections.recv(0, channel), driver::Side::Recv);
    void* receive = receiver.post(to.piece(0, 4096));
    void* send = sender.post(from.piece(0, 4096));
    require(receiver.await(receive) == 4096, "a wrong size was reported");
    sender.await(send);
    require(to.data()[0] == static_cast<char>(channel + 1) && to.data()[4095] == to.data()[0],
            "a channel got another's data");
  }
}

const Scenario kBothAtOnce("both_at_once", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const int other = 1 - peer.rank();
  for (int round = 0; round < 5; ++round) {
    driver::ConnectionSet connections(*communicator);
    require_success(
        connections.connect(peer.bootstrap(),
                            {.send_to = {other}, .recv_from = {other}, .timeout = patience()}),
        "connect");
    move_over_all(*communicator, connections, 1);
    peer.barrier();
    require_success(connections.close(), "close");
  }
  require_success(communicator->close(), "finalize");
});
TEST(Connect, BothDirectionsAtOnce) { expect_run(kBothAtOnce); }

// Does what NCCL's bootstrap does: listen, connect, accept and data on one thread.
const Scenario kToOneself("to_oneself", [](Peer& peer) {
  const auto api = peer.load();
  void* context = nullptr;
  require_success(api->init(7, &context), "init");
  driver::NetHandle handle{};
  void* listening = nullptr;
  require_success(api->listen(context, 0, handle.data(), &listening), "listen");
  void* send_comm = nullptr;
  void* recv_comm = nullptr;
  const auto end = std::chrono::steady_clock::now() + patience();
  while (send_comm == nullptr || recv_comm == nullptr) {
    require(std::chrono::steady_clock::now() < end, "connecting to oneself takes for ever");
    if (send_comm == nullptr)
      require_success(api->connect(context, 0, handle.data(), &send_comm), "connect");
    if (recv_comm == nullptr) require_success(api->accept(listening, &recv_comm), "accept");
  }
  require_success(api->close_listen(listening), "closeListen");
  std::vector<char> from(100000, 'x');
  std::vector<char> to(100000, 'y');
  void* from_mr = nullptr;
  void* to_mr = nullptr;
  require_success(api->reg_mr(send_comm, {from.data(), from.size()}, &from_mr), "regMr");
  require_success(api->reg_mr(recv_comm, {to.data(), to.size()}, &to_mr), "regMr");
  Raw sender(*api, send_comm, driver::Side::Send);
  Raw receiver(*api, recv_comm, driver::Side::Recv);
  void* receive = receiver.post({to.data(), to.size(), 0, to_mr});
  void* send = sender.post({from.data(), from.size(), 0, from_mr});
  // One thread does all: the receive can only end if each call moves what there is to move.
  require(receiver.await(receive) == 100000, "a wrong size was reported");
  sender.await(send);
  require(from == to, "wrong data");
  require_success(api->dereg_mr(send_comm, from_mr), "deregMr");
  require_success(api->dereg_mr(recv_comm, to_mr), "deregMr");
  require_success(api->close_send(send_comm), "closeSend");
  require_success(api->close_recv(recv_comm), "closeRecv");
  require_success(api->finalize(context), "finalize");
});
TEST(Connect, ToOneselfInOneThread) { expect_run(kToOneself, {.hosts = {"a"}}); }

// The figure in the newest line "N queue pairs in this communicator", and the number of such lines.
struct QueuePairs {
  long newest = -1;
  long lines = 0;
};
QueuePairs queue_pairs_said() {
  QueuePairs said;
  for (const std::string& line : PluginLog::instance().lines()) {
    const std::size_t at = line.find(" queue pairs in this communicator");
    if (at == std::string::npos) continue;
    said.newest = std::atol(line.c_str() + line.rfind(' ', at - 1) + 1);
    ++said.lines;
  }
  return said;
}

const Scenario kSixtyFour("sixty_four", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const int other = 1 - peer.rank();
  driver::ConnectionSet first(*communicator);
  require_success(first.connect(peer.bootstrap(),
                                {.send_to = {other}, .recv_from = {other}, .timeout = patience()}),
                  "connect");
  const QueuePairs with_one = queue_pairs_said();
  driver::ConnectionSet rest(*communicator);
  require_success(
      rest.connect(
          peer.bootstrap(),
          {.send_to = {other}, .recv_from = {other}, .channels = 63, .timeout = patience()}),
      "connect");
  const QueuePairs with_all = queue_pairs_said();
  require(with_one.newest > 0, "the plugin did not say how many queue pairs it has");
  require(with_all.newest == with_one.newest && with_all.lines == with_one.lines,
          "queue pairs grew from " + std::to_string(with_one.newest) + " to " +
              std::to_string(with_all.newest));
  move_over_all(*communicator, first, 1);
  move_over_all(*communicator, rest, 63);
  peer.barrier();
});
TEST(Connect, SixtyFourChannelsShareTheQueuePairsOfOne) {
  expect_run(kSixtyFour, {.environment = {{"NCCL_DEBUG_SUBSYS", "INIT,NET"}}});
}

double processor_seconds() {
  timespec used{};
  require(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0, "no clock of the process");
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

const Scenario kManyChannels("many_channels", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  peer.barrier();
  const double processor_s = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  driver::ConnectionSet connections(*communicator);
  driver::ConnectionPlan plan{
      .send_to = {}, .recv_from = {}, .channels = 512, .timeout = patience()};
  (peer.rank() == 0 ? plan.send_to : plan.recv_from).push_back(1 - peer.rank());
  require_success(connections.connect(peer.bootstrap(), plan), "connect");
  report_figure("seconds",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  report_figure("processor_seconds", processor_seconds() - processor_s);
  peer.barrier();
});
// Judges processor time, for the clock also counts what the machine does for others.
TEST(Connect, FiveHundredAndTwelveChannelsWithinTwoSeconds) {
  const std::vector<RankEnd> ranks = run(kManyChannels, {});
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    EXPECT_LT(figure(rank, "processor_seconds"), processor_bar_s(2)) << rank.output;
    EXPECT_LT(figure(rank, "seconds"), clock_bar_s(2)) << rank.output;
  }
}

// Ends a communicator with a connect, a listener and an accepted stage left open: nothing of them
// stays.
const Scenario kAbandoned("abandoned", [](Peer& peer) {
  const auto api = peer.load();
  ProcessFigures before;
  for (int round = 0; round < 6; ++round) {
    if (round == 3) before = settled_process_figures();  // goodbyes go on beyond a finalize
    const auto communicator = open_communicator(*api, static_cast<std::uint64_t>(round) + 1);
    driver::Listening listening[4];
    std::string handles;
    for (driver::Listening& each : listening) {
      require_success(communicator->listen(each), "listen");
      handles.append(reinterpret_cast<const char*>(each.handle.data()), each.handle.size());
    }
    const std::vector<std::string> all = peer.all_gather(handles);
    // Connects begin towards listeners that never accept: each is called once and then let go.
    driver::NetHandle remote[4];
    for (std::size_t i = 0; i < 4; ++i) {
      std::memcpy(remote[i].data(),
                  all[static_cast<std::size_t>(1 - peer.rank())].data() + i * remote[i].size(),
                  remote[i].size());
      void* comm = nullptr;
      const int result = communicator->service().call(
          [&] { return api->connect(communicator->context(), 0, remote[i].data(), &comm); });
      require_success(result, "connect");
    }
    if (round % 2 == 0)
      communicator->start_accept(listening[0].comm, driver::milliseconds(20)).get();
    peer.barrier();
    require_success(communicator->close(), "finalize");
    peer.barrier();
  }
  before.mappings = std::numeric_limits<long>::max();
  const ProcessFigures after = process_figures_down_to(before, patience());
  require(after.descriptors <= before.descriptors,
          "descriptors grew: " + text_of(before) + " to " + text_of(after));
  require(after.threads <= before.threads,
          "threads grew: " + text_of(before) + " to " + text_of(after));
});
TEST(Connect, AbandonedHalfConnectedCommsAreReclaimed) { expect_run(kAbandoned); }

const Scenario kRandomHandle("random_handle", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    driver::NetHandle handle;
    for (std::byte& byte : handle) byte = static_cast<std::byte>(random());
    // A fresh handle's last bytes are zero: such a handle is judged by its head, any other by the
    // stage that it pretends to be in.
    if (round % 2 == 0) std::fill(handle.begin() + 112, handle.end(), std::byte{0});
    const driver::CommOutcome outcome = communicator->start_connect(handle, patience()).get();
    require(outcome.result != driver::kNetSuccess && outcome.result != driver::kDriverTimeout,
            "random bytes passed as a handle");
    require(outcome.comm == nullptr, "a comm came out of random bytes");
  }
  require(PluginLog::instance().contains("not a handle"), "no line about the handle");
  require_success(communicator->close(), "finalize");
});
TEST(BadInput, HandleOfRandomBytesIsRefused) { expect_run(kRandomHandle, {.hosts = {"a"}}); }

// Returns the address of the handshake's listener, as the plugin logs it.
std::string handshake_address() {
  for (const std::string& line : PluginLog::instance().lines()) {
    const std::string key = "handshakes on ";
    const std::size_t at = line.find(key);
    if (at != std::string::npos)
      return line.substr(at + key.size(), line.find(' ', at + key.size()) - at - key.size());
  }
  throw Failure("the plugin did not say where it listens");
}

const Scenario kUnauthenticated("unauthenticated", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  std::vector<UniqueFd> open;
  const std::string garbage(5000, '\xa7');
  const std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 32; ++i) {
    auto socket =
        driver::connect_to(handshake_address(), std::chrono::steady_clock::now() + patience());
    require(socket.ok(), "no TCP connection to the listener");
    const std::string& said = i % 4 == 0 ? garbage : http;
    const std::size_t bytes = i % 4 == 1   ? 0
                              : i % 4 == 2 ? 6
                                           : said.size();  // nothing, half a header, or all
    if (bytes > 0)
      require(::send(socket->get(), said.data(), bytes, MSG_NOSIGNAL) > 0,
              "an unauthenticated could not speak");
    open.push_back(std::move(*socket));
  }
  Line line(peer, *communicator, {.bytes = 65536});
  stream(line, {.count = 100, .bytes = 4096});
  peer.barrier();
  line.close();
});
TEST(BadInput, UnauthenticatedConnectionsDoNotStopAConnect) { expect_run(kUnauthenticated); }

// Returns the subnets of our rails; the lines "rail 0 mesh0:1: 10.0.12.1/24, ..." hold their
// addresses.
std::string own_subnets() {
  std::string subnets;
  for (const std::string& line : PluginLog::instance().lines()) {
    const std::size_t rail = line.find("rail ");
    const std::size_t comma = line.find(", ");
    const std::size_t slash = line.rfind('/', comma);
    if (rail == std::string::npos || comma == std::string::npos || slash == std::string::npos)
      continue;
    const std::size_t begin = line.rfind(' ', slash) + 1;
    const auto address = SocketAddress::from_text(line.substr(begin, slash - begin));
    if (address.ok())
      subnets += topo::subnet_text({*address, std::atoi(line.c_str() + slash + 1)}) + "\n";
  }
  return subnets;
}

// Returns whether the line holds every line of `subnets`.
bool names_all(const std::string& line, const std::string& subnets) {
  std::istringstream each(subnets);
  for (std::string subnet; std::getline(each, subnet);) {
    if (line.find(subnet) == std::string::npos) return false;
  }
  return true;
}

const Scenario kNoSubnet("no_subnet", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const std::vector<std::string> subnets = peer.all_gather(own_subnets());
  require(!subnets[0].empty() && !subnets[1].empty(), "the plugin did not say which rails it has");
  Dormant dormant(peer, *communicator);
  dormant.expect_first_messages_to_fail();
  const std::vector<std::string> lines = PluginLog::instance().lines();
  const bool named = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find("that no path leads to fails: hosts") != std::string::npos &&
           names_all(line, subnets[0]) && names_all(line, subnets[1]);
  });
  require(named, "no line names both sides' subnets");
  peer.barrier();
  dormant.close();
});
TEST(BadInput, AMessageToAPeerWithoutACommonSubnetFailsByName) {
  expect_run(
      kNoSubnet,
      {.fabric = "line3.json", .hosts = {"a", "c"}, .environment = {{"NCCL_MESH_RELAY", "0"}}});
}

}  // namespace
}  // namespace mesh::e2e
