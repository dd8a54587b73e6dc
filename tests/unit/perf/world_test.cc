#include "perf/driver/world.h"

#include "tests/prelude.h"

namespace mesh::driver {
namespace {

const World kNoFlags;

std::string refusal(const World& flags, const Environment& environment) {
  std::string why;
  EXPECT_FALSE(find_world(flags, environment, why).ok());
  return why;
}

World found(const World& flags, const Environment& environment) {
  std::string why;
  auto world = find_world(flags, environment, why);
  EXPECT_TRUE(world.ok()) << why;
  return world.ok() ? *world : World{};
}

TEST(World, WithoutARendezvousNothingElseIsLookedAt) {
  EXPECT_TRUE(found(kNoFlags, {{"RANK", "nonsense"}, {"SLURM_PROCID", "0"}}).rendezvous.empty());
}

TEST(World, EachLauncherIsUnderstood) {
  struct Case {
    const char* rank;
    const char* size;
    const char* local_rank;
    const char* local_size = "";  // the launcher has none
  };
  for (const Case& launcher : {Case{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                               Case{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                               Case{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                               Case{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}) {
    Environment environment{
        {"MESH_RENDEZVOUS", "host0:29500"}, {launcher.rank, "2"}, {launcher.size, "6"}};
    EXPECT_EQ(found(kNoFlags, environment).local_rank, 0);
    EXPECT_EQ(found(kNoFlags, environment).local_size, 0) << "nobody tells";
    const bool tells = launcher.local_size[0] != '\0';
    environment[launcher.local_rank] = "1";
    if (tells) environment[launcher.local_size] = "2";
    const World world = found(kNoFlags, environment);
    EXPECT_EQ(world.rank, 2) << launcher.rank;
    EXPECT_EQ(world.size, 6) << launcher.rank;
    EXPECT_EQ(world.local_rank, 1) << launcher.rank;
    EXPECT_EQ(world.local_size, tells ? 2 : 0) << launcher.rank;
    EXPECT_EQ(world.rendezvous, "host0:29500");
  }
}

TEST(World, FlagsComeBeforeVariablesAndExplicitOnesBeforeALaunchers) {
  Environment environment{{"MESH_RENDEZVOUS", "a:1"},
                          {"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"PMI_RANK", "4"},
                          {"PMI_SIZE", "5"}};
  EXPECT_EQ(found(kNoFlags, environment).size, 2);
  environment.insert({{"RANK", "6"}, {"WORLD_SIZE", "7"}});
  EXPECT_EQ(found(kNoFlags, environment).size, 7);
  const World world = found({.rank = 8, .size = 9, .rendezvous = "[fe80::1]:22"}, environment);
  EXPECT_EQ(world.rank, 8);
  EXPECT_EQ(world.size, 9);
  EXPECT_EQ(world.rendezvous, "[fe80::1]:22");
}

TEST(World, MistakesAreNamed) {
  EXPECT_EQ(refusal(kNoFlags, {{"MESH_RENDEZVOUS", "a:1"}, {"RANK", "0"}}),
            "RANK is given, WORLD_SIZE is not");
  EXPECT_EQ(refusal(kNoFlags, {{"MESH_RENDEZVOUS", "a:1"}, {"PMI_SIZE", "2"}}),
            "PMI_SIZE is given, PMI_RANK is not");
  EXPECT_EQ(refusal(kNoFlags, {{"MESH_RENDEZVOUS", "a:1"}, {"RANK", "0"}, {"WORLD_SIZE", "257"}}),
            "WORLD_SIZE: '257' is not usable; wanted: 1..256");
  EXPECT_EQ(refusal(kNoFlags, {{"MESH_RENDEZVOUS", "a:1"}, {"RANK", "3"}, {"WORLD_SIZE", "3"}}),
            "RANK: '3' is not usable; wanted: 0..2 (WORLD_SIZE is 3)");
  Environment local{{"MESH_RENDEZVOUS", "a:1"}, {"RANK", "0"}, {"WORLD_SIZE", "4"}};
  local["LOCAL_WORLD_SIZE"] = "5";
  EXPECT_EQ(refusal(kNoFlags, local), "LOCAL_WORLD_SIZE: '5' is not usable; wanted: 1..4");
  local["LOCAL_WORLD_SIZE"] = local["LOCAL_RANK"] = "2";
  EXPECT_EQ(refusal(kNoFlags, local), "LOCAL_RANK: '2' is not usable; wanted: 0..1");
  EXPECT_NE(refusal(kNoFlags, {{"MESH_RENDEZVOUS", "a:1"}}).find("without a rank"),
            std::string::npos);
  EXPECT_NE(refusal({.rank = 1, .size = 2, .rendezvous = {}}, {}).find("without a rendezvous"),
            std::string::npos);
}

TEST(World, ARendezvousIsAHostAndAPort) {
  for (const char* text : {"host0", "host0:", "host0:0", "host0:65536", ":29500", "fe80::1:29500",
                           "[fe80::1]", "host0:x"}) {
    const std::string why = refusal({.rank = 0, .size = 1, .rendezvous = text}, {});
    EXPECT_EQ(why.find(std::string("MESH_RENDEZVOUS: '").append(text).append("' is not usable")),
              0u)
        << why;
  }
  for (const char* text : {"host0:29500", "10.0.0.1:1", "[fe80::1%eth0]:65535"}) {
    EXPECT_EQ(found({.rank = 0, .size = 1, .rendezvous = text}, {}).rendezvous, text);
  }
}

}  // namespace
}  // namespace mesh::driver
