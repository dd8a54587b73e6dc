#pragma once
// A host with its own engine: provider, engine and communicators, made and ended in the one order
// that works. Several of them in one process form a test's cluster. Thread: one, of each call.
// Bounds: patience.h.

#include <mesh/engine.h>

#include "src/soft/soft_provider.h"
#include "tests/standard.h"
#include "tests/unit/engine/held_here.h"

namespace mesh::testkit {

struct Pair {
  Channel* send = nullptr;
  Channel* receive = nullptr;
};

// A communicator and its engine. Channels are over the rail.
struct Member {
  Engine& engine;
  Context& context;
  int rail = 0;
};

template <typename Provider = soft::SoftProvider>
struct EngineHost {
  EngineHost() = default;
  EngineHost(EngineHost&&) noexcept = default;
  EngineHost& operator=(EngineHost&&) = delete;
  ~EngineHost() { close(); }

  // Throws std::runtime_error.
  void open(std::unique_ptr<Provider> of, EngineOptions options, std::size_t communicators = 1) {
    provider = std::move(of);
    options.provider = provider.get();
    auto opened = Engine::open(options);
    if (!opened.ok())
      throw std::runtime_error(std::string("no engine: ") + errc_name(opened.code()));
    engine = std::move(*opened);
    for (std::size_t i = 0; i < communicators; ++i)
      contexts.push_back(engine->open_context({}).value());
  }
  Member member(std::size_t communicator = 0, int rail = 0) const {
    return {*engine, *contexts.at(communicator), rail};
  }
  // Closes the communicator. From here on only the engine may touch it.
  void close_context(std::size_t index) {
    Context* const context = std::exchange(contexts.at(index), nullptr);
    if (context != nullptr) engine->close_context(context);
  }
  void close() {
    if (engine == nullptr) return;
    for (std::size_t i = 0; i < contexts.size(); ++i) close_context(i);
    engine.reset();
  }

  std::unique_ptr<Provider> provider;
  std::unique_ptr<Engine> engine;
  std::vector<Context*> contexts;  // null: closed
};

// Opens the host with that index in the fabric file, in real time. Throws std::runtime_error.
std::unique_ptr<soft::SoftProvider> open_host(const char* fabric, std::size_t index);

// Returns options for an engine in real time with handshakes on loopback. Threads: its pollers.
EngineOptions on_loopback(int threads);

// Opens a channel and waits for both sides. `on_its_way` may change the handle before connect.
Pair connect(const Member& from, const Member& to,
             const std::function<void(HandleBytes&)>& on_its_way = {});

// The state in which exchange() leaves its receiving channel.
enum class Leaves : std::uint8_t { Nothing, ACredit };  // ACredit is revoked with its memory

// Sends messages of these sizes one after the other, in memory of their own, and waits for each.
void exchange(const Pair& pair, const std::vector<std::size_t>& sizes, Leaves leaves,
              std::byte value = std::byte{0x3c});

}  // namespace mesh::testkit
