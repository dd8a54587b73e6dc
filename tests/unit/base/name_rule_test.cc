#include "src/base/name_rule.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

TEST(NameRule, EmptyMatchesEverything) {
  for (const char* text : {"", "^", "=", "^=", ",", "^,,"}) {
    EXPECT_TRUE(NameRule(text).matches("eth0")) << text;
    EXPECT_TRUE(NameRule(text).may_match("eth0")) << text;
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

TEST(NameRule, ColonWithoutNumberBelongsToTheName) {
  const NameRule rule("=eth0:x");
  EXPECT_TRUE(rule.matches("eth0:x"));
  EXPECT_FALSE(rule.matches("eth0"));
}

}  // namespace
}  // namespace mesh
