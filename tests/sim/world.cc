#include "tests/sim/world.h"

#include <gtest/gtest.h>

namespace mesh::sim {

namespace {
constexpr std::uint64_t kStepNsMax = 3000;  // about three delays of the links used here
}

World::World(std::uint64_t seed, const std::string& fabric_json) : random_(seed) {
  Result<soft::FabricFile> file = soft::parse(fabric_json);
  if (!file.ok()) throw std::runtime_error("the simulator's fabric does not parse");
  fabric_ = *file;
  draw_policy();
  for (const auto& host : fabric_.hosts) {
    Host made;
    auto provider =
        soft::SoftProvider::open({.fabric = fabric_, .host = host.name, .agent = soft::Agent::None, .clock = Clock(&clock_)});
    if (!provider.ok()) throw std::runtime_error("no provider for " + host.name);
    made.provider = std::move(*provider);
    EngineOptions options;
    options.settings.socket_ifname = "lo";
    options.policy = policy;
    options.provider = made.provider.get();
    options.manual_clock_ns = &clock_;
    options.threading = Threading::Manual;
    options.while_waiting = [this] { step(); };
    auto engine = Engine::open(options);
    if (!engine.ok()) throw std::runtime_error("no engine for " + host.name);
    made.engine = std::move(*engine);
    auto context = made.engine->open_context({});
    if (!context.ok()) throw std::runtime_error("no context for " + host.name);
    made.context = *context;
    hosts.push_back(std::move(made));
  }
}

World::~World() {
  for (Host& host : hosts) host.engine->close_context(host.context), host.context = nullptr;
  for (Host& host : hosts) host.engine.reset();
}

void World::draw_policy() {
  policy.qps = static_cast<std::uint32_t>(1 + random(4));
  policy.signal_interval = static_cast<std::uint32_t>(1 + random(20));
  policy.slots = random(2) == 0 ? 32 : 64;
  policy.rq_depth = 16u << random(3);
  policy.sq_depth = 64u << random(3);
  policy.express_bytes = random(600);
  policy.stripe_bytes = 128 * (1 + random(8));
  policy.wr_bytes = 128 * (1 + random(16));
  policy.inflight_bytes = 512 * (1 + random(64));
  policy.inline_bytes = static_cast<std::uint32_t>(64 + random(128));
}

void World::step() {
  Host& host = hosts[random(hosts.size())];
  switch (random(8)) {
    case 0:
      if (host.engine) host.engine->poll_control();
      break;
    case 1:
    case 2: host.provider->turn(); break;
    case 3:
    case 4: advance_ns(random(kStepNsMax)); break;
    default:
      if (host.context != nullptr) host.engine->poll_loop(*host.context);
      break;
  }
}

World::Pair World::connect(std::size_t sender, std::size_t receiver) {
  Host& from = hosts[sender];
  Host& to = hosts[receiver];
  HandleBytes handle{};
  const int rails_to = static_cast<int>(to.engine->rails().size());
  const int rails_from = static_cast<int>(from.engine->rails().size());
  Result<Listener*> listener =
      to.engine->listen(*to.context, static_cast<int>(random(static_cast<std::uint64_t>(rails_to))), handle);
  EXPECT_TRUE(listener.ok());
  const int rail = static_cast<int>(random(static_cast<std::uint64_t>(rails_from)));
  Pair pair;
  const bool up = run_until([&] {
    if (pair.send == nullptr) {
      const Result<Channel*> sent = from.engine->connect(*from.context, rail, handle);
      EXPECT_TRUE(sent.ok() || sent.code() == Errc::WouldBlock) << errc_name(sent.code());
      pair.send = sent.value();
    }
    if (pair.receive == nullptr) pair.receive = to.engine->accept(**listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  });
  EXPECT_TRUE(up) << "no connection from " << sender << " to " << receiver;
  to.engine->close_listener(*listener);
  return pair;
}

std::uint64_t World::rnr_events() const {
  std::uint64_t events = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (const auto& nic : fabric_.hosts[i].nics) events += hosts[i].provider->counters(nic.name).rnr_events;
  }
  return events;
}

}  // namespace mesh::sim
