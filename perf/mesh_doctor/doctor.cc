#include "perf/mesh_doctor/doctor.h"

#include "perf/driver/bootstrap.h"
#include "perf/driver/plugin_log.h"
#include "perf/mesh_doctor/check_host.h"
#include "perf/mesh_doctor/read_host.h"

#include <cstdio>

namespace mesh::doctor {
namespace {

int fail(const char* what, const char* why) {
  std::fprintf(stderr, "mesh_doctor: %s: %s\n", what, why);
  return kNoLook;
}

// Without a rendezvous this host is the only one.
Result<driver::Bootstrap> join(const Options& options) {
  const driver::World& world = options.world;
  if (!options.many()) return driver::Bootstrap::join({});
  return driver::Bootstrap::join({.rank = world.rank,
                                  .world = world.size,
                                  .address = world.rendezvous,
                                  .listening_fd = options.rendezvous_fd,
                                  .timeout = std::chrono::seconds(options.timeout_s)});
}

// By rank.
Result<std::vector<HostFacts>> share(driver::Bootstrap& bootstrap, const HostFacts& own) {
  const auto all = bootstrap.all_gather(to_text(own));
  if (!all.ok()) return all.status();
  std::vector<HostFacts> hosts;
  for (const std::string& text : *all) {
    auto facts = facts_from(text);
    if (!facts.ok()) return facts.status();
    hosts.push_back(std::move(*facts));
  }
  return hosts;
}

void print(const Options& options, const Report& report) {
  std::fputs((options.as_json ? json(report) : text(report)).c_str(), stdout);
}

}  // namespace

int run_doctor(const Options& options) {
  driver::PluginLog& log = driver::PluginLog::instance();
  log.set_filter({NCCL_LOG_INFO, NCCL_ALL});
  log.set_echo(options.verbose ? driver::Echo::Everything : driver::Echo::Nothing, "mesh_doctor: ");
  auto bootstrap = join(options);
  if (!bootstrap.ok()) return fail("rendezvous failed", errc_name(bootstrap.code()));
  HostFacts own = read_host(options);
  auto hosts = share(*bootstrap, own);
  if (!hosts.ok()) return fail("a host was lost", errc_name(hosts.code()));
  // Here the hosts will measure what lies between them.
  read_again(options, own);
  hosts = share(*bootstrap, own);
  if (!hosts.ok()) return fail("a host was lost", errc_name(hosts.code()));
  if (bootstrap->rank() != 0) return kHealthy;
  Report report{.hosts = std::move(*hosts), .findings = {}, .sections = {}};
  for (const HostFacts& host : report.hosts) {
    for (Finding& each : check_host(host)) report.findings.push_back(std::move(each));
  }
  print(options, report);
  return exit_status(report);
}

}  // namespace mesh::doctor
