#include "perf/mesh_perf/launch.h"

#include "perf/driver/bootstrap.h"
#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>

namespace mesh::perf {
namespace {

constexpr std::chrono::milliseconds kLastWords{2500};

// Makes INT and TERM a descriptor to poll, so that no handler runs in between.
UniqueFd open_signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGINT);
  ::sigaddset(&wanted, SIGTERM);
  ::sigaddset(&wanted, SIGHUP);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  return UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC));
}

int report_end(const driver::Launcher& launcher, const std::vector<std::string>& hosts) {
  int worst = 0;
  for (std::size_t rank = 0; rank < launcher.count(); ++rank) {
    if (launcher.running(rank) || launcher.end(rank).success()) continue;
    const driver::ProcessEnd& end = launcher.end(rank);
    // Wrong data has its own status only if no rank failed in another way.
    const int code = end.exited && end.code == 2 ? 2 : 1;
    worst = worst == 1 ? 1 : code;
    std::fprintf(stderr, "mesh_perf: rank %zu (host %s) ended with %s\n", rank, hosts[rank].c_str(),
                 end.text().c_str());
  }
  return worst;
}

}  // namespace

int launch_ranks(const Options& options, int argc, char** argv) {
  std::vector<std::string> wanted = options.hosts;
  wanted.insert(wanted.end(), options.via.begin(), options.via.end());
  auto fabric = driver::SoftFabric::open(options.fabric, wanted);
  auto rendezvous = driver::open_loopback_rendezvous();
  if (!fabric.ok() || !rendezvous.ok()) return 1;
  const std::vector<std::string>& hosts = fabric->hosts();
  const UniqueFd signals = open_signals();
  driver::Launcher launcher;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    driver::ProcessSpec spec;
    spec.arguments = {driver::own_program()};
    spec.arguments.insert(spec.arguments.end(), argv + 1, argv + argc);
    spec.arguments.insert(spec.arguments.end(), {"--rank", std::to_string(rank), "--world-size",
                                                 std::to_string(hosts.size()), "--rendezvous",
                                                 rendezvous->address, "--launched"});
    if (rank == 0) {
      spec.inherited_fd = rendezvous->socket.get();
      spec.arguments.insert(spec.arguments.end(),
                            {"--rendezvous-fd", std::to_string(spec.inherited_fd)});
    }
    spec.environment = fabric->environment(rank);
    if (!launcher.start(spec).ok()) {
      std::fprintf(stderr, "mesh_perf: rank %zu cannot be started\n", rank);
      return 1;
    }
  }
  rendezvous->socket.reset();
  const driver::WaitEnd end = launcher.wait({.timeout = std::chrono::seconds(options.timeout_s),
                                             .stop_at_failure = true,
                                             .signal_fd = signals.get()});
  if (end == driver::WaitEnd::TimedOut)
    std::fprintf(stderr, "mesh_perf: not done within %d s (--timeout)\n", options.timeout_s);
  if (end == driver::WaitEnd::Signaled) std::fprintf(stderr, "mesh_perf: interrupted\n");
  // The other ranks see the loss by themselves and say so. Then all are ended.
  if (end == driver::WaitEnd::OneFailed)
    launcher.wait({.timeout = kLastWords, .signal_fd = signals.get()});
  const int worst = report_end(launcher, hosts);
  return worst != 0 || end == driver::WaitEnd::AllEnded ? worst : 1;
}

}  // namespace mesh::perf
