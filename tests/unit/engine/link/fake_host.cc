#include "tests/unit/engine/link/fake_host.h"

#include "src/base/log.h"
#include "src/base/random.h"
#include "src/verbs/discovery.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::testkit {
namespace {
engine::FrameHeader header_of(const engine::Bytes& frame) {
  std::uint16_t version = 0;
  return engine::decode_header(frame.data(), frame.size(), &version).value();
}

void deliver(const FakePlane::Sent& sent, FakeHost& to) {
  const std::span<const std::byte> body(sent.frame.data() + engine::kFrameHeaderBytes,
                                        sent.frame.size() - engine::kFrameHeaderBytes);
  to.reception.on_frame(sent.connection, header_of(sent.frame), body);
}

void carry_frames(FakeHost& from, FakeHost& to) {
  std::deque<FakePlane::Sent> said;
  said.swap(from.wire.said);
  for (const FakePlane::Sent& each : said) deliver(each, to);
}
}  // namespace

FakeHost::FakeHost(const soft::FabricFile& fabric, const std::string& name,
                   const std::atomic<std::uint64_t>& clock)
    : clock_(clock) {
  provider = open_host(
      {.fabric = fabric, .host = name, .agent = soft::Agent::None, .clock = Clock(&clock)});
  settled.provider = provider.get();
  settled.threading = Threading::Manual;
  settled.settings.rails = "all";
  auto rails = verbs::discover(*provider, settled.settings);
  if (!rails.ok()) throw std::runtime_error("no rails for " + name);
  found = std::move(*rails);
  auto context = std::make_unique<Context>(ContextOptions{}, *this);
  context->id = random_id();
  std::vector<engine::DeviceContext*> devices;
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    context->loop.devices.push_back(
        std::make_unique<engine::DeviceContext>(*provider, found[i], i));
    if (!context->loop.devices.back()->open().ok()) throw std::runtime_error("no device context");
    devices.push_back(context->loop.devices.back().get());
  }
  context->registrations = std::make_unique<engine::RegistrationTable>(
      std::move(devices), settled.settings, settled.policy.inline_bytes);
  context->loop.registrations = context->registrations.get();
  context->loop.flusher = std::make_unique<engine::Flusher>(found.size(), settled.settings);
  contexts.push_back(std::move(context));
}

FakeHost::~FakeHost() {
  for (const auto& context : contexts) context->cut_links();
}

TwoEnds::TwoEnds(const char* fabric, engine::RailsWish wish)
    : fabric_(parsed(fabric)), a(fabric_, "a", clock_), b(fabric_, "b", clock_) {
  set_log_level(LogLevel::Warn);
  auto made = std::make_unique<Listener>();
  made->context = b.contexts[0].get();
  made->nonce = random_id();
  connect.context = a.contexts[0].get();
  connect.listener = made->nonce;
  connect.asked = {.wish = wish};
  b.contexts[0]->listeners.push_back(std::move(made));
  engine::Link& link = a.contexts[0]->add_connector(b.contexts[0]->id, connect.asked);
  link.port = {.addresses = {*SocketAddress::from_text("127.0.0.2")}, .port = 4711};
  connect.link = &link;
  link.waiting.push_back(&connect);
}

void TwoEnds::dial() {
  sender().dial_all();
  a.reception.on_dialed(sender().connection());
}

bool TwoEnds::carry() {
  if (a.wire.said.empty() && b.wire.said.empty()) return false;
  carry_frames(a, b);
  carry_frames(b, a);
  return true;
}

void TwoEnds::carry_one() {
  const FakePlane::Sent first = std::move(a.wire.said.front());
  a.wire.said.pop_front();
  deliver(first, b);
}

void TwoEnds::carry_all() {
  constexpr int kRoundsMax = 1000;
  for (int round = 0; round < kRoundsMax; ++round) {
    const bool carried = carry();
    turn();
    const bool a_soon = a.links.tend();
    const bool soon = b.links.tend() || a_soon;
    if (!carried && !soon && a.wire.said.empty() && b.wire.said.empty()) return;
  }
}

void TwoEnds::come_up() {
  dial();
  carry_all();
}

void TwoEnds::turn() {
  for (FakeHost* const host : {&a, &b}) {
    host->provider->turn();
    for (const auto& context : host->contexts) context->loop.try_turn();
  }
}

int count_said(const FakeHost& host, engine::MessageType type) {
  const std::vector<engine::MessageType> types = host.wire.types();
  return static_cast<int>(std::count(types.begin(), types.end(), type));
}

engine::PathState state_of(engine::Link& link, std::uint32_t path) {
  return link.peer_link().paths()[path].health.state;
}

void lose_path(engine::Link& link, std::uint32_t path) {
  const engine::ProgressLoop::Guard guard(link.context().loop);
  link.peer_link().quarantine(link.peer_link().paths()[path], "pulled");
}

}  // namespace mesh::testkit
