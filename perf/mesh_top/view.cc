#include "perf/mesh_top/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace mesh::top {
namespace {

constexpr double kGiga = 1e9, kMicro = 1e3;  // of bytes and of ns

std::string marked(const std::string& text, bool wrong, const ViewOptions& options) {
  return wrong && options.colour ? "\033[1;31m" + text + "\033[0m" : text;
}

std::string process_line(const Process& process, const ViewOptions& options) {
  const EngineSnapshot& shot = process.now.engine;
  const std::string state = state_of(process, options.now_s);
  const std::uint64_t errors = shot.stats.errors;
  return fmt::format("{:<10} {:>8} {} {:>5} s {:>6} {}\n", shot.host, process.now.process.process,
                     marked(fmt::format("{:<6}", state), state == "silent", options),
                     age_s(process, options.now_s), shot.stats.queue_pairs,
                     marked(fmt::format("{:>6}", errors), errors != 0, options));
}

// One port of a host, as all of its processes that run see it.
struct Port {
  std::string host, rail;
  std::size_t processes = 0, down_in = 0, lost_in = 0;
  std::uint64_t not_up = 0, lost = 0;  // paths
  std::vector<std::string> causes;     // different ones
};

void add_paths(const EngineSnapshot& shot, Port& port) {
  const std::uint64_t before = port.lost;
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      if (path.rail != port.rail) continue;
      port.not_up += path.down + path.quarantined;
      port.lost += path.failures;
      const bool known =
          path.last_cause.empty() ||
          std::find(port.causes.begin(), port.causes.end(), path.last_cause) != port.causes.end();
      if (!known) port.causes.push_back(path.last_cause);
    }
  }
  port.lost_in += port.lost == before ? 0 : 1;
}

// Leaves out processes that do not run, unless none of their host does.
std::vector<Port> ports_of(const std::vector<Process>& processes, std::uint64_t now_s) {
  const auto runs = [now_s](const Process& each) {
    return std::string_view(state_of(each, now_s)) == "runs";
  };
  std::vector<Port> ports;
  for (const Process& process : processes) {
    const EngineSnapshot& shot = process.now.engine;
    const auto outlives = [&](const Process& each) {
      return each.now.engine.host == shot.host && runs(each);
    };
    if (!runs(process) && std::any_of(processes.begin(), processes.end(), outlives)) continue;
    for (const RailSnapshot& rail : shot.rails) {
      auto port = std::find_if(ports.begin(), ports.end(), [&](const Port& each) {
        return each.host == shot.host && each.rail == rail.name;
      });
      if (port == ports.end()) {
        port = ports.emplace(port);
        port->host = shot.host, port->rail = rail.name;
      }
      ++port->processes;
      port->down_in += rail.active ? 0 : 1;
      add_paths(shot, *port);
    }
  }
  return ports;
}

// A cable that is cut is one line of each of its hosts, however many processes have lost it.
std::string port_line(const Port& port, const ViewOptions& options) {
  const bool several = port.processes > 1, down = port.down_in != 0;
  std::string text = fmt::format("{:<10} {:<10} {}", port.host, port.rail,
                                 marked(down ? "down" : "up", down, options));
  const auto in = [&](std::size_t processes) {
    return several ? fmt::format(" in {} of {} processes", processes, port.processes) : "";
  };
  if (down) text += in(port.down_in);
  std::string wrong;
  if (port.not_up != 0) wrong += fmt::format("  {} paths not up", port.not_up);
  if (port.lost != 0) {
    wrong += fmt::format("  paths lost {} times{}", port.lost, in(port.lost_in));
    if (!port.causes.empty()) wrong += ": " + port.causes.front();
    if (port.causes.size() > 1) wrong += " (and others)";
  }
  return text + marked(wrong, !wrong.empty(), options) + "\n";
}

// Returns the reason for which the oldest request of a link waits, and since when.
std::string wait_text(const PeerSnapshot& peer) {
  std::size_t longest = 0;
  for (std::size_t i = 1; i < peer.waits.size(); ++i) {
    if (peer.waits[i].longest_ns > peer.waits[longest].longest_ns) longest = i;
  }
  const std::uint64_t ns = peer.waits[longest].longest_ns;
  if (ns == 0) return {};
  return fmt::format("  {} for {} s", wait_reason_name(static_cast<WaitReason>(longest)),
                     static_cast<double>(ns) / kGiga);
}

