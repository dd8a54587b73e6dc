// For each errno value and each call of a device: the line that a user reads. It has the device's
// error and no other one, and it names a cause only where the error says so. With ERRNO_TABLE=1 the
// test prints the lines as a table.
#include "src/base/config.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/engine/sick_rail.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh {
namespace {

using testkit::Call, testkit::LogCapture;

// A device that answers one call with an error, from the moment that the test says.
class FailingDevice final : public testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;

  void fail(Call call, int error) {
    error_.store(error);
    call_.store(static_cast<int>(call));
  }

  ibv_context* open_device(const std::string& name) override {
    return fails(Call::OpenDevice) ? nullptr : PassingProvider::open_device(name);
  }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    return fails(Call::QueryDevice) ? errno : PassingProvider::query_device(context, attr);
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    return fails(Call::QueryPort) ? errno : PassingProvider::query_port(context, port, attr);
  }
  ibv_pd* alloc_pd(ibv_context* context) override {
    return fails(Call::AllocPd) ? nullptr : PassingProvider::alloc_pd(context);
  }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) override {
    return fails(Call::RegMr) ? nullptr : PassingProvider::reg_mr(pd, address, bytes, access);
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    return fails(Call::CreateCq) ? nullptr : PassingProvider::create_cq(context, entries);
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    return fails(Call::CreateQp) ? nullptr : PassingProvider::create_qp(pd, attr);
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override {
    const bool fail = (attr->qp_state == IBV_QPS_INIT && fails(Call::ModifyToInit)) ||
                      (attr->qp_state == IBV_QPS_RTR && fails(Call::ModifyToRtr)) ||
                      (attr->qp_state == IBV_QPS_RTS && fails(Call::ModifyToRts));
    return fail ? errno : PassingProvider::modify_qp(qp, attr, mask);
  }

 private:
  bool fails(Call call) {
    if (call_.load() != static_cast<int>(call)) return false;
    errno = error_.load();
    return true;
  }

  std::atomic<int> call_{-1}, error_{0};
};

struct Failure {
  const char* name;
  int value;
};
constexpr Failure kFailures[] = {
    {"ENOMEM", ENOMEM}, {"EPERM", EPERM},   {"EINVAL", EINVAL},         {"EIO", EIO},
    {"EAGAIN", EAGAIN}, {"EFAULT", EFAULT}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ENODEV", ENODEV}};

using Hosts = std::vector<testkit::EngineHost<FailingDevice>>;

std::unique_ptr<FailingDevice> device(std::size_t host) {
  return std::make_unique<FailingDevice>(testkit::open_host(testkit::kCable, host));
}

// Returns the only line that has the error's text, or all lines if not exactly one has it. A
// connector that dials again may log its line again.
std::string line_of(const LogCapture& log, int error) {
  std::set<std::string> found;
  for (const testkit::LoggedLine& line : log.all())
    if (line.text.find(std::strerror(error)) != std::string::npos) found.insert(line.text);
  return found.size() == 1 ? *found.begin()
                           : fmt::format("{} lines: {}", found.size(), log.joined());
}

void expect_line(const char* moment, Call call, const Failure& failure, const LogCapture& log) {
  const std::string line = line_of(log, failure.value);
  const std::string what = fmt::format("{}, {}, {}: {}", moment, name_of(call), failure.name, line);
  EXPECT_EQ(line.find("lines: "), std::string::npos) << what;
  const bool pins = call == Call::CreateCq || call == Call::CreateQp || call == Call::RegMr;
  EXPECT_EQ(line.find("ulimit -l") != std::string::npos, pins && failure.value == ENOMEM) << what;
  EXPECT_EQ(line.find("reachable"), std::string::npos) << what;
  for (const Failure& other : kFailures) {
    if (other.value == failure.value) continue;
    EXPECT_EQ(line.find(std::strerror(other.value)), std::string::npos) << what;
  }
  if (process_environment().contains("ERRNO_TABLE"))
    std::printf("| %s | %s | %s | %s |\n", moment, name_of(call), failure.name, line.c_str());
}

TEST(DeviceErrors, AtInitTheLineHasTheDevicesError) {
  set_log_level(LogLevel::Info);
  for (const Call call : {Call::OpenDevice, Call::QueryDevice, Call::QueryPort, Call::AllocPd,
                          Call::CreateCq, Call::CreateQp}) {
    for (const Failure& failure : kFailures) {
      const LogCapture log;
      auto sick = device(0);
      sick->fail(call, failure.value);
      testkit::EngineHost<FailingDevice> host;
      EXPECT_THROW(host.open(std::move(sick), testkit::on_loopback(1)), std::runtime_error);
      expect_line("init", call, failure, log);
    }
  }
}

// Connects until one side has an error.
void connect_in_vain(Hosts& hosts) {
  HandleBytes handle{};
  Engine &from = *hosts[0].engine, &to = *hosts[1].engine;
  Listener* const listener = to.listen(*hosts[1].contexts[0], 0, handle).value();
  bool refused = false;
  Channel *send = nullptr, *receive = nullptr;
  EXPECT_TRUE(testkit::wait_until([&] {
    if (send == nullptr) {
      const Result<Channel*> made = from.connect(*hosts[0].contexts[0], 0, handle);
      refused |= !made.ok() && made.code() != Errc::WouldBlock;
      if (made.ok()) send = *made;
    }
    if (receive == nullptr && !refused) {
      const Result<Channel*> made = to.accept(*listener);
      refused |= !made.ok() && made.code() != Errc::WouldBlock;
      if (made.ok()) receive = *made;
    }
    return refused;
  }));
  to.close_listener(listener);
}

TEST(DeviceErrors, AtConnectTheLineHasTheDevicesError) {
  set_log_level(LogLevel::Info);
  for (const Call call : {Call::RegMr, Call::CreateCq, Call::CreateQp, Call::ModifyToInit,
                          Call::ModifyToRtr, Call::ModifyToRts}) {
    for (const Failure& failure : kFailures) {
      Hosts hosts(2);
      for (std::size_t i = 0; i < hosts.size(); ++i)
        hosts[i].open(device(i), testkit::on_loopback(1));
      hosts[0].provider->fail(call, failure.value);
      const LogCapture log;
      connect_in_vain(hosts);
      expect_line("connect", call, failure, log);
    }
  }
}

TEST(DeviceErrors, ARegistrationOfNcclsHasTheDevicesError) {
  set_log_level(LogLevel::Info);
  Hosts hosts(2);
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].open(device(i), testkit::on_loopback(1));
  const testkit::Pair pair = testkit::connect({*hosts[0].engine, *hosts[0].contexts[0]},
                                              {*hosts[1].engine, *hosts[1].contexts[0]});
  std::vector<std::byte> memory(4096);
  for (const Failure& failure : kFailures) {
    hosts[0].provider->fail(Call::RegMr, failure.value);
    const LogCapture log;
    EXPECT_FALSE(register_memory(*pair.send, memory.data(), memory.size(), MemoryType::Host).ok());
    expect_line("regMr", Call::RegMr, failure, log);
  }
}

}  // namespace
}  // namespace mesh
