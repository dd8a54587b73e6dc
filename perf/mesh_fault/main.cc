// mesh_fault breaks a part of a running host of the software fabric, or mends it again.
#include "perf/driver/command_line.h"
#include "src/soft/fault_door.h"
#include "src/soft/unix_socket.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace mesh::fault {
namespace {

using soft::FabricFile, soft::FaultAnswer, soft::FaultKind, soft::FaultOrder, soft::FaultVerb,
    soft::NicRef;

constexpr const char* kFooter =
    "ACTION is one of\n  down         the port goes down at both ends of a cable (--one-end: only "
    "at this one)\n  up           the port comes back, at both ends\n  card-left    the device "
    "reports a fatal error and stops answering, and the port at the other end of its cable goes "
    "down (--one-end: stays up)\n  card-replaced the device is gone for whoever has it open, whose "
    "calls all fail from now on, and the port at the other end goes down, as with card-left; after "
    "--for-ms, or card-back, a new device is there and can be opened\n  card-back    the device is "
    "back, or the new one is there\n  qp-error     queue pairs of the NIC fail now, as if the "
    "device could not serve them (--qp N: only the N-th)\n  wr-error     the next work request "
    "posted to the NIC runs out of retries, and its queue pair fails\n  post-refused the next work "
    "request posted to the NIC is refused by post_send\n  lid          the subnet manager gives "
    "the NIC's InfiniBand port another LID\n  mtu          packets of the NIC with more than --mtu "
    "bytes vanish, and smaller ones arrive\n  peer-lost    nothing goes to or comes from --peer "
    "any more, on this NIC\n  peer-back    it does again\n  mute         the NIC takes work "
    "requests and completes none, neither with success nor with an error\n  unmute       it goes "
    "on with what was posted\n  show         nothing changes; the port's state and what this host "
    "has posted to it are printed\n  clear        nothing is broken any more on HOST (NIC is not "
    "looked at)\nFILE is the very file that the host was started with "
    "(NCCL_MESH_FABRIC=soft:FILE). --for-ms ends the fault by itself.\nA host that does not run, "
    "does not answer or cannot do it is a failed run.";

struct Options {
  std::string fabric, host, nic, action, peer;
  bool one_end = false;
  int queue_pair = -1;
  std::uint64_t for_ms = 0;
  std::uint32_t mtu = 0;
};

int fail(int status, const std::string& why) {
  std::fprintf(stderr, "mesh_fault: %s\n", why.c_str());
  return status;
}

const std::map<std::string, std::pair<FaultVerb, FaultKind>> kMeanings = {
    {"down", {FaultVerb::Arm, FaultKind::PortDown}},
    {"up", {FaultVerb::Lift, FaultKind::PortDown}},
    {"card-left", {FaultVerb::Arm, FaultKind::CardLeft}},
    {"card-replaced", {FaultVerb::Arm, FaultKind::CardReplaced}},
    {"card-back", {FaultVerb::Lift, FaultKind::CardLeft}},
    {"qp-error", {FaultVerb::FailQueuePairs, {}}},
    {"wr-error", {FaultVerb::Arm, FaultKind::QpError}},
    {"post-refused", {FaultVerb::Arm, FaultKind::PostRefused}},
    {"lid", {FaultVerb::Arm, FaultKind::LidChange}},
    {"mtu", {FaultVerb::Arm, FaultKind::Mtu}},
    {"peer-lost", {FaultVerb::Arm, FaultKind::PeerLost}},
    {"peer-back", {FaultVerb::Lift, FaultKind::PeerLost}},
    {"mute", {FaultVerb::Arm, FaultKind::Mute}},
    {"unmute", {FaultVerb::Lift, FaultKind::Mute}},
    {"clear", {FaultVerb::LiftAll, {}}},
    {"show", {FaultVerb::Look, {}}},
};

FaultOrder order_of(const Options& options) {
  const auto& [verb, kind] = kMeanings.at(options.action);
  FaultOrder order{.verb = verb, .queue_pair = options.queue_pair};
  order.fault.kind = kind;
  order.fault.peer_host = options.peer;
  order.fault.duration_ns = options.for_ms * 1'000'000;
  order.fault.mtu = options.mtu;
  return order;
}

void show(const std::string& name, const FaultAnswer& answer) {
  std::printf("%s: port %s, %llu work requests, %llu bytes posted\n", name.c_str(),
              answer.port_up ? "up" : "down", static_cast<unsigned long long>(answer.work_requests),
              static_cast<unsigned long long>(answer.bytes));
}

int tell(const FabricFile& fabric, NicRef end, FaultOrder order) {
  const std::string& host = fabric.hosts[static_cast<std::size_t>(end.host)].name;
  order.fault.nic = fabric.nic(end).name;
  const std::string name = host + "/" + fabric.nic(end).name;
  const Result<FaultAnswer> answer = soft::tell_host(fabric, host, order);
  if (answer.code() == Errc::NotFound)
    return fail(1, "host " + host + " of " + fabric.name +
                       " does not run here, or belongs to another user");
  if (!answer.ok())
    return fail(
        1, "host " + host + " does not answer within " + std::to_string(soft::kAnswerMs) + " ms");
  if (answer->code != Errc::Ok) return fail(1, name + ": " + errc_name(answer->code));
  if (order.verb == FaultVerb::Look) show(name, *answer);
  if (order.verb != FaultVerb::FailQueuePairs) return 0;
  std::printf("%s: %u queue pairs failed\n", name.c_str(), answer->count);
  return answer->count > 0 ? 0 : fail(1, name + " has no such connected queue pair");
}

bool is_about_port(const Options& options) {
  return options.action == "down" || options.action == "up" || options.action.starts_with("card-");
}

// Returns the NIC that is meant. For `clear` the host is enough.
std::optional<NicRef> place_of(const Options& options, const FabricFile& fabric) {
  NicRef end;
  if (fabric.find_nic(options.host, options.nic, &end)) return end;
  const int host = options.action == "clear" ? fabric.find_host(options.host) : -1;
  if (host < 0 || fabric.hosts[static_cast<std::size_t>(host)].nics.empty()) return std::nullopt;
  return NicRef{.host = host, .nic = 0};
}

// Returns the mistake in the options; empty if they fit the fabric.
std::string mistake_in(const Options& options, const FabricFile& fabric) {
  if (!place_of(options, fabric))
    return options.fabric + " has no NIC " + options.host + "/" + options.nic;
  if (options.one_end && !is_about_port(options))
    return "--one-end goes with down, up, card-left, card-replaced and card-back, and only with "
           "them";
  if (options.queue_pair >= 0 && options.action != "qp-error")
    return "--qp goes with qp-error, and only with it";
  const bool timed = options.action == "down" || options.action == "mtu" ||
                     options.action == "peer-lost" || options.action == "mute" ||
                     options.action == "card-replaced";
  if (options.for_ms != 0 && !timed)
    return "--for-ms goes with down, mtu, peer-lost, mute and card-replaced, and only with them";
  const bool about_peer = options.action == "peer-lost" || options.action == "peer-back";
  if (about_peer != !options.peer.empty())
    return "--peer goes with peer-lost and peer-back, and only with them";
  if ((options.action == "mtu") != (options.mtu != 0))
    return "--mtu goes with mtu, and only with it";
  if (about_peer && fabric.find_host(options.peer) < 0)
    return options.fabric + " has no host " + options.peer;
  return {};
}

int run(const Options& options) {
  Result<FabricFile> fabric = Errc::NotFound;
  const std::string warning = driver::first_warning([&] { fabric = soft::load(options.fabric); });
  if (!fabric.ok()) return fail(2, warning);
  if (const std::string why = mistake_in(options, *fabric); !why.empty()) return fail(2, why);
  NicRef other;
  FaultOrder order = order_of(options);
  int status = tell(*fabric, *place_of(options, *fabric), order);
  if (options.action == "card-back") {
    order.fault.kind = FaultKind::CardReplaced;
    status = std::max(status, tell(*fabric, *place_of(options, *fabric), order));
  }
  const bool port = is_about_port(options);
  if (options.action.starts_with("card-"))
    order.fault.kind = FaultKind::PortDown;  // the other end sees the port down
  // A switch keeps its own ports up, so only a cable has another end that sees it.
  if (port && !options.one_end && fabric->other_end(options.host, options.nic, &other))
    status = std::max(status, tell(*fabric, other, order));
  return status;
}

}  // namespace
}  // namespace mesh::fault

