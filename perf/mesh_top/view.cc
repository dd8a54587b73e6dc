#include "perf/mesh_top/view.h"

#include <fmt/format.h>

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
  std::string rails;
  for (const RailSnapshot& rail : shot.rails) {
    rails += fmt::format("  {} {}", rail.name,
                         marked(rail.active ? "up" : "down", !rail.active, options));
  }
  const std::uint64_t errors = shot.stats.errors;
  return fmt::format("{:<10} {:>8} {} {:>5} s {:>6} {}{}\n", shot.host, process.now.process.process,
                     marked(fmt::format("{:<6}", state), state == "silent", options),
                     age_s(process, options.now_s), shot.stats.queue_pairs,
                     marked(fmt::format("{:>6}", errors), errors != 0, options), rails);
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

// The paths of a receiving link count only what the receiver posts, so their rate is not shown, and
// have no latency.
std::string path_line(const PathSnapshot& path, const std::string& gbytes,
                      const std::string& latency, const ViewOptions& options) {
  const bool wrong = path.down + path.quarantined != 0;
  const std::string cause = path.last_cause.empty() ? "" : ", last: " + path.last_cause;
  const std::string lost =
      path.failures == 0 ? "" : fmt::format("  lost {} times{}", path.failures, cause);
  return fmt::format("    {:>14}  {} {}{}{}{}\n", gbytes,
                     marked(fmt::format("{:<8}", state_of_path(path)), wrong, options), path.name,
                     path.routes.empty() ? "" : "  over " + path.routes.front(),
                     latency.empty() ? "" : "  " + latency, marked(lost, true, options));
}

std::string link_lines(const Process& process, const PeerSnapshot& peer,
                       const ViewOptions& options) {
  const PeerSnapshot before = before_of(process, peer);
  const std::string waits = wait_text(peer);
  std::string text =
      fmt::format("{:<10} {:<4} {:<10} {:>9.3f} GB/s {:>10.0f} msg/s {:>5} open {:>4} channels{}\n",
                  process.now.engine.host, peer.sends ? "to" : "from", peer.peer,
                  rate(process, peer.bytes, before.bytes) / kGiga,
                  rate(process, peer.messages, before.messages), peer.open_requests, peer.channels,
                  marked(waits, !waits.empty(), options));
  for (const PathSnapshot& path : peer.paths) {
    const PathSnapshot older = before_of(before, path);
    const double bytes = rate(process, path.counters.bytes_sent, older.counters.bytes_sent);
    text += path_line(path, peer.sends ? fmt::format("{:.3f} GB/s", bytes / kGiga) : "",
                      latency_text(latency_since(older, path)), options);
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
  std::string text = fmt::format("{:<10} {:>8} {:<6} {:>7} {:>6} {:>6}  {}\n", "host", "process",
                                 "state", "age", "qps", "errors", "rails");
  for (const Process& process : processes) text += process_line(process, options);
  text += "\n";
  for (const Process& process : processes) {
    for (const PeerSnapshot& peer : process.now.engine.peers)
      text += link_lines(process, peer, options);
    text += relay_lines(process);
  }
  return text;
}

}  // namespace mesh::top
