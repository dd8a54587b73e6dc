#include "tests/e2e/breaker.h"

#include "perf/driver/world.h"
#include "tests/e2e/scenario.h"

namespace mesh::e2e {

using soft::FaultKind, soft::FaultOrder, soft::FaultVerb;

constexpr std::chrono::microseconds kBreakerLook{100};

const char* name_of(Blow blow) {
  switch (blow) {
    case Blow::PulledCable: return "pulled cable";
    case Blow::SilentPort: return "silent port";
    case Blow::QueuePair: return "queue pair failed";
    case Blow::Adapter: return "all queue pairs failed";
    case Blow::NextWrite: return "write out of retries";
    case Blow::RefusedWrite: return "write refused";
    case Blow::Card: return "card gone";
    case Blow::Replaced: return "card replaced";
  }
  return "?";
}

Breaker::Breaker() {
  const std::string fabric = driver::variable(process_environment(), "NCCL_MESH_FABRIC");
  require(fabric.starts_with("soft:"), "no software fabric to break");
  auto file = soft::load(fabric.substr(5));
  require(file.ok() && file->hosts.size() >= 2, "no fabric of two hosts to break");
  fabric_ = std::move(*file);
}

soft::FaultAnswer Breaker::tell(std::size_t host, const FaultOrder& order) {
  const std::string& name = fabric_.hosts[host].name;
  const Result<soft::FaultAnswer> answer = soft::tell_host(fabric_, name, order);
  require(answer.ok() && answer->code == Errc::Ok,
          "host " + name + " was not told of a fault: " + errc_name(answer.code()));
  return *answer;
}

void Breaker::tell_both(const std::string& nic, FaultVerb verb, FaultKind kind) {
  soft::NicRef other;
  require(fabric_.other_end(fabric_.hosts[0].name, nic, &other), nic + " is at no cable");
  tell(0, {.verb = verb, .fault = {.kind = kind, .nic = nic}});
  tell(static_cast<std::size_t>(other.host),
       {.verb = verb, .fault = {.kind = kind, .nic = fabric_.nic(other).name}});
}

void Breaker::tell_ends(std::size_t cable, FaultVerb verb) {
  for (const soft::NicRef& end : fabric_.links[cable % fabric_.links.size()].ends)
    tell(static_cast<std::size_t>(end.host),
         {.verb = verb, .fault = {.kind = FaultKind::PortDown, .nic = fabric_.nic(end).name}});
}

void Breaker::pull(const std::string& nic) { tell_both(nic, FaultVerb::Arm, FaultKind::PortDown); }

void Breaker::plug(const std::string& nic) {
  for (const FaultKind kind : {FaultKind::PortDown, FaultKind::QpError, FaultKind::PostRefused,
                               FaultKind::CardLeft, FaultKind::CardReplaced})
    tell_both(nic, FaultVerb::Lift, kind);
}

// At least two of the four queue pairs of each direction are connected at any time that a path is
// up.
void Breaker::fail_one_queue_pair(const soft::Fault& fault, std::uint64_t random) {
  const int which = static_cast<int>(random % 4);
  const soft::FaultAnswer answer =
      tell(0, {.verb = FaultVerb::FailQueuePairs, .fault = fault, .queue_pair = which});
  require(answer.count == 1, "no such queue pair");
}

void Breaker::take_card(const std::string& nic, FaultKind kind) {
  soft::NicRef other;
  require(fabric_.other_end(fabric_.hosts[0].name, nic, &other), nic + " is at no cable");
  tell(0, {.verb = FaultVerb::Arm, .fault = {.kind = kind, .nic = nic}});
  const soft::Fault silent{.kind = FaultKind::PortDown, .nic = fabric_.nic(other).name};
  tell(static_cast<std::size_t>(other.host), {.verb = FaultVerb::Arm, .fault = silent});
}

void Breaker::strike(Blow blow, const std::string& nic, std::uint64_t random) {
  soft::Fault fault{.nic = nic};
  switch (blow) {
    case Blow::PulledCable: return pull(nic);
    case Blow::SilentPort: fault.kind = FaultKind::PortDown; break;
    case Blow::NextWrite: fault.kind = FaultKind::QpError; break;
    case Blow::RefusedWrite: fault.kind = FaultKind::PostRefused; break;
    case Blow::Card: return take_card(nic, FaultKind::CardLeft);
    case Blow::Replaced: return take_card(nic, FaultKind::CardReplaced);
    case Blow::Adapter: tell(0, {.verb = FaultVerb::FailQueuePairs, .fault = fault}); return;
    case Blow::QueuePair: return fail_one_queue_pair(fault, random);
  }
  tell(0, {.verb = FaultVerb::Arm, .fault = fault});
}

void Breaker::lose_peer(const std::string& nic, const std::string& host) {
  tell(0, {.verb = FaultVerb::Arm,
           .fault = {.kind = FaultKind::PeerLost, .nic = nic, .peer_host = host}});
}

void Breaker::find_peer(const std::string& nic, const std::string& host) {
  tell(0, {.verb = FaultVerb::Lift,
           .fault = {.kind = FaultKind::PeerLost, .nic = nic, .peer_host = host}});
}

void Breaker::delay_writes(const std::string& nic, std::uint64_t delay_ns) {
  tell(0, {.verb = FaultVerb::Arm,
           .fault = {.kind = FaultKind::WriteDelay, .nic = nic, .delay_ns = delay_ns}});
}

void Breaker::delay_no_more(const std::string& nic) {
  tell(0, {.verb = FaultVerb::Lift, .fault = {.kind = FaultKind::WriteDelay, .nic = nic}});
}

std::uint64_t Breaker::bytes(const std::string& nic) {
  return tell(0, {.verb = FaultVerb::Look, .fault = {.nic = nic}}).bytes;
}

std::uint64_t Breaker::bytes() {
  std::uint64_t all = 0;
  for (const soft::NicSpec& nic : nics()) all += bytes(nic.name);
  return all;
}

void Breaker::wait_for_bytes(std::uint64_t more, const std::stop_token& stop) {
  const auto end = std::chrono::steady_clock::now() + patience();
  for (const std::uint64_t goal = bytes() + more; !stop.stop_requested() && bytes() < goal;) {
    require(std::chrono::steady_clock::now() < end, "no data flows");
    std::this_thread::sleep_for(kBreakerLook);
  }
}

void Breaker::look_on(std::uint64_t turns) {
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    static_cast<void>(bytes());
    std::this_thread::sleep_for(kBreakerLook);
  }
}

LaterBlow::LaterBlow(Breaker& breaker, const Order& order)
    : thread_([this, &breaker, order](const std::stop_token& stop) {
        try {
          breaker.wait_for_bytes(order.after_bytes, stop);
          breaker.strike(order.blow, order.nic, order.random);
        } catch (const Failure& why) {
          failure_ = why.what();
        }
      }) {}

void LaterBlow::finish() {
  thread_.request_stop();
  thread_.join();
  require(failure_.empty(), failure_);
}

}  // namespace mesh::e2e