int main(int argc, char** argv) {
  mesh::fault::Options options;
  CLI::App app("Makes a NIC of a running host of the software fabric fail, or repairs it.",
               "mesh_fault");
  app.footer(mesh::fault::kFooter);
  app.add_option("--fabric", options.fabric, "The fabric file")->required();
  app.add_option("HOST", options.host, "The host, by its name in the file")->required();
  app.add_option("NIC", options.nic, "Its NIC, by its name in the file")->required();
  app.add_option("ACTION", options.action, "The fault")
      ->required()
      ->check(mesh::driver::name_of(mesh::fault::kMeanings));
  app.add_flag("--one-end", options.one_end,
               "down, up, card-left, card-replaced, card-back: only this port, as with a switch or "
               "a sick adapter");
  app.add_option("--qp", options.queue_pair, "qp-error: only the N-th connected queue pair, from 0")
      ->check(mesh::driver::in_range(0, 4095));
  app.add_option("--peer", options.peer, "peer-lost, peer-back: the other host");
  app.add_option("--mtu", options.mtu, "mtu: the bytes of payload that still arrive")
      ->check(mesh::driver::in_range(1, 65536));
  app.add_option("--for-ms", options.for_ms,
                 "down, mtu, peer-lost, mute, card-replaced: until so many milliseconds later")
      ->check(mesh::driver::in_range(std::uint64_t{0}, std::uint64_t{3'600'000}));
  if (const auto end = mesh::driver::parse(app, argc, argv)) return *end;
  return mesh::fault::run(options);
}
