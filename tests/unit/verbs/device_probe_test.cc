#include "src/verbs/device_probe.h"

#include "tests/prelude.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using testkit::FakeProvider;

// Probes the only kind of device that a provider has.
DeviceGrant probe(FakeProvider& provider, const DeviceWish& wish = {.depth = 256, .elements = 2}) {
  ibv_device_attr limits{};
  limits.max_qp_wr = provider.qp_wr_max;
  limits.max_cqe = provider.cqe_max;
  limits.max_sge = provider.sge_max;
  return probe_device(provider, nullptr, limits, wish);
}

TEST(DeviceProbe, FindsInlineByTryingAndLeavesNothingBehind) {
  struct Case {
    std::uint32_t device, found;
  };
  for (const Case& each : {Case{1024, 512}, Case{512, 512}, Case{511, 220}, Case{101, 96},
                           Case{64, 64}, Case{63, 0}}) {
    FakeProvider provider;
    provider.inline_bytes_max = each.device;
    const DeviceGrant grant = probe(provider);
    EXPECT_EQ(grant.inline_bytes, each.found) << each.device;
    EXPECT_EQ(grant.refusal.empty(), each.found != 0) << grant.refusal;
    EXPECT_EQ(provider.destroyed, each.found == 0 ? 2 : 3)
        << "queue pair, completion queue, protection domain";
  }
}

TEST(DeviceProbe, AsksForWhatTheEngineWillAsk) {
  FakeProvider provider;
  const DeviceGrant grant = probe(provider, {.depth = 1024, .elements = 2});
  EXPECT_EQ(grant.refusal, "");
  EXPECT_EQ(grant.depth_max, 32768) << "a path between sites is deeper than the settings say";
  EXPECT_EQ(grant.entries_max, 4194303);
  ASSERT_EQ(provider.asked.size(), 1u);
  EXPECT_EQ(provider.asked[0].max_send_wr, 1024u);
  EXPECT_EQ(provider.asked[0].max_recv_wr, 1024u);
  EXPECT_EQ(provider.asked[0].max_send_sge, 2u);
  Settings settings;
  settings.sq_depth = 64;
  settings.rq_depth = 512;
  EXPECT_EQ(device_wish(settings).depth, 512u);
  EXPECT_EQ(device_wish(settings).elements, 2u);
  settings.relay = 0;
  EXPECT_EQ(device_wish(settings).elements, 1u);
}

