#include "tests/unit/plugin/fake_engine.h"

#include <mesh/snapshot.h>

#include "plugin/provider.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh {

namespace fake {

State& state() {
  static State* const only = new State;
  return *only;
}

RailInfo rail(const std::string& name) {
  RailInfo info;
  info.name = name;
  info.device = name;
  info.port = 1;
  info.pci_path = "/sys/devices/pci0000:00/0000:01:00.0";
  info.guid = 0x1122334455667788;
  info.speed_mbps = 200000;
  info.mtu = 4096;
  return info;
}

void call_device(const std::string& call) {
  std::function<void(const std::string&)> hook;
  {
    const std::lock_guard lock(state().mutex);
    hook = state().device;
  }
  if (hook) hook(call);
}

// The engine of the process may still exist (v5..v10 keep it), so its counts stay.
void reset() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.rails = {rail("fake0:1"), rail("fake1:1")};
  s.open_answer = s.context_answer = s.listen_answer = s.connect_answer = s.accept_answer =
      Errc::Ok;
  s.isend_answer = s.irecv_answer = s.test_answer = s.register_answer = Errc::Ok;
  s.throws = s.context_throws = s.host_name_throws = false;
  s.device = nullptr;
  s.bytes_tested = 0;
  s.carries = nullptr;
  s.saying_goodbye = nullptr;
  s.traffic_classes.clear();
  s.context_threads.clear();
  s.calls.clear();
  s.rail = -1;
  s.handle_seen = {};
  s.context_seen = nullptr;
  s.sent = {};
  s.received = {};
  s.channel_seen = nullptr;
  s.registered = {};
  s.posted.clear();
}

namespace {

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(std::vector<RailInfo> rails) : rails_(std::move(rails)) {}
  ~FakeEngine() override {
    call_device("engine closes");
    const std::lock_guard lock(state().mutex);
    --state().engines_alive;
    state().calls.emplace_back("engine closed");
  }

  std::span<const RailInfo> rails() const noexcept override { return rails_; }
  void end() noexcept override {
    if (const std::function<void()> goodbye = saying_goodbye(); goodbye) goodbye();
    const std::lock_guard lock(state().mutex);
    ++state().goodbyes;
  }
  EngineStats stats() const override { return {}; }
  EngineSnapshot snapshot() const override { return {}; }

  Result<Context*> open_context(const ContextOptions& options) override {
    call_device("context opens");
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.context_throws) throw std::bad_alloc();
    if (s.context_answer != Errc::Ok) return s.context_answer;
    s.traffic_classes.push_back(options.traffic_class);
    s.context_threads.push_back(std::this_thread::get_id());
    ++s.contexts_alive;
    auto* const context = new Context;
    context->traffic_class = options.traffic_class;
    return context;
  }
  // Closes everything that is open in the context, as the engine does.
  void close_context(Context* context) noexcept override {
    call_device("context closes");
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.channels_alive -= end_all_of(*context, s.channels);
    s.listeners_alive -= end_all_of(*context, s.listeners);
    --s.contexts_alive;
    s.calls.emplace_back("context closed");
    delete context;
  }

  void set_traffic_class(Context& context, int traffic_class) override {
    const std::lock_guard lock(state().mutex);
    context.traffic_class = traffic_class;
    state().calls.emplace_back("traffic class " + std::to_string(traffic_class));
  }
  bool waits_for_peers() const override { return static_cast<bool>(saying_goodbye()); }
  bool carries_for_others() const override {
    std::function<bool()> carries;
    {
      const std::lock_guard lock(state().mutex);
      carries = state().carries;
    }
    return carries && carries();
  }
  void exit_process() noexcept override {
    const std::lock_guard lock(state().mutex);
    state().calls.emplace_back("process exits");
  }

  Result<Listener*> listen(Context& context, int rail, HandleBytes& handle) override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.throws) throw std::runtime_error("no memory left");
    s.rail = rail;
    s.context_seen = &context;
    if (s.listen_answer != Errc::Ok) return s.listen_answer;
    for (std::size_t i = 0; i < handle.size(); ++i) handle[i] = static_cast<std::byte>(i ^ 0x5a);
    ++s.listeners_alive;
    auto* const listener = new Listener;
    listener->context = &context;
    listener->rail = rail;
    s.listeners.push_back(listener);
    return listener;
  }
  void close_listener(Listener* listener) noexcept override {
    const std::lock_guard lock(state().mutex);
    if (std::erase(state().listeners, listener) != 1)
      std::abort();  // the engine would crash too, sooner or later
    --state().listeners_alive;
    state().calls.emplace_back("listener closed");
    delete listener;
  }

  Result<Channel*> connect(Context& context, int rail, HandleBytes& handle) override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.rail = rail;
    s.context_seen = &context;
    s.handle_seen = handle;
    // Advances the stage.
    handle.back() = static_cast<std::byte>(static_cast<int>(handle.back()) + 1);
    if (s.connect_answer != Errc::Ok) return s.connect_answer;
    return make_channel(&context, rail);
  }
  Result<Channel*> accept(Listener& listener) override {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.accept_answer != Errc::Ok) return s.accept_answer;
    return make_channel(listener.context, listener.rail);
  }

  bool poll_loop(Context&) override { return false; }
  bool poll_control() override { return false; }

 private:
  template <typename Things>
  static int end_all_of(const Context& context, Things& things) {
    return static_cast<int>(std::erase_if(things, [&context](const auto* each) {
      if (each->context != &context) return false;
      delete each;
      return true;
    }));
  }

  static std::function<void()> saying_goodbye() {
    const std::lock_guard lock(state().mutex);
    return state().saying_goodbye;
  }
  static Channel* make_channel(Context* context, int rail) {
    ++state().channels_alive;
    auto* const channel = new Channel;
    channel->context = context;
    channel->rail = rail;
    state().channels.push_back(channel);
    return channel;
  }

  std::vector<RailInfo> rails_;
};

}  // namespace
}  // namespace fake

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions&) {
  fake::call_device("engine opens");
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  if (s.open_answer != Errc::Ok) return s.open_answer;
  ++s.engines_opened;
  ++s.engines_alive;
  return std::unique_ptr<Engine>(std::make_unique<fake::FakeEngine>(s.rails));
}

