// Devices that grant less than they are asked for. Each is used as far as it goes, or is no rail at
// init; none is found out by the first connect.
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/soft/passing_provider.h"

namespace mesh {
namespace {

using testkit::LogCapture;

// The manner in which a device takes less. Telling: its attributes say so, and more is an error.
// Refusing: only the error says so. Clipping: it makes the object with less, and answers without an
// error.
enum class Manner : std::uint8_t { Telling, Refusing, Clipping };
struct Limits {
  std::uint32_t inline_bytes = 512;
  std::uint32_t elements = 4;
  std::uint32_t depth = 4096;
  int entries = 65536;
};

class MeagreDevice final : public testkit::PassingProvider {
 public:
  MeagreDevice(std::unique_ptr<soft::SoftProvider> under, const Limits& limits, Manner manner)
      : PassingProvider(std::move(under)), limits_(limits), manner_(manner) {}

  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    const int error = PassingProvider::query_device(context, attr);
    if (manner_ != Manner::Telling) return error;
    attr->max_sge = std::min(attr->max_sge, static_cast<int>(limits_.elements));
    attr->max_qp_wr = std::min(attr->max_qp_wr, static_cast<int>(limits_.depth));
    attr->max_cqe = std::min(attr->max_cqe, limits_.entries);
    return error;
  }
  ibv_cq* create_cq(ibv_context* context, int entries) override {
    if (entries > limits_.entries) return errno = EINVAL, nullptr;
    return PassingProvider::create_cq(context, entries);
  }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override {
    ibv_qp_cap& cap = attr->cap;
    const bool fits = cap.max_inline_data <= limits_.inline_bytes &&
                      cap.max_send_sge <= limits_.elements && cap.max_send_wr <= limits_.depth &&
                      cap.max_recv_wr <= limits_.depth;
    if (!fits && manner_ != Manner::Clipping) return errno = EINVAL, nullptr;
    cap.max_inline_data = std::min(cap.max_inline_data, limits_.inline_bytes);
    cap.max_send_sge = std::min(cap.max_send_sge, limits_.elements);
    cap.max_send_wr = std::min(cap.max_send_wr, limits_.depth);
    cap.max_recv_wr = std::min(cap.max_recv_wr, limits_.depth);
    const ibv_qp_cap granted = cap;
    ibv_qp* const made = PassingProvider::create_qp(pd, attr);
    cap = granted;  // the device under it may have rounded up
    return made;
  }

 private:
  const Limits limits_;
  const Manner manner_;
};

struct Case {
  const char* name;
  Limits limits;
  Manner manner;
  const char* refusal;  // empty: the device is used
  int relay = 1;
};

std::vector<Case> cases() {
  using enum Manner;
  return {
      {"inline 0 refusing", {.inline_bytes = 0}, Refusing, "with 64 bytes inline: Invalid"},
      {"inline 0 clipping", {.inline_bytes = 0}, Clipping, "grants 0 bytes inline, and 64 are"},
      {"inline 32 refusing", {.inline_bytes = 32}, Refusing, "with 64 bytes inline: Invalid"},
      {"inline 32 clipping", {.inline_bytes = 32}, Clipping, "grants 32 bytes inline, and 64 are"},
      {"inline 64 refusing", {.inline_bytes = 64}, Refusing, ""},
      {"inline 64 clipping", {.inline_bytes = 64}, Clipping, ""},
      {"inline 100 refusing", {.inline_bytes = 100}, Refusing, ""},
      {"inline 100 clipping", {.inline_bytes = 100}, Clipping, ""},
      {"1 element", {.elements = 1}, Telling, "takes 1 gather element in a work request"},
      {"1 element clipping", {.elements = 1}, Clipping, "grants 1 gather elements"},
      {"1 element without relays", {.elements = 1}, Telling, "", 0},
      {"2 elements", {.elements = 2}, Telling, ""},
      {"depth 8", {.depth = 8}, Telling, "takes 8 work requests in a queue, and 16 are needed"},
      {"depth 8 refusing", {.depth = 8}, Refusing, "reliable queue pair of 16 work requests"},
      {"depth 8 clipping", {.depth = 8}, Clipping, "grants 8 work requests in a queue"},
      {"depth 16", {.depth = 16}, Telling, ""},
      {"depth 16 refusing", {.depth = 16}, Refusing, ""},
      {"depth 16 clipping", {.depth = 16}, Clipping, ""},
      {"depth 100 refusing", {.depth = 100}, Refusing, ""},
      {"entries 31", {.entries = 31}, Telling, "takes 31 entries in a completion queue, and 32"},
      {"entries 31 refusing", {.entries = 31}, Refusing, "completion queue of 63 entries"},
      {"entries 32", {.entries = 32}, Telling, ""},
      {"entries 100 refusing", {.entries = 100}, Refusing, ""},
      {"entries 1000", {.entries = 1000}, Telling, ""},
  };
}

class DeviceGrants : public testing::TestWithParam<Case> {};

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

TEST_P(DeviceGrants, IsUsedOrRefusedAtInit) {
  const Case& wanted = GetParam();
  set_log_level(LogLevel::Info);
  const LogCapture log;
  EngineOptions options = testkit::on_loopback(1);
  options.settings.relay = wanted.relay;
  std::vector<testkit::EngineHost<MeagreDevice>> hosts(2);
  std::size_t opened = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    try {
      hosts[i].open(std::make_unique<MeagreDevice>(testkit::open_host(testkit::kCable, i),
                                                   wanted.limits, wanted.manner),
                    options);
      ++opened;
    } catch (const std::runtime_error&) {
    }
  }
  const std::string refusal = wanted.refusal;
  EXPECT_EQ(opened, refusal.empty() ? hosts.size() : 0u) << log.joined();
  EXPECT_NE(log.joined().find(refusal), std::string::npos) << log.joined();
  if (opened != hosts.size()) return;
  const testkit::Pair pair = testkit::connect({*hosts[0].engine, *hosts[0].contexts[0]},
                                              {*hosts[1].engine, *hosts[1].contexts[0]});
  testkit::exchange(pair, {8, 100, 4096, 1 << 20}, testkit::Leaves::Nothing);
  for (const testkit::LoggedLine& line : log.all())
    EXPECT_NE(line.level, LogLevel::Warn) << line.text;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceGrants, testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace mesh