// A device tells its limits, or keeps them without a word.
TEST(DeviceProbe, ADeviceThatGrantsLessIsUsedOrRefusedWithBothNumbers) {
  struct Case {
    void (*spoil)(FakeProvider& provider);
    int depth;            // 0: refused
    std::uint32_t bytes;  // inline
    const char* refusal;
  };
  const std::vector<Case> cases{
      {[](FakeProvider& p) { p.grants.max_inline_data = 100; }, 32768, 100, ""},
      {[](FakeProvider& p) { p.grants.max_inline_data = 64; }, 32768, 64, ""},
      {[](FakeProvider& p) { p.grants.max_inline_data = 32; }, 0, 0,
       "grants 32 bytes inline, and 64 are needed"},
      {[](FakeProvider& p) { p.grants.max_inline_data = 0; }, 0, 0,
       "grants 0 bytes inline, and 64 are needed"},
      {[](FakeProvider& p) { p.qp_wr_max = 100; }, 100, 512, ""},
      {[](FakeProvider& p) { p.qp_wr_max = 15; }, 0, 0,
       "takes 15 work requests in a queue, and 16 are needed"},
      {[](FakeProvider& p) { p.depth_max = 100; }, 64, 512, ""},
      {[](FakeProvider& p) { p.depth_max = 15; }, 0, 0,
       "cannot create a reliable queue pair of 16 work requests with 64 bytes inline: Invalid "
       "argument"},
      {[](FakeProvider& p) { p.grants.max_send_wr = 40; }, 40, 512, ""},
      {[](FakeProvider& p) { p.grants.max_recv_wr = 8; }, 0, 0,
       "grants 8 work requests in a queue, and 16 are needed"},
      {[](FakeProvider& p) { p.cqe_max = 100; }, 50, 512, ""},
      {[](FakeProvider& p) { p.cqe_max = 31; }, 0, 0,
       "takes 31 entries in a completion queue, and 32 are needed"},
      {[](FakeProvider& p) { p.entries_max = 100; }, 31, 512, ""},
      {[](FakeProvider& p) { p.entries_max = 31; }, 0, 0,
       "cannot create a completion queue of 63 entries: Invalid argument"},
      {[](FakeProvider& p) { p.sge_max = 2; }, 32768, 512, ""},
      {[](FakeProvider& p) { p.sge_max = 1; }, 0, 0,
       "takes 1 gather element in a work request, and relays need 2 (NCCL_MESH_RELAY=0 turns them "
       "off)"},
      {[](FakeProvider& p) { p.grants.max_send_sge = 1; }, 0, 0,
       "grants 1 gather elements and 1 scatter elements in a work request, and 2 and 1 are "
       "needed"}};
  for (const Case& each : cases) {
    FakeProvider provider;
    each.spoil(provider);
    errno = ENOENT;  // of an earlier call
    const DeviceGrant grant = probe(provider);
    EXPECT_EQ(grant.refusal, each.refusal);
    if (each.depth == 0) continue;
    EXPECT_EQ(grant.depth_max, each.depth);
    EXPECT_EQ(grant.inline_bytes, each.bytes);
  }
}

TEST(DeviceProbe, OneElementIsEnoughWithoutRelays) {
  FakeProvider provider;
  provider.sge_max = 1;
  EXPECT_EQ(probe(provider, {.depth = 256, .elements = 1}).refusal, "");
  EXPECT_EQ(provider.asked[0].max_send_sge, 1u);
}

// A process that may lock no memory must not get shallow queues without a word.
TEST(DeviceProbe, WithoutMemoryNothingSmallerIsTried) {
  struct Case {
    int FakeProvider::*error;
    const char* refusal;
  };
  const std::vector<Case> cases{
      {&FakeProvider::cq_error, "cannot create a completion queue of 16383 entries: Cannot "},
      {&FakeProvider::qp_error, "cannot create a reliable queue pair of 256 work requests with "}};
  for (const Case& each : cases) {
    FakeProvider provider;
    provider.*each.error = ENOMEM;
    const DeviceGrant grant = probe(provider);
    EXPECT_TRUE(grant.refusal.starts_with(each.refusal)) << grant.refusal;
    EXPECT_NE(grant.refusal.find("ulimit -l"), std::string::npos) << grant.refusal;
    EXPECT_EQ(grant.kind, RefusalKind::NoMemory);
    for (const ibv_qp_cap& cap : provider.asked) EXPECT_EQ(cap.max_send_wr, 256u);
  }
}

TEST(DeviceProbe, EveryErrorIsToldAsItIs) {
  for (const int error : {EPERM, EINVAL, EIO, EAGAIN, EFAULT, EOPNOTSUPP, ENODEV}) {
    for (int FakeProvider::*call :
         {&FakeProvider::pd_error, &FakeProvider::cq_error, &FakeProvider::qp_error}) {
      FakeProvider provider;
      provider.*call = error;
      const DeviceGrant grant = probe(provider);
      EXPECT_TRUE(grant.refusal.ends_with(std::string(": ") + std::strerror(error)))
          << grant.refusal;
      EXPECT_EQ(grant.kind, RefusalKind::Unusable);
    }
  }
  FakeProvider provider;
  provider.pd_error = ENOMEM;
  EXPECT_EQ(probe(provider).refusal,
            std::string("cannot create a protection domain: ") + std::strerror(ENOMEM));
}

}  // namespace
}  // namespace mesh::verbs
