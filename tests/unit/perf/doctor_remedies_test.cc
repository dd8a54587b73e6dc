// The remedies of mesh_doctor for ports that are no rails.
#include "perf/mesh_doctor/checks.h"
#include "tests/unit/perf/planted_host.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mesh::doctor {
namespace {

using Names = std::vector<std::string>;

// "Bring a port up" helps nobody whose device has no memory or speaks another protocol.
TEST(DoctorFacts, WithoutARailTheRemedyFitsWhatTheDeviceSaid) {
  struct Case {
    RefusalKind kind;
    const char* remedy;
  };
  const std::vector<Case> cases{{RefusalKind::NoMemory, "ulimit -l"},
                                {RefusalKind::IWarp, "Switch the card to RoCE"},
                                {RefusalKind::Limited, "Use another card"},
                                {RefusalKind::NoPartition, "NCCL_IB_PKEY"},
                                {RefusalKind::NoAddress, "give it an address"},
                                {RefusalKind::Down, "Bring the port up"},
                                {RefusalKind::LeftOut, "NCCL_IB_HCA"},
                                {RefusalKind::Unusable, "dmesg"}};
  for (const Case& each : cases) {
    const PlantedHost host;
    host.remove_cards();
    HostFacts facts = host.facts();
    facts.refused = {{.port = "mlx5_0:1", .kind = each.kind, .reason = "says why"},
                     {.port = "mlx5_1:1", .kind = each.kind, .reason = "says why"}};
    facts.notes = {"no usable rail on spark1: mlx5_0:1 says why, mlx5_1:1 says why"};
    const std::vector<Finding> found = check_host(facts);
    ASSERT_EQ(names_of(found), Names{"no-rail"});
    EXPECT_EQ(found[0].evidence, facts.notes.front());
    EXPECT_NE(found[0].remedy.find(each.remedy), std::string::npos) << found[0].remedy;
    EXPECT_EQ(found[0].remedy, remedy_of(each.kind)) << "once";
    for (const Case& other : cases) {
      if (other.kind == each.kind) continue;
      EXPECT_NE(found[0].remedy, remedy_of(other.kind));
    }
  }
}

}  // namespace
}  // namespace mesh::doctor
