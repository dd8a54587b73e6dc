#include "src/base/setting_grammar.h"

#include "tests/prelude.h"

namespace mesh {
namespace {

TEST(NameRule, EmptyMatchesEverything) {
  for (const char* text : {"", "=", ","}) {
    EXPECT_TRUE(NameRule(text).matches("eth0")) << text;
    EXPECT_TRUE(NameRule(text).may_match("eth0")) << text;
  }
}

// As in NCCL, whose matchIfList takes an empty list for one that holds every name.
TEST(NameRule, ABareCaretLeavesOutEverything) {
  for (const char* text : {"^", "^=", "^,,"}) {
    EXPECT_FALSE(NameRule(text).matches("eth0", 1)) << text;
    EXPECT_FALSE(NameRule(text).may_match("eth0")) << text;
  }
}

TEST(NameRule, ListsPrefixes) {
  const NameRule rule("eth,ib1");
  EXPECT_TRUE(rule.matches("eth0"));
  EXPECT_TRUE(rule.matches("ib10"));
  EXPECT_FALSE(rule.matches("ib0"));
  EXPECT_FALSE(rule.matches("et"));
}

TEST(NameRule, EqualsSignComparesWholeNames) {
  const NameRule rule("=mlx5_1,mlx5_2");
  EXPECT_TRUE(rule.matches("mlx5_1"));
  EXPECT_TRUE(rule.matches("mlx5_2"));
  EXPECT_FALSE(rule.matches("mlx5_10"));
}

TEST(NameRule, CaretExcludes) {
  const NameRule rule("^docker,lo");
  EXPECT_TRUE(rule.excludes());
  EXPECT_FALSE(rule.matches("docker0"));
  EXPECT_FALSE(rule.matches("lo"));
  EXPECT_TRUE(rule.matches("eth0"));
}

TEST(NameRule, CaretAndEqualsExcludeExactly) {
  const NameRule rule("^=mlx5_1");
  EXPECT_FALSE(rule.matches("mlx5_1"));
  EXPECT_TRUE(rule.matches("mlx5_10"));
}

TEST(NameRule, PortTiesAnEntryToOnePort) {
  const NameRule rule("mlx5_0:2,mlx5_1");
  EXPECT_FALSE(rule.matches("mlx5_0", 1));
  EXPECT_TRUE(rule.matches("mlx5_0", 2));
  EXPECT_TRUE(rule.matches("mlx5_1", 1));
  EXPECT_TRUE(rule.may_match("mlx5_0"));
  EXPECT_FALSE(rule.may_match("mlx5_2"));
}

TEST(NameRule, ExcludingOnePortLeavesTheOther) {
  const NameRule rule("^mlx5_0:1");
  EXPECT_FALSE(rule.matches("mlx5_0", 1));
  EXPECT_TRUE(rule.matches("mlx5_0", 2));
  EXPECT_TRUE(rule.may_match("mlx5_0"));
  EXPECT_FALSE(NameRule("^mlx5_0").may_match("mlx5_0"));
}

// As in NCCL's parseStringList, the name ends at the first colon and atoi reads the rest.
TEST(NameRule, ColonEndsTheNameAndTextAfterItIsZero) {
  const NameRule rule("=eth0:x");
  EXPECT_FALSE(rule.matches("eth0:x"));
  EXPECT_FALSE(rule.matches("eth0", 1));
  EXPECT_TRUE(rule.matches("eth0"));  // an interface has no port
  EXPECT_TRUE(NameRule("mlx5_0:-1").matches("mlx5_0", 2));
}

struct Assigned {
  const char* rule;
  int port;
  int rail;
  int plane;
};

// The examples for NCCL_IB_HCA in NCCL's user guide, and cases that the guide leaves out.
TEST(NameRule, RailAndPlaneBelongToTheEntryThatNamesThePort) {
  for (const Assigned& each :
       {Assigned{"mlx5", 1, -1, -1}, Assigned{"=mlx5_0:1,mlx5_1:1", 1, -1, -1},
        Assigned{"=mlx5_0:1:0:0,mlx5_1:1:0:1", 1, 0, 0}, Assigned{"=mlx5_0::0:0", 2, 0, 0},
        Assigned{"mlx5_1:1:5:6,mlx5_0:2:3,mlx5_0:1:4:7", 1, 4, 7},
        Assigned{"mlx5_1,mlx5_0:::9", 2, -1, 9}, Assigned{"mlx5_0:1:2:3:4", 1, 2, 3}}) {
    SCOPED_TRACE(each.rule);
    const NameRule rule(each.rule);
    EXPECT_TRUE(rule.matches("mlx5_0", each.port));
    const NameRule::Entry* const entry = rule.entry_of("mlx5_0", each.port);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->rail, each.rail);
    EXPECT_EQ(entry->plane, each.plane);
  }
  EXPECT_FALSE(NameRule("=mlx5_0:2:0:0").matches("mlx5_0", 1));
  EXPECT_EQ(NameRule("^mlx5_1:1:2:3").entry_of("mlx5_0", 1), nullptr);
  EXPECT_FALSE(NameRule("^mlx5_1:1:2:3").matches("mlx5_1", 1));
  EXPECT_EQ(NameRule("").entry_of("mlx5_0", 1), nullptr);
}

using Cpus = std::vector<int>;

TEST(CpuList, IsSortedAndHoldsEachOnce) {
  EXPECT_EQ(read_cpu_list("3"), Cpus{3});
  EXPECT_EQ(read_cpu_list("4-7,2"), (Cpus{2, 4, 5, 6, 7}));
  EXPECT_EQ(read_cpu_list("2,2,1-2"), (Cpus{1, 2}));
  EXPECT_EQ(read_cpu_list("8191"), Cpus{8191});
}

TEST(CpuList, AnythingElseIsNone) {
  for (const char* text : {"", ",", "1,", ",1", "1-", "-1", "3-1", "1 ", " 1", "0x1", "8192",
                           "1-8192", "1--2", "1-2-3", "+1", "a"})
    EXPECT_EQ(read_cpu_list(text), std::nullopt) << text;
}

TEST(StatsTarget, SecondsAreTenUnlessTold) {
  EXPECT_EQ(read_stats_target("mesh.prom")->seconds, 10);
  EXPECT_EQ(read_stats_target("/a/b.prom:1")->seconds, 1);
  EXPECT_EQ(read_stats_target("/a/b.prom:3600")->seconds, 3600);
  EXPECT_EQ(read_stats_target("/a/b.prom:3600")->file, "/a/b.prom");
}

TEST(StatsTarget, NameWithAColonNeedsItsSeconds) {
  EXPECT_EQ(read_stats_target("/a:b/c")->file, "/a:b/c")
      << "a colon of a folder is nobody's seconds";
  EXPECT_EQ(read_stats_target("a:b:5")->file, "a:b");
}

TEST(StatsTarget, WhatIsWrongIsRefused) {
  for (const char* bad : {"", ":5", "f:", "f:0", "f:3601", "f:10s", "f:-1", "f: 1", "f:99999999999",
                          "/a/", "/a/:5", "f%", "f%x", "%h%"}) {
    EXPECT_FALSE(read_stats_target(bad).has_value()) << bad;
  }
}

TEST(StatsTarget, MarksBecomeHostAndProcess) {
  EXPECT_EQ(stats_file_name("/m/%h-%p.prom", "node1", 42), "/m/node1-42.prom");
  EXPECT_EQ(stats_file_name("100%%%h", "%p", 42), "100%%p")
      << "what was put in is not looked at again";
}

TEST(StatsTarget, TheSnapshotLiesBesideThePage) {
  EXPECT_EQ(snapshot_file_name("/m/a-42.prom"), "/m/a-42.json");
  EXPECT_EQ(snapshot_file_name("/m/page"), "/m/page.json");
  EXPECT_EQ(snapshot_file_name("/m/page.json"), "/m/page.json.json") << "never the page itself";
}

bool holds(const char* range, const char* address) {
  const std::optional<AddressRange> read = read_address_range(range);
  EXPECT_TRUE(read.has_value()) << range;
  return read && read->holds(*SocketAddress::from_text(address));
}

TEST(AddressRange, HoldsWhatHasItsPrefix) {
  EXPECT_TRUE(holds("10.1.0.0/16", "10.1.255.3"));
  EXPECT_FALSE(holds("10.1.0.0/16", "10.2.0.3"));
  EXPECT_TRUE(holds("10.1.2.128/25", "10.1.2.129"));
  EXPECT_FALSE(holds("10.1.2.128/25", "10.1.2.127"));
  EXPECT_TRUE(holds("10.1.2.3/32", "10.1.2.3"));
  EXPECT_FALSE(holds("10.1.2.3/32", "10.1.2.2"));
  EXPECT_TRUE(holds("fd00:1::/33", "fd00:1:0:ffff::9"));
  EXPECT_FALSE(holds("fd00:1::/33", "fd00:1:8000::9"));
}

TEST(AddressRange, OfNoBitsHoldsItsFamilyOnly) {
  EXPECT_TRUE(holds("0.0.0.0/0", "192.168.0.1"));
  EXPECT_FALSE(holds("0.0.0.0/0", "fd00::1"));
  EXPECT_FALSE(holds("::/0", "192.168.0.1"));
}

TEST(AddressRange, MalformedTextIsNone) {
  for (const char* text :
       {"", "/", "10.0.0.0", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/33", "fd00::/129", "10.0.0/8",
        "10.0.0.0/8x", "10.0.0.0/8/8", "fe80::1%lo/64"})
    EXPECT_FALSE(read_address_range(text).has_value()) << text;
}

}  // namespace
}  // namespace mesh
