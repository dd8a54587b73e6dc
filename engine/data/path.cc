#include "engine/data/path.h"

#include "engine/data/device_context.h"
#include "engine/data/path_text.h"
#include "engine/data/queue_pair.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mesh::engine {

namespace {
// Each half of a cable names the whole cable's speed, and an acknowledgement waits behind the bytes
// of all halves.
std::uint64_t bytes_in_flight_max(const TransferPolicy& policy, std::uint32_t speed_mbps,
                                  std::uint32_t cable_rails) {
  if (policy.inflight_us == 0 || speed_mbps == 0) return policy.inflight_bytes;
  // 10^6 bits/s times 10^-6 s are bits.
  const std::uint64_t carried = std::uint64_t{speed_mbps} * policy.inflight_us / 8 / cable_rails;
  return std::clamp(carried, std::min(policy.wr_bytes, policy.inflight_bytes),
                    policy.inflight_bytes);
}
}  // namespace

void Path::set_port_speed(const TransferPolicy& policy, std::uint32_t own_mbps) noexcept {
  const std::uint32_t peer_mbps = ends.peer_speed_mbps;
  speed_mbps = own_mbps == 0 || peer_mbps == 0 ? std::max(own_mbps, peer_mbps)
                                               : std::min(own_mbps, peer_mbps);
  inflight_bytes_max = usual_inflight_bytes = bytes_in_flight_max(policy, own_mbps, cable_rails);
}

void Path::stop() noexcept {
  for (const auto& queue_pair : queue_pairs) device->stop(*queue_pair);
}

bool Path::owes_completion() const noexcept {
  return std::any_of(queue_pairs.begin(), queue_pairs.end(),
                     [](const auto& queue_pair) { return queue_pair->owes_completion(); });
}

PathLook Path::look() const noexcept {
  PathLook look{.owes = owes_completion()};
  for (const auto& queue_pair : queue_pairs) look.completed += queue_pair->retired();
  return look;
}

std::string hosts_named(const std::string& names) {
  return (names.find(" and ") == std::string::npos ? "host " : "hosts ") + names;
}

std::string Path::text() const { return over.empty() ? name : name + " over " + hosts_named(over); }

namespace {
// Returns "a:1 -> b:1" of "a:1 10.0.0.1 -> b:1 10.0.0.2".
std::string ports_of(const std::string& name) {
  const std::size_t own = name.find(' '), arrow = name.find(" -> ");
  if (own >= arrow) return name;
  const std::string peer = name.substr(arrow, name.find(' ', arrow + 4) - arrow);
  return name.substr(0, own) + peer;
}
}  // namespace

std::string path_text(const Path& path, std::size_t bytes_beside) {
  std::string whole = path.text();
  if (whole.size() + bytes_beside <= kLogLineBytesMax) return whole;
  const std::string ports = ports_of(path.name);
  return path.over.empty() ? ports : ports + " over " + hosts_named(path.over);
}

PathCounters Path::counters_of_rails() const noexcept {
  PathCounters sum = past;
  for (const auto& queue_pair : queue_pairs) queue_pair->add_to(&sum);
  sum.bytes_sent += bulk_posted;
  return sum;
}

PathCounters Path::counters() const noexcept {
  PathCounters sum = counters_of_rails();
  for (const FormerRails& rails : former) sum += rails.counters;
  return sum;
}

std::uint64_t Path::timed_writes() const noexcept {
  std::uint64_t sum = latency.histogram().total();
  for (const FormerRails& rails : former) sum += rails.latency.total();
  return sum;
}

void Path::leave_rails() {
  DCHECK(inflight_bytes() == 0);
  const std::string& rail_name = device->name();
  auto left = std::find_if(former.begin(), former.end(),
                           [this](const FormerRails& rails) { return rails.name == name; });
  if (left == former.end())
    left = former.insert(former.end(),
                         {.name = name, .rail = rail_name, .counters = {}, .latency = {}});
  left->counters += counters_of_rails();
  left->latency += latency.histogram();
  left->failures += std::exchange(health.failures, 0);
  left->replayed_stripes += std::exchange(health.replayed_stripes, 0);
  left->reopen_tries += std::exchange(health.reopen_tries, 0);
  past = {};
  latency.leave_rails();
  bulk_posted = bulk_done = 0;
}

}  // namespace mesh::engine
