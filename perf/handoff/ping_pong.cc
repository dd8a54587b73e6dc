#include "perf/handoff/ping_pong.h"

#include "src/base/clock.h"
#include "tuning/derive.h"

#include <sched.h>

#include <chrono>
#include <thread>

namespace mesh::perf {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{20};

// Acts as NCCL's progress thread: it makes a call, and yields the core if nothing moved.
template <typename Done>
bool turn_until(Done&& done) {
  const SteadyClock::time_point end = SteadyClock::now() + kPatience;
  for (std::uint32_t turns = 1; !done(); ++turns) {
    ::sched_yield();
    if (turns % 65536 == 0 && SteadyClock::now() > end) return false;
  }
  return true;
}

template <typename T>
bool made(const char* what, const Result<T>& result, std::string& why) {
  if (!result.ok()) why = std::string("no ") + what + ": " + errc_name(result.code());
  return result.ok();
}

}  // namespace

std::unique_ptr<HandoffPair> HandoffPair::open(const soft::FabricFile& fabric,
                                               const HandoffOptions& options, std::string& why) {
  std::unique_ptr<HandoffPair> pair(new HandoffPair(options));
  for (std::size_t i = 0; i < 2; ++i) {
    if (!pair->open_host(fabric, i, why)) return nullptr;
  }
  auto& [a, b] = pair->hosts_;
  const bool ready =
      pair->connect(a, b, why) && pair->connect(b, a, why) && pair->register_all(why);
  return ready ? std::move(pair) : nullptr;
}

bool HandoffPair::open_host(const soft::FabricFile& fabric, std::size_t index, std::string& why) {
  Host& host = hosts_[index];
  auto provider = soft::SoftProvider::open(
      {.fabric = fabric, .host = fabric.hosts[index].name, .clock = Clock()});
  if (!made("software fabric", provider, why)) return false;
  host.provider = std::move(*provider);
  EngineOptions options;
  options.settings.socket_ifname = "lo";
  options.settings.threads = options_.threads;
  options.settings.cpus = options_.cpus;
  options.choose_policy = [&](const FabricTraits& traits) {
    return tuning::derive_policy(traits, options.settings);
  };
  options.provider = host.provider.get();
  auto engine = Engine::open(options);
  if (!made("engine", engine, why)) return false;
  host.engine = std::move(*engine);
  const Result<Context*> context = host.engine->open_context({});
  host.context = context.value();
  return made("context", context, why);
}

bool HandoffPair::connect(Host& from, Host& to, std::string& why) {
  HandleBytes handle{};
  const Result<Listener*> listener = to.engine->listen(*to.context, 0, handle);
  if (!made("listener", listener, why)) return false;
  Errc failed = Errc::Ok;
  const bool in_time = turn_until([&] {
    if (from.send == nullptr) {
      const Result<Channel*> channel = from.engine->connect(*from.context, 0, handle);
      if (!channel.ok() && channel.code() != Errc::WouldBlock) failed = channel.code();
      from.send = channel.value();
    }
    if (to.receive == nullptr) to.receive = to.engine->accept(**listener).value();
    return failed != Errc::Ok || (from.send != nullptr && to.receive != nullptr);
  });
  to.engine->close_listener(*listener);
  if (!in_time || failed != Errc::Ok)
    why = std::string("no connection: ") + (in_time ? errc_name(failed) : "it took too long");
  return in_time && failed == Errc::Ok;
}

bool HandoffPair::register_all(std::string& why) {
  for (Host& host : hosts_) {
    host.memory.resize(2 * (4096 + options_.bytes));
    const auto sending =
        register_memory(*host.send, host.memory.data(), host.memory.size(), MemoryType::Host);
    const auto receiving =
        register_memory(*host.receive, host.memory.data(), host.memory.size(), MemoryType::Host);
    host.send_region = sending.value();
    host.receive_region = receiving.value();
    if (!sending.ok() || !receiving.ok()) why = "memory was not registered";
    if (!sending.ok() || !receiving.ok()) return false;
  }
  return true;
}

HandoffPair::~HandoffPair() {
  for (Host& host : hosts_) {
    if (host.send != nullptr) deregister_memory(*host.send, host.send_region);
    if (host.receive != nullptr) deregister_memory(*host.receive, host.receive_region);
    close(host.send);
    close(host.receive);
  }
  for (Host& host : hosts_) {
    if (host.engine != nullptr) host.engine->close_context(host.context);
  }
}

Request* HandoffPair::begin(Host& host, Side side) {
  Result<Request*> request = Errc::WouldBlock;
  const auto accepted = [&] {
    request = side == Side::Send
                  ? isend(*host.send, {.data = host.memory.data(),
                                       .bytes = options_.bytes,
                                       .tag = 0,
                                       .region = host.send_region})
                  : irecv(*host.receive, {.data = host.memory.data() + host.memory.size() / 2,
                                          .bytes = options_.bytes,
                                          .tag = 0,
                                          .region = host.receive_region});
    return request.code() != Errc::WouldBlock;
  };
  return turn_until(accepted) && request.ok() ? *request : nullptr;
}

bool HandoffPair::end(Request* request) {
  if (request == nullptr) return false;
  Status status = Errc::WouldBlock;
  const bool ended = turn_until([&] {
    status = test(*request, nullptr);
    return status.code() != Errc::WouldBlock;
  });
  return ended && status.ok();
}

// The next receive is always posted before its message is requested, as in NCCL.
bool HandoffPair::echo(std::size_t exchanges) {
  Request* receive = begin(hosts_[1], Side::Receive);
  for (std::size_t i = 0; i < exchanges; ++i) {
    if (!end(receive)) return false;
    receive = i + 1 < exchanges ? begin(hosts_[1], Side::Receive) : nullptr;
    if (!end(begin(hosts_[1], Side::Send))) return false;
  }
  return true;
}

bool HandoffPair::exchange_one(std::vector<double>& one_way_ns) {
  Request* const receive = begin(hosts_[0], Side::Receive);
  const SteadyClock::time_point start = SteadyClock::now();
  Request* const send = begin(hosts_[0], Side::Send);
  if (!end(receive)) return false;
  const std::chrono::duration<double, std::nano> there_and_back = SteadyClock::now() - start;
  if (!end(send)) return false;
  one_way_ns.push_back(there_and_back.count() / 2);
  return true;
}

std::vector<double> HandoffPair::run(std::size_t exchanges, std::string& why) {
  bool echoed = false;
  std::thread other([&] { echoed = echo(exchanges); });
  std::vector<double> one_way_ns;
  one_way_ns.reserve(exchanges);
  while (one_way_ns.size() < exchanges && exchange_one(one_way_ns)) {
  }
  other.join();
  if (echoed && one_way_ns.size() == exchanges) return one_way_ns;
  why = "a message did not arrive within 20 s";
  return {};
}

}  // namespace mesh::perf
