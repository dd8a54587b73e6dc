#include "src/base/setting_grammar.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

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

}  // namespace
}  // namespace mesh