namespace {
// Requests that NCCL leaves open end with their comm in the engine, and at exit here.
std::vector<std::unique_ptr<Request>>& open_requests() {
  static std::vector<std::unique_ptr<Request>> open;
  return open;
}
Request* make_request(const Request& as) {
  return open_requests().emplace_back(std::make_unique<Request>(as)).get();
}
void end_request(const Request& request) {
  std::erase_if(open_requests(), [&request](const auto& each) { return each.get() == &request; });
}
}  // namespace

Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  s.channel_seen = &channel;
  s.sent = args;
  if (s.isend_answer != Errc::Ok) return s.isend_answer;
  Request* const request = make_request({.bytes = args.bytes});
  s.last_send = request;
  return request;
}

Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  s.channel_seen = &channel;
  s.received = args;
  if (s.irecv_answer != Errc::Ok) return s.irecv_answer;
  return make_request({.bytes = args.bytes});
}

Result<Request*> irecv_group(Channel& channel, const RecvGroup& members) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  s.channel_seen = &channel;
  s.group.clear();
  for (std::size_t i = 0; i < members.count; ++i) {
    s.group.push_back({.data = members.data[i],
                       .bytes = members.bytes[i],
                       .tag = static_cast<std::uint32_t>(members.tags[i]),
                       .region = static_cast<Registration*>(members.regions[i])});
  }
  if (s.irecv_answer != Errc::Ok) return s.irecv_answer;
  return make_request({.bytes = 0, .members = members.count});
}

// The size of a member is its tag.
Result<std::size_t> test_group(Request& request, std::span<int> bytes) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  const std::size_t members = request.members;
  if (members == 0) return Errc::InvalidArgument;
  if (s.test_answer == Errc::WouldBlock) return Errc::WouldBlock;
  for (std::size_t i = 0; i < members && i < bytes.size(); ++i)
    bytes[i] = static_cast<int>(s.group[i].tag);
  end_request(request);
  if (s.test_answer != Errc::Ok) return s.test_answer;
  return members;
}

bool needs_flush(const RecvArgs& args) noexcept { return args.region != nullptr; }
bool is_relayed(const Channel&) noexcept { return false; }

Result<Request*> flush(Channel&, const RecvArgs& args) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  s.flushed = args;
  return make_request({});
}

// Leaves every answer to test(), whose answer a test sets.
bool test_done(Request&, std::size_t*) noexcept { return false; }

Status test(Request& request, std::size_t* bytes) noexcept {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  if (request.members != 0) return Errc::InvalidArgument;
  if (s.test_answer == Errc::WouldBlock) return Errc::WouldBlock;
  if (bytes != nullptr) *bytes = s.bytes_tested != 0 ? s.bytes_tested : request.bytes;
  end_request(request);
  return s.test_answer;
}

namespace {
class ScriptedReader final : public PostedReader {
 public:
  std::size_t read(std::span<Posted> out) override {
    fake::State& s = fake::state();
    const std::lock_guard lock(s.mutex);
    const std::size_t count = std::min(out.size(), s.posted.size());
    std::copy_n(s.posted.begin(), count, out.begin());
    s.posted.erase(s.posted.begin(), s.posted.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  int rail() const override { return 0; }
};
}  // namespace

std::unique_ptr<PostedReader> PostedReader::of(Channel&) {
  return std::make_unique<ScriptedReader>();
}

Result<Registration*> register_memory(Channel& channel, const MemoryRange& range) {
  fake::State& s = fake::state();
  const std::lock_guard lock(s.mutex);
  s.channel_seen = &channel;
  s.registered = range;
  if (s.register_answer != Errc::Ok) return s.register_answer;
  ++s.registrations_alive;
  return new Registration{range.data, range.bytes};
}

void deregister_memory(Channel&, Registration* region) noexcept {
  const std::lock_guard lock(fake::state().mutex);
  --fake::state().registrations_alive;
  delete region;
}

void close(Channel* channel) noexcept {
  const std::lock_guard lock(fake::state().mutex);
  if (std::erase(fake::state().channels, channel) != 1) std::abort();
  --fake::state().channels_alive;
  fake::state().calls.emplace_back("channel closed");
  delete channel;
}

namespace plugin {

namespace {
class NoProvider : public verbs::testkit::FakeProvider {
 public:
  std::string host_name() const override {
    if (fake::state().host_name_throws) throw std::runtime_error("no name");
    return FakeProvider::host_name();
  }
};
}  // namespace

Result<std::unique_ptr<verbs::Provider>> open_provider(const Settings&, std::string* no_rdma) {
  if (!fake::state().no_rdma.empty()) {
    *no_rdma = fake::state().no_rdma;
    return Errc::NotFound;
  }
  return std::unique_ptr<verbs::Provider>(std::make_unique<NoProvider>());
}

}  // namespace plugin
}  // namespace mesh
