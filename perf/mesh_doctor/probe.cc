#include "perf/mesh_doctor/probe.h"

#include "perf/collectives/volley.h"
#include "perf/driver/pattern.h"
#include "perf/driver/registered.h"
#include "perf/driver/world.h"
#include "perf/mesh_doctor/flood.h"
#include "perf/results/result.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace mesh::doctor {
namespace {

using driver::kNetSuccess;
using Json = nlohmann::json;

constexpr std::size_t kFloodBytesMin = 64u << 10, kFloodBytesMax = 1u << 20;
constexpr double kMessageSeconds = 0.5e-3;  // the time of a flood's message at the port's speed
constexpr std::size_t kSmallBytes = 8;

std::size_t flood_bytes(std::uint32_t speed_mbps) {
  const double wanted = speed_mbps * 1e6 / 8 * kMessageSeconds;
  const auto bytes =
      static_cast<std::size_t>(std::clamp<double>(wanted, kFloodBytesMin, kFloodBytesMax));
  return bytes / kFloodBytesMin * kFloodBytesMin;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Seen, failed, why, alone_gbps, received_gbps, latency_us,
                                   port_down, black_hole, said)

std::string to_text(const Seen& seen) {
  return Json(seen).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The plugin was started for this step, so all that it counts belongs to it.
void note_trouble(const Snapshot& snapshot, Seen& seen) {
  for (const RailSnapshot& rail : snapshot.engine.rails) {
    if (rail.port_downs != 0)
      seen.port_down = fmt::format("rail {}: its port went down", rail.name);
    if (!rail.offered) seen.port_down = fmt::format("rail {}: its port is down", rail.name);
  }
  if (!snapshot.warnings.empty()) seen.said = snapshot.warnings.back();
  for (const PeerSnapshot& peer : snapshot.engine.peers) {
    for (const PathSnapshot& path : peer.paths) {
      if (path.black_holes != 0) seen.black_hole = path.name;
      if (!path.last_cause.empty())
        seen.said = fmt::format("path {} is lost: {}", path.name, path.last_cause);
    }
  }
  seen.said = seen.said.substr(0, seen.said.find(';'));  // advice follows
}

Seen seen_from(const std::string& text) {
  try {
    return Json::parse(text).get<Seen>();
  } catch (const Json::exception&) {
    Seen seen;
    seen.failed = "the other end's report";
    return seen;
  }
}

struct Probe::Memory {
  driver::Registered out, in;
  std::size_t bytes = 0;  // of a large message
};

// Returns the plugin's settings for one step.
Environment step_settings(const ProbeStep& step, const ProbeTimes& times) {
  std::string list = "=";
  for (const std::string& rail : step.rails) list += (list.size() > 1 ? "," : "") + rail;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(times.patience / 2);
  return {{"NCCL_IB_HCA", list},
          {"NCCL_MESH_RAILS", "asked"},
          {"NCCL_MESH_RELAY", "0"},
          {"NCCL_MESH_PATH_TIMEOUT", std::to_string(seconds.count())}};
}

Probe::Probe(driver::NetApi& api, const ProbeStep& step, const ProbeTimes& times)
    : api_(api), step_(step), times_(times) {}

Probe::~Probe() { close(); }

bool Probe::fail(const char* what, int result) {
  if (seen_.failed.empty()) {
    seen_.failed = what;
    seen_.why = result == driver::kDriverTimeout ? "nothing arrived in time"
                                                 : driver::net_result_name(result);
  }
  return false;
}

std::string Probe::open() {
  settings_ = std::make_unique<driver::StepVariables>(step_settings(step_, times_));
  communicator_ =
      std::make_unique<driver::Communicator>(api_, driver::CommunicatorOptions{.id = 1});
  int result = communicator_->open();
  if (result != kNetSuccess) fail("the plugin's start", result);
  if (result == kNetSuccess) result = communicator_->listen(listening_);
  if (result != kNetSuccess) fail("listening", result);
  if (result != kNetSuccess) return {};
  return {reinterpret_cast<const char*>(listening_.handle.data()), listening_.handle.size()};
}

bool Probe::connect(const std::string& handle) {
  driver::NetHandle remote{};
  if (handle.size() != remote.size()) return fail("the other end's start", kNetSuccess);
  std::memcpy(remote.data(), handle.data(), remote.size());
  auto connected = communicator_->start_connect(remote, times_.patience);
  auto accepted = communicator_->start_accept(listening_.comm, times_.patience);
  const driver::CommOutcome send = connected.get();
  if (send.result != kNetSuccess) communicator_->abandon_attempts();
  const driver::CommOutcome recv = accepted.get();
  send_ = send.comm;
  recv_ = recv.comm;
  if (recv.result == kNetSuccess) listening_.comm = nullptr;  // accept has closed it
  if (send.result != kNetSuccess) return fail("the connection", send.result);
  return recv.result == kNetSuccess || fail("the connection", recv.result);
}

namespace {

// Sends a message each way.
int exchange(driver::ProgressThread& progress, const std::array<driver::Pipe*, 2>& pipes,
             const std::array<driver::NetPiece, 2>& pieces, std::chrono::milliseconds patience) {
  for (driver::Pipe* pipe : pipes) progress.attach(*pipe);
  pipes[1]->push(pieces[1]);
  pipes[0]->push(pieces[0]);
  const int result = progress.wait_idle(patience);
  for (driver::Pipe* pipe : pipes) progress.detach(*pipe);
  return result;
}

}  // namespace

// Sends a message each way, whose content tells that it is the other end's, and whole.
bool Probe::full_packets(const Memory& memory) {
  driver::Pipe send(api_, {.side = driver::Side::Send, .comm = send_});
  driver::Pipe recv(api_, {.side = driver::Side::Recv, .comm = recv_});
  const driver::PatternKey sent{.seed = 1, .sender = step_.serves ? 0u : 1u};
  const driver::PatternKey received{.seed = 1, .sender = step_.serves ? 1u : 0u};
  driver::fill_pattern(sent, memory.out.data(), step_.mtu);
  const int result =
      exchange(communicator_->progress(), {&send, &recv},
               {memory.out.piece(0, step_.mtu), memory.in.piece(0, step_.mtu)}, times_.patience);
  if (result != kNetSuccess) return fail("a message of one MTU", result);
  const bool good = driver::check_pattern(received, memory.in.data(), step_.mtu).good();
  return good || fail("the content of a message", driver::kNetInternalError);
}

bool Probe::round_trips(const Memory& memory) {
  driver::ProgressThread& progress = communicator_->progress();
  driver::Pipe send(api_, {.side = driver::Side::Send, .comm = send_});
  driver::Pipe recv(api_, {.side = driver::Side::Recv, .comm = recv_});
  perf::Volley volley(step_.serves ? perf::VolleyRole::Server : perf::VolleyRole::Returner,
                      {&send, &recv});
  const std::array<driver::Task*, 3> tasks{&send, &recv, &volley};
  for (driver::Task* task : tasks) progress.attach(*task);
  volley.start({memory.out.piece(0, kSmallBytes), memory.in.piece(0, kSmallBytes), kSmallBytes},
               static_cast<std::uint64_t>(times_.round_trips));
  const int result = progress.wait_idle(times_.patience);
  for (driver::Task* task : tasks) progress.detach(*task);
  if (result != kNetSuccess) return fail("small messages", result);
  seen_.latency_us = results::latency_of(volley.samples_us()).value_or(results::Latency{}).median;
  return true;
}

bool Probe::flood(const Memory& memory, bool sends, double& received_gbps) {
  driver::ProgressThread& progress = communicator_->progress();
  Flood flood(api_, send_, recv_);
  progress.attach(flood);
  const FloodTimes flood_times{
      .whole = times_.flood, .warm = times_.flood / 5, .more = times_.patience / 4, .sends = sends};
  flood.start({memory.out.piece(0, memory.bytes), memory.in.piece(0, memory.bytes)}, flood_times);
  const int result = progress.wait_idle(flood_times.whole + flood_times.more + times_.patience);
  progress.detach(flood);
  received_gbps = flood.received_gbps();
  return result == kNetSuccess || fail("large messages", result);
}

// Credits for one direction travel in the other, so a sick direction slows both, and only each
// direction alone tells which it is.
bool Probe::floods(const Memory& memory) {
  if (!flood(memory, true, seen_.received_gbps)) return false;
  if (!step_.alone) return true;
  double nothing = 0;
  const bool first = flood(memory, step_.serves, step_.serves ? nothing : seen_.alone_gbps);
  return first && flood(memory, !step_.serves, step_.serves ? seen_.alone_gbps : nothing);
}

bool Probe::measure() {
  const std::size_t bytes = flood_bytes(step_.speed_mbps);
  const Memory memory{driver::Registered(*communicator_, send_, bytes),
                      driver::Registered(*communicator_, recv_, bytes * Flood::kDepth), bytes};
  for (const driver::Registered* each : {&memory.out, &memory.in})
    if (each->result() != kNetSuccess) return fail("registering memory", each->result());
  return full_packets(memory) && round_trips(memory) && floods(memory);
}

Seen Probe::run(const std::string& handle) {
  if (seen_.failed.empty() && connect(handle)) measure();
  note_trouble(api_.snapshot(), seen_);
  close();
  return seen_;
}

void Probe::close() {
  if (communicator_ != nullptr) {
    if (listening_.comm != nullptr) communicator_->close_listen(listening_.comm);
    if (send_ != nullptr) communicator_->close_send(send_);
    if (recv_ != nullptr) communicator_->close_recv(recv_);
    communicator_->close();
  }
  listening_.comm = send_ = recv_ = nullptr;
  communicator_.reset();
  settings_.reset();
}

}  // namespace mesh::doctor
