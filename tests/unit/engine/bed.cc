#include "tests/unit/engine/bed.h"

#include "engine/data/peer_link.h"
#include "engine/link/test_hooks.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::testkit {

const char* const kCable = R"({"name":"cable",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]}]})";

const char* const kHalves = R"({"name":"halves",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},{"name":"n1",
     "address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},{"name":"n1",
              "address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";

const char* const kThreeCables = R"({"name":"three",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"},{"name":"n1",
     "address":"10.0.2.1/24"},
                               {"name":"n2","address":"10.0.3.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},{"name":"n1",
              "address":"10.0.2.2/24"},
                               {"name":"n2","address":"10.0.3.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]},{"ends":["a/n2","b/n2"]}]})";

const char* const kLine = R"({"name":"line",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},
           {"name":"b","nics":[{"name":"n0","address":"10.0.1.2/24"},{"name":"n1",
              "address":"10.0.2.2/24"}]},
           {"name":"c","nics":[{"name":"n0","address":"10.0.2.3/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["b/n1","c/n0"]}]})";

Bed::Bed(const BedOptions& options) {
  set_log_level(LogLevel::Warn);
  fabric_ = parsed(options.fabric);
  for (const soft::HostSpec& spec : fabric_.hosts) {
    BedHost host;
    auto provider = open_host({.fabric = fabric_,
                               .host = spec.name,
                               .agent = soft::Agent::None,
                               .clock = options.wall_clock ? Clock() : Clock(&clock_)});
    EngineOptions engine_options;
    engine_options.settings.socket_ifname = options.socket_ifname;
    auto hooks = std::make_shared<engine::TestHooks>();
    hooks->timed_ns = options.timed_ns;
    hooks->device_works = options.device_works;
    hooks->device_hangs = options.device_hangs;
    hooks->rewrites_late = options.rewrites_late;
    hooks->while_waiting = [this] { round(); };
    engine_options.hooks = std::move(hooks);
    engine_options.settings.stall_seconds = options.stall_seconds;
    engine_options.settings.rails = options.rails;
    engine_options.settings.relay = options.relay;
    engine_options.settings.both_ways = options.both_ways;
    engine_options.settings.job = options.job;
    engine_options.settings.path_timeout_s = options.path_timeout_s;
    engine_options.settings.timeout = options.ack_timer;
    engine_options.settings.adaptive_routing = options.adaptive_routing;
    engine_options.settings.ar_threshold = options.ar_threshold;
    engine_options.policy = options.policy;
    if (!options.wall_clock) engine_options.manual_clock_ns = &clock_;
    engine_options.threading = Threading::Manual;
    host.open(std::move(provider), engine_options, options.contexts);
    hosts.push_back(std::move(host));
  }
}

Bed::~Bed() {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::size_t i = 0; i < hosts[host].contexts.size(); ++i) close_context({host, i});
  }
  for (BedHost& host : hosts) host.engine.reset();
}

void Bed::close_context(const Seat& seat) { hosts[seat.host].close_context(seat.context); }

void Bed::data_round() {
  for (BedHost& host : hosts) {
    if (!host.nics_stand) host.provider->turn();
    for (Context* context : host.contexts) {
      if (context != nullptr && !host.loops_stand) host.engine->poll_loop(*context);
    }
  }
  advance_ns(tick_ns);
}

void Bed::round() {
  if (const auto once = std::exchange(meanwhile, nullptr)) once();
  if (each_round) each_round();
  for (BedHost& host : hosts) {
    if (host.engine && !host.control_stands) host.engine->poll_control();
  }
  data_round();
}

void BedHost::fault(const soft::Fault& fault, bool on) {
  if (!on) return provider->faults().lift(fault);
  EXPECT_TRUE(provider->faults().arm(fault).ok());
}

void BedHost::port(const std::string& nic, bool up) {
  fault({.kind = soft::FaultKind::PortDown, .nic = nic}, !up);
}

Pair Bed::connect(const Seat& sender, const Seat& receiver, const Devices& devices) {
  Engine& from = *hosts[sender.host].engine;
  Engine& to = *hosts[receiver.host].engine;
  HandleBytes handle{};
  const Result<Listener*> listener =
      to.listen(*hosts[receiver.host].contexts[receiver.context], devices.listens, handle);
  EXPECT_TRUE(listener.ok());
  if (each_handle) each_handle(handle);
  Pair pair;
  Errc error = Errc::Ok;
  const bool up = until([&] {
    if (pair.send == nullptr) {
      const Result<Channel*> sent =
          from.connect(*hosts[sender.host].contexts[sender.context], devices.connects, handle);
      if (!sent.ok() && sent.code() != Errc::WouldBlock) error = sent.code();
      pair.send = sent.value();
    }
    if (pair.receive == nullptr) pair.receive = to.accept(**listener).value();
    return error != Errc::Ok || (pair.send != nullptr && pair.receive != nullptr);
  });
  if (!up || error != Errc::Ok)
    throw std::runtime_error(std::string("no connection: ") + errc_name(error));
  to.close_listener(*listener);
  return pair;
}

Status Bed::finish(Request* request, std::size_t* bytes) {
  Status status = Errc::WouldBlock;
  until([&] {
    status = test(*request, bytes);
    return status.code() != Errc::WouldBlock;
  });
  return status;
}

bool Bed::finish_all(const std::vector<Request*>& requests) {
  bool all = true;
  for (Request* const request : requests) all = finish(request).ok() && all;
  return all;
}

bool Bed::empties() {
  return until([&] {
    std::uint64_t left = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i)
      left += stats(i).links + stats(i).queue_pairs + stats(i).registrations;
    return left == 0;
  });
}

std::uint64_t Bed::rnr_events() const {
  std::uint64_t events = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const auto& nic : fabric_.hosts[i].nics)
      events += hosts[i].provider->counters(nic.name).rnr_events;
  }
  return events;
}

