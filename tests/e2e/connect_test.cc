// Connections: many of them, to oneself, and past unauthenticated connections.
#include "perf/driver/plugin_log.h"
#include "perf/driver/stream.h"
#include "tests/e2e/line.h"
#include "tests/e2e/raw.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using driver::PluginLog;

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

}  // namespace
}  // namespace mesh::e2e
