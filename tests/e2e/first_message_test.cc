// Prints the time from connect until the first message has come, the median of FIRST_MESSAGE_TIMES
// jobs (30): over cables that addresses tell apart, over a triangle whose cables they do not, and
// over that triangle where no datagram gets through. FIRST_MESSAGE_PLUGIN names another plugin to
// measure. Run it alone for good figures: it judges no time, only that every job works.
#include "perf/driver/connection_set.h"
#include "perf/driver/world.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/e2e/raw.h"
#include "tests/unit/soft/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace mesh::e2e {
namespace {

using testkit::Shape, testkit::Subnets;
using Time = std::chrono::steady_clock;

constexpr const char* kSoftwareOnly = "its cables are those of a software fabric";
constexpr std::size_t kBytes = 8;
constexpr int kTimes = 30;

double ms_since(Time::time_point begin) {
  return std::chrono::duration<double, std::milli>(Time::now() - begin).count();
}

std::unique_ptr<driver::NetApi> load(const Peer& peer) {
  const std::string other = driver::variable(process_environment(), "FIRST_MESSAGE_PLUGIN");
  if (other.empty()) return peer.load();
  std::string error;
  auto api = driver::NetApi::load(other, driver::kNetVersionMax, error);
  require(api != nullptr, error);
  return api;
}

// Every rank sends to the next one and receives from the one before.
const Scenario kFirst("first_message", [](Peer& peer) {
  const auto api = load(peer);
  const auto communicator = open_communicator(*api);
  peer.barrier();
  const Time::time_point begin = Time::now();
  driver::ConnectionSet connections(*communicator);
  const int next = (peer.rank() + 1) % peer.world();
  const int before = (peer.rank() + peer.world() - 1) % peer.world();
  driver::ConnectionPlan plan{.send_to = {next}, .recv_from = {before}};
  plan.timeout = patience();
  require_success(connections.connect(peer.bootstrap(), plan), "connecting");
  report_figure("connect_ms", ms_since(begin));
  Raw sender(*api, connections.send(0), driver::Side::Send);
  Raw receiver(*api, connections.recv(0), driver::Side::Recv);
  driver::Registered out(*communicator, connections.send(0), kBytes);
  driver::Registered in(*communicator, connections.recv(0), kBytes);
  exchange({sender, out.piece(0, kBytes)}, {receiver, in.piece(0, kBytes)});
  report_figure("message_ms", ms_since(begin));
  peer.barrier();
});

int times() {
  const std::string text = driver::variable(process_environment(), "FIRST_MESSAGE_TIMES");
  return text.empty() ? kTimes : std::max(1, std::atoi(text.c_str()));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const char* cabling, const Shape& shape) {
  std::vector<double> connected, came;
  for (int i = 0; i < times(); ++i) {
    const std::vector<RankEnd> ranks =
        run(kFirst, {.fabric_text = testkit::fabric_of(shape), .software_only = kSoftwareOnly});
    expect_success(ranks);
    if (testing::Test::IsSkipped() || testing::Test::HasFailure()) return;
    const auto latest = [&ranks](const char* name) {
      double value = 0;
      for (const RankEnd& rank : ranks) value = std::max(value, figure(rank, name));
      return value;
    };
    connected.push_back(latest("connect_ms"));
    came.push_back(latest("message_ms"));
  }
  std::printf("%-44s connect %7.1f ms, first message %7.1f ms (median), %7.1f ms (longest)\n",
              cabling, median(connected), median(came),
              *std::max_element(came.begin(), came.end()));
}

TEST(FirstMessage, OverStraightCables) {
  measure("two cables, a subnet each", {.hosts = 2, .cables = 2});
  measure("two cables in one subnet", {.hosts = 2, .cables = 2, .subnets = Subnets::OneForAll});
}

TEST(FirstMessage, OverATriangle) {
  measure("triangle, a subnet each", {.hosts = 3});
  measure("crossed triangle in one subnet", {.hosts = 3, .subnets = Subnets::OneForAll});
  measure("crossed triangle, link-local addresses", {.hosts = 3, .subnets = Subnets::LinkLocal});
}

TEST(FirstMessage, OverATriangleWithoutDatagrams) {
  measure("crossed triangle in one subnet, a firewall",
          {.hosts = 3, .subnets = Subnets::OneForAll, .firewall = true});
}

}  // namespace
}  // namespace mesh::e2e