Talk::Talk(Bed& bed_of, const Pair& pair_of, std::size_t size)
    : bed(bed_of), pair(pair_of), source(size), target(size) {
  std::uint64_t state = 0x9e3779b97f4a7c15u ^ size;
  for (std::byte& byte : source) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  source_region = register_memory(*pair.send, source.data(), size, MemoryType::Host).value();
  target_region = register_memory(*pair.receive, target.data(), size, MemoryType::Host).value();
}

Result<Request*> Talk::send(const Part& part) {
  return isend(*pair.send, {.data = source.data() + part.at,
                            .bytes = part.bytes,
                            .tag = part.tag,
                            .region = source_region});
}

Result<Request*> Talk::receive(const Part& part) {
  return irecv(*pair.receive, {.data = target.data() + part.at,
                               .bytes = part.bytes,
                               .tag = part.tag,
                               .region = target_region});
}

bool Talk::wakes() {
  bool fails = false;
  const bool over = bed.until([&] {
    const bool sleeps = pair.send->link.reach().lazy();
    fails = sleeps && send({.bytes = 8}).code() != Errc::WouldBlock;
    return fails || (!sleeps && !pair.receive->link.reach().lazy());
  });
  return over && !fails;
}

void Talk::exchange(std::size_t bytes) {
  std::fill(target.begin(), target.end(), std::byte{0xa5});
  const Result<Request*> receiving = receive({.bytes = bytes});
  const Result<Request*> sending = send({.bytes = bytes});
  ASSERT_TRUE(receiving.ok() && sending.ok())
      << errc_name(receiving.code()) << ", " << errc_name(sending.code());
  std::size_t sent = SIZE_MAX, received = SIZE_MAX;
  const Status end_of_send = bed.finish(*sending, &sent),
               end_of_receive = bed.finish(*receiving, &received);
  ASSERT_TRUE(end_of_send.ok() && end_of_receive.ok())
      << errc_name(end_of_send.code()) << ", " << errc_name(end_of_receive.code());
  ASSERT_EQ(sent, bytes);
  ASSERT_EQ(received, bytes);
  ASSERT_TRUE(holds(0, 0, bytes));
}

bool Talk::holds(std::size_t target_at, std::size_t source_at, std::size_t bytes) const {
  return bytes == 0 ||
         std::memcmp(target.data() + target_at, source.data() + source_at, bytes) == 0;
}

void Talk::release() {
  deregister_memory(*pair.send, source_region);
  deregister_memory(*pair.receive, target_region);
  source_region = target_region = nullptr;
}

void Talk::close_both() {
  close(pair.send);
  close(pair.receive);
}

}  // namespace mesh::testkit
