// Ends of a cable that cannot work. Without a word they would connect, and all messages would be
// lost.
#include "tests/e2e/line.h"

#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

const Scenario kFirstMessageFails("unfit_ends", expect_first_messages_to_fail);

struct Told {
  std::string remedy, ends;
};

// Runs the hosts of a fabric. Each rank must give the remedy, and name the ends.
void expect_named(const std::string& hosts_and_links, const Told& told,
                  std::vector<std::pair<std::string, std::string>> environment) {
  const std::vector<RankEnd> ranks =
      run(kFirstMessageFails, {.fabric_text = R"({"name": "unfit", )" + hosts_and_links + "}",
                               .software_only = "its ports are those of a software fabric",
                               .environment = std::move(environment)});
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    const std::string log = unbroken(rank.output);
    EXPECT_NE(
        log.find(told.remedy + ": hosts a and b share a subnet and cannot meet: rail " + told.ends),
        std::string::npos)
        << rank.output;
  }
}

TEST(UnfitEnds, TwoRoceVersionsAreNamedOnBothSides) {
  // Index 4 is of RoCE v1 on the first NIC of a host, and of none on the second.
  expect_named(
      R"("hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
      {"name": "b", "nics": [{"name": "spare", "address": "10.7.0.1/24"},
                             {"name": "n0", "address": "10.0.0.2/24"}]}],
      "links": [{"ends": ["a/n0", "b/n0"]}])",
      {"no path leads to it: set NCCL_IB_ROCE_VERSION_NUM alike, or unset NCCL_IB_GID_INDEX",
       "n0:1 of host a sends RoCE v1 (10.0.0.1) and rail n0:1 of host b RoCE v2 "
       "(10.0.0.2), which do not understand each other"},
      {{"NCCL_IB_GID_INDEX", "4"}, {"NCCL_MESH_RELAY", "0"}});
}

TEST(UnfitEnds, TwoPartitionsAreNamedOnBothSides) {
  expect_named(R"("hosts": [
      {"name": "a", "nics": [{"name": "ib0", "address": "fec0:0:0:1::a/64",
        "layer": "infiniband", "pkeys": ["0xffff", "0x8001"]}]},
      {"name": "b", "nics": [{"name": "ib0", "address": "fec0:0:0:1::b/64",
        "layer": "infiniband", "pkeys": ["0x8001", "0xffff"]}]}],
      "links": [{"switch": ["a/ib0", "b/ib0"]}])",
               {"no path leads to it: set NCCL_IB_PKEY_VALUE to a partition of both ports",
                "ib0:1 of host a has the partition key 0xffff and rail ib0:1 of host b 0x8001, so "
                "no packet passes"},
               {{"NCCL_MESH_RELAY", "0"}});
}

}  // namespace
}  // namespace mesh::e2e
