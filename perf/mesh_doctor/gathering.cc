#include "perf/mesh_doctor/gathering.h"

#include <fmt/format.h>

#include <chrono>

namespace mesh::doctor {
namespace {

Finding missing_rank(const Options& options, int rank) {
  return finding(
      "host-missing", fmt::format("rank {}", rank),
      {"",
       fmt::format("it did not come to {} within {} s", options.world.rendezvous, options.wait_s),
       "look at how mesh_doctor was started there, and whether that host reaches the "
       "rendezvous; --wait waits longer"});
}

}  // namespace

Result<driver::Bootstrap> gather_hosts(const Options& options, std::vector<Finding>& missing,
                                       std::string& why) {
  const driver::World& world = options.world;
  if (!options.many()) return driver::Bootstrap::join({});
  std::vector<int> ranks;
  auto bootstrap = driver::Bootstrap::join({.rank = world.rank,
                                            .world = world.size,
                                            .address = world.rendezvous,
                                            .listening_fd = options.rendezvous_fd,
                                            .timeout = std::chrono::seconds(options.wait_s),
                                            .missing = &ranks,
                                            .why = &why});
  if (bootstrap.ok()) {
    bootstrap->set_timeout(std::chrono::seconds(options.timeout_s));
    return bootstrap;
  }
  if (world.rank != 0 && bootstrap.code() == Errc::Timeout) ranks = {0};
  if (ranks.empty()) return bootstrap;
  for (const int rank : ranks) missing.push_back(missing_rank(options, rank));
  return driver::Bootstrap::join({});
}

}  // namespace mesh::doctor
