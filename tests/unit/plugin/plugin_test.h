#pragma once
// The base of the plugin's tests: a new fake engine before each test, and nothing left open after
// it.
// Thread: the test's.

#include "plugin/registry.h"
#include "tests/prelude.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/plugin/any_net.h"
#include "tests/unit/plugin/fake_engine.h"

namespace mesh::plugin {

// NCCL's logger, which a test reads.
class LogCatcher {
 public:
  using Line = std::pair<ncclDebugLogLevel, std::string>;

  // NOLINTNEXTLINE(readability-function-size): NCCL's signature
  static void log(ncclDebugLogLevel level, unsigned long subsystems, const char*, int,
                  const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const std::lock_guard lock(caught().mutex);
    caught().lines.emplace_back(level, text);
    caught().subsystems[text] = subsystems;
  }
  static void clear() {
    const std::lock_guard lock(caught().mutex);
    caught().lines.clear();
    caught().subsystems.clear();
  }
  static unsigned long subsystems_of(const std::string& text) {  // 0: no such line
    const std::lock_guard lock(caught().mutex);
    const auto found = caught().subsystems.find(text);
    return found == caught().subsystems.end() ? 0 : found->second;
  }
  static std::vector<Line> lines(ncclDebugLogLevel level) {
    const std::lock_guard lock(caught().mutex);
    std::vector<Line> found;
    for (const Line& line : caught().lines) {
      if (line.first == level) found.push_back(line);
    }
    return found;
  }

 private:
  struct Caught {
    std::mutex mutex;
    std::vector<Line> lines;
    std::map<std::string, unsigned long> subsystems;  // keyed by text
  };
  static Caught& caught() {
    static Caught* const only = new Caught;
    return *only;
  }
};

class PluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    LogCatcher::clear();
  }
  // Ends the process's objects as at exit, also what v5..v10 keep, unless a test left a comm open.
  void TearDown() override {
    Registry::instance().process_exits();
    EXPECT_EQ(fake::state().channels_alive, 0);
    EXPECT_EQ(fake::state().listeners_alive, 0);
    EXPECT_EQ(fake::state().registrations_alive, 0);
    EXPECT_EQ(fake::state().contexts_alive, 0);
    EXPECT_EQ(fake::state().engines_alive, 0);
  }
  static fake::State& state() { return fake::state(); }
  // Returns true when all engines have ended, which they may do behind finalize.
  static bool all_engines_end() {
    return testkit::wait_until([] {
      const std::lock_guard lock(state().mutex);
      return state().engines_alive == 0;
    });
  }
};

// Has an AnyNet for each version.
class VersionsTest : public PluginTest {
 protected:
  void* init(const AnyNet& net, int traffic_class = NCCL_NET_TRAFFIC_CLASS_UNDEF) {
    void* context = nullptr;
    EXPECT_EQ(net.init(LogCatcher::log, traffic_class, &context), ncclSuccess);
    return context;
  }
  const std::vector<AnyNet> nets_ = every_net();
  const AnyNet& net(int version) const { return nets_[static_cast<std::size_t>(version - 5)]; }
};

struct Connected {
  void* listen = nullptr;
  void* send = nullptr;
  void* recv = nullptr;
};

inline Connected connect_to_self(const AnyNet& net, void* context) {
  Connected made;
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  EXPECT_EQ(net.listen({context, 0}, handle.data(), &made.listen), ncclSuccess);
  EXPECT_EQ(net.connect({context, 0}, handle.data(), &made.send), ncclSuccess);
  EXPECT_EQ(net.accept(made.listen, &made.recv), ncclSuccess);
  return made;
}

inline void close_all(const AnyNet& net, const Connected& made) {
  EXPECT_EQ(net.close_listen(made.listen), ncclSuccess);
  EXPECT_EQ(net.close_send(made.send), ncclSuccess);
  EXPECT_EQ(net.close_recv(made.recv), ncclSuccess);
}

}  // namespace mesh::plugin
