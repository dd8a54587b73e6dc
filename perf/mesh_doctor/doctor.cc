#include "perf/mesh_doctor/doctor.h"

#include "perf/driver/plugin_log.h"
#include "perf/driver/rank_options.h"
#include "perf/mesh_doctor/between.h"
#include "perf/mesh_doctor/checks.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/read_host.h"
#include "src/base/version.h"

#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

namespace mesh::doctor {
namespace {

// How long a host that has nobody to measure with watches its error counters.
constexpr unsigned kAloneSeconds = 3;

int fail(const char* what, const char* why) {
  std::fprintf(stderr, "mesh_doctor: %s: %s\n", what, why);
  return kNoLook;
}

int lost(const driver::Bootstrap& bootstrap, Errc why) {
  if (why == Errc::Protocol) return kNoLook;  // share() has said it
  return fail(bootstrap.rank() == 0 ? "a host was lost" : "rank 0 has ended; its output says why",
              errc_name(why));
}

Finding missing_rank(const Options& options, int rank) {
  return finding("host-missing", fmt::format("rank {}", rank),
                 {"",
                  fmt::format("The host did not connect to the rendezvous {} within {} s.",
                              options.world.rendezvous, options.wait_s),
                  "Check how mesh_doctor was started there, and whether that host reaches the "
                  "rendezvous. --wait SECONDS waits longer."});
}

// Returns a bootstrap of this host alone if there is no rendezvous, or if others do not come;
// `missing` then gets a finding for each. Fails if the rendezvous itself cannot be; `why` says so.
Result<driver::Bootstrap> gather_hosts(const Options& options, std::vector<Finding>& missing,
                                       std::string& why) {
  if (!options.is_rank()) return driver::Bootstrap::join({});
  std::vector<int> ranks;
  auto wanted = driver::bootstrap_options(options, std::chrono::seconds(options.wait_s), &why);
  wanted.missing = &ranks;
  auto bootstrap = driver::Bootstrap::join(wanted);
  if (bootstrap.ok()) {
    bootstrap->set_timeout(std::chrono::seconds(options.timeout_s));
    return bootstrap;
  }
  if (options.world.rank != 0 && bootstrap.code() == Errc::Timeout) ranks = {0};
  if (ranks.empty()) return bootstrap;
  for (const int rank : ranks) missing.push_back(missing_rank(options, rank));
  return driver::Bootstrap::join({});
}

// Returns all facts by rank. Returns Protocol, after a line, if a host has another version.
Result<std::vector<HostFacts>> share(driver::Bootstrap& bootstrap, const HostFacts& own) {
  const auto all = bootstrap.all_gather(to_text(own));
  if (!all.ok()) return all.status();
  std::vector<HostFacts> hosts;
  for (const std::string& text : *all) {
    auto facts = facts_from(text);
    if (!facts.ok()) {
      std::fprintf(stderr,
                   "mesh_doctor: rank %zu runs another version than this host (%s); use one "
                   "version on every host\n",
                   hosts.size(), version());
      return facts.status();
    }
    hosts.push_back(std::move(*facts));
  }
  return hosts;
}

void watch_counters(const Options& options) {
  const unsigned seconds = options.quick ? 1 : kAloneSeconds;
  std::fprintf(stderr, "mesh_doctor: watching the error counters for %u s\n", seconds);
  ::sleep(seconds);
}

void print(const Options& options, const Report& report, const std::string& more) {
  std::fputs((options.as_json ? json(report, more) : text(report)).c_str(), stdout);
}

}  // namespace

int run_doctor(const Options& options) {
  driver::PluginLog& log = driver::PluginLog::instance();
  log.set_filter({NCCL_LOG_INFO, NCCL_ALL});
  log.set_echo(options.verbose ? driver::Echo::Everything : driver::Echo::Nothing, "mesh_doctor: ");
  Report report;
  std::string why;
  auto bootstrap = gather_hosts(options, report.findings, why);
  if (!bootstrap.ok()) return fail("the hosts do not meet", why.c_str());
  const int ranks = bootstrap->world();
  const auto looks = bootstrap->keep_first_of(host_identity());
  if (!looks.ok()) return lost(*bootstrap, looks.code());
  if (!*looks) return kHealthy;
  if (bootstrap->rank() == 0 && bootstrap->world() != ranks)
    std::fprintf(stderr, "mesh_doctor: %d ranks on %d hosts: the first one of each host looks\n",
                 ranks, bootstrap->world());
  HostFacts own = read_host(options);
  auto hosts = share(*bootstrap, own);
  if (!hosts.ok()) return lost(*bootstrap, hosts.code());
  BetweenHosts between;
  if (hosts->size() > 1) {
    between = look_between(*bootstrap, own, options);
  } else if (!own.ports.empty()) {
    watch_counters(options);
  }
  read_again(options, own);
  if (between.whole) hosts = share(*bootstrap, own);
  if (!hosts.ok()) return lost(*bootstrap, hosts.code());
  if (bootstrap->rank() != 0) return kHealthy;
  report.hosts = std::move(*hosts);
  for (const HostFacts& host : report.hosts) {
    for (Finding& each : check_host(host)) report.findings.push_back(std::move(each));
  }
  between.findings = explain_silence(std::move(between.findings), report.hosts);
  for (Finding& each : without_echoes(std::move(between.findings), report.findings))
    report.findings.push_back(std::move(each));
  report.sections = std::move(between.sections);
  print(options, report, between.json);
  return between.written ? exit_status(report) : kNoLook;
}

}  // namespace mesh::doctor
