#pragma once
// An engine made of pointers. It moves no data, but remembers every argument and returns the
// results that the test has scripted. Thread: any; locks.

#include "tests/prelude.h"

#include <mesh/channel.h>
#include <mesh/engine.h>

namespace mesh {

class Context {
 public:
  int traffic_class = kAuto;
};

class Listener {
 public:
  Context* context = nullptr;
  int rail = -1;
};

class Channel {
 public:
  Context* context = nullptr;
  int rail = -1;
};

class Request {
 public:
  std::size_t bytes = 0;
  std::size_t members = 0;  // 0: not a group
};

class Registration {
 public:
  void* data = nullptr;
  std::size_t bytes = 0;
};

namespace fake {

// The script (the results of calls) and the record (the arguments of calls), reset between tests.
struct State {
  std::mutex mutex;

  std::vector<RailInfo> rails;
  Errc open_answer = Errc::Ok;
  Errc context_answer = Errc::Ok;
  Errc listen_answer = Errc::Ok;
  Errc connect_answer = Errc::Ok;
  Errc accept_answer = Errc::Ok;
  Errc isend_answer = Errc::Ok;
  Errc irecv_answer = Errc::Ok;
  Errc test_answer = Errc::Ok;
  Errc register_answer = Errc::Ok;
  std::string no_rdma;          // why there is no libibverbs; empty: there is one
  bool throws = false;          // listen throws
  bool context_throws = false;  // open_context throws
  bool host_name_throws = false;
  // Called, without the mutex, before a call that a device may hold up: "engine opens", "engine
  // closes", "context opens", "context closes".
  std::function<void(const std::string& call)> device;
  std::function<bool()> carries;         // says whether the engine carries for others; null: no
  std::function<void()> saying_goodbye;  // called by the engine's end(), which waits for it
  std::size_t bytes_tested = 0;          // the bytes that test() reports

  int engines_opened = 0, engines_alive = 0, goodbyes = 0;
  int contexts_alive = 0, listeners_alive = 0, channels_alive = 0, registrations_alive = 0;
  std::vector<int> traffic_classes;
  std::vector<std::thread::id> context_threads;
  std::vector<Channel*> channels;
  std::vector<Listener*> listeners;
  std::vector<std::string> calls;  // in the order of calls
  int rail = -1;
  HandleBytes handle_seen{};
  Context* context_seen = nullptr;
  SendArgs sent{};
  RecvArgs received{};
  std::vector<RecvArgs> group;  // the members of the last group
  RecvArgs flushed{};
  Channel* channel_seen = nullptr;
  MemoryRange registered;
  std::vector<Posted> posted;  // result of the next read of a PostedReader
  const Request* last_send = nullptr;
};

State& state();
void call_device(const std::string& call);
void reset();
RailInfo rail(const std::string& name);

}  // namespace fake
}  // namespace mesh
