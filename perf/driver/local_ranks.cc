#include "perf/driver/local_ranks.h"

#include "perf/driver/bootstrap.h"
#include "perf/driver/soft_fabric.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <cstdio>

namespace mesh::driver {
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

bool start_all(const LocalRanks& run, const SoftFabric& fabric, Rendezvous& rendezvous,
               Launcher& launcher) {
  const std::size_t world = fabric.hosts().size();
  for (std::size_t rank = 0; rank < world; ++rank) {
    ProcessSpec spec;
    spec.arguments = {own_program()};
    spec.arguments.insert(spec.arguments.end(), run.arguments.begin(), run.arguments.end());
    spec.arguments.insert(spec.arguments.end(),
                          {"--rank", std::to_string(rank), "--world-size", std::to_string(world),
                           "--rendezvous", rendezvous.address, "--launched"});
    if (rank == 0) {
      spec.inherited_fd = rendezvous.socket.get();
      spec.arguments.insert(spec.arguments.end(),
                            {"--rendezvous-fd", std::to_string(spec.inherited_fd)});
    }
    spec.environment = fabric.environment(rank);
    if (launcher.start(spec).ok()) continue;
    std::fprintf(stderr, "%s: rank %zu cannot be started\n", run.tool.c_str(), rank);
    return false;
  }
  rendezvous.socket.reset();
  return true;
}

}  // namespace

std::optional<LocalRanksEnd> run_local_ranks(const LocalRanks& run) {
  auto fabric = SoftFabric::open(run.fabric, run.hosts, run.ranks_per_host);
  auto rendezvous = open_loopback_rendezvous();
  if (!fabric.ok() || !rendezvous.ok()) return std::nullopt;
  const UniqueFd signals = open_signals();
  Launcher launcher;
  if (!start_all(run, *fabric, *rendezvous, launcher)) return std::nullopt;
  LocalRanksEnd end{.how = {}, .hosts = fabric->hosts(), .ends = {}};
  end.how =
      launcher.wait({.timeout = run.timeout, .stop_at_failure = true, .signal_fd = signals.get()});
  if (end.how == WaitEnd::TimedOut)
    std::fprintf(stderr, "%s: not finished within %lld s\n", run.tool.c_str(),
                 static_cast<long long>(run.timeout.count()));
  if (end.how == WaitEnd::Signaled) std::fprintf(stderr, "%s: interrupted\n", run.tool.c_str());
  // The other ranks see the loss by themselves and say so. Then all are ended.
  if (end.how == WaitEnd::OneFailed)
    launcher.wait({.timeout = kLastWords, .signal_fd = signals.get()});
  for (std::size_t rank = 0; rank < launcher.count(); ++rank) {
    end.ends.emplace_back();
    if (!launcher.running(rank)) end.ends.back() = launcher.end(rank);
  }
  return end;
}

}  // namespace mesh::driver