std::string state_of_path(const PathSnapshot& path) {
  std::string text;
  for (const auto& [links, state] :
       {std::pair(path.up, "up"), std::pair(path.quarantined, "quarantined"),
        std::pair(path.standby, "standby"), std::pair(path.down, "down")}) {
    if (links != 0) text += (text.empty() ? "" : ",") + std::string(state);
  }
  return text;
}

// Returns "p50 12 us, p99 31 us", or nothing without a sample.
std::string latency_text(const LatencyHistogram& latency) {
  if (latency.total() == 0) return {};
  const auto us = [&latency](double part) {
    return static_cast<double>(latency.quantile_ns(part)) / kMicro;
  };
  return fmt::format("p50 {:.0f} us, p99 {:.0f} us", us(0.5), us(0.99));
}

struct Shown {
  const Process& process;
  const ViewOptions& options;
  bool alone = true;  // of its host; if not, the lines of ports tell what was lost
};

// The paths of a receiving link count only what the receiver posts, so their rate is not shown, and
// have no latency.
std::string path_line(const PathSnapshot& path, const std::string& gbytes,
                      const std::string& latency, const Shown& shown) {
  const ViewOptions& options = shown.options;
  const bool wrong = path.down + path.quarantined != 0;
  const std::string cause = path.last_cause.empty() ? "" : ", last: " + path.last_cause;
  const std::string lost = path.failures == 0 || !shown.alone
                               ? ""
                               : fmt::format("  lost {} times{}", path.failures, cause);
  return fmt::format("    {:>14}  {} {}{}{}{}\n", gbytes,
                     marked(fmt::format("{:<8}", state_of_path(path)), wrong, options), path.name,
                     path.routes.empty() ? "" : "  over " + path.routes.front(),
                     latency.empty() ? "" : "  " + latency, marked(lost, true, options));
}

std::string link_lines(const Shown& shown, const PeerSnapshot& peer) {
  const Process& process = shown.process;
  const PeerSnapshot before = before_of(process, peer);
  const std::string waits = wait_text(peer);
  std::string text =
      fmt::format("{:<10} {:<4} {:<10} {:>9.3f} GB/s {:>10.0f} msg/s {:>5} open {:>4} channels{}\n",
                  process.now.engine.host, peer.sends ? "to" : "from", peer.peer,
                  rate(process, peer.bytes, before.bytes) / kGiga,
                  rate(process, peer.messages, before.messages), peer.open_requests, peer.channels,
                  marked(waits, !waits.empty(), shown.options));
  for (const PathSnapshot& path : peer.paths) {
    const PathSnapshot older = before_of(before, path);
    const double bytes = rate(process, path.counters.bytes_sent, older.counters.bytes_sent);
    text += path_line(path, peer.sends ? fmt::format("{:.3f} GB/s", bytes / kGiga) : "",
                      latency_text(latency_since(older, path)), shown);
  }
  return text;
}

std::string relay_lines(const Process& process) {
  std::string text;
  for (const RelayedSnapshot& way : process.now.engine.relay.ways) {
    if (way.bytes == 0) continue;
    text += fmt::format(
        "{:<10} carries    {:>9.3f} GB/s  for others, from {} to {}\n", process.now.engine.host,
        rate(process, way.bytes, before_of(process, way).bytes) / kGiga, way.from, way.rail);
  }
  return text;
}

}  // namespace

std::string view(const std::vector<Process>& processes, const ViewOptions& options) {
  std::string text = fmt::format("{:<10} {:>8} {:<6} {:>7} {:>6} {:>6}\n", "host", "process",
                                 "state", "age", "qps", "errors");
  for (const Process& process : processes) text += process_line(process, options);
  text += fmt::format("\n{:<10} {:<10} {}\n", "host", "rail", "port");
  for (const Port& port : ports_of(processes, options.now_s)) text += port_line(port, options);
  text += "\n";
  for (const Process& process : processes) {
    const std::string& host = process.now.engine.host;
    const auto is_sibling = [&host](const Process& each) { return each.now.engine.host == host; };
    const Shown shown{.process = process,
                      .options = options,
                      .alone = std::count_if(processes.begin(), processes.end(), is_sibling) == 1};
    for (const PeerSnapshot& peer : process.now.engine.peers) text += link_lines(shown, peer);
    text += relay_lines(process);
  }
  return text;
}

}  // namespace mesh::top
