#include "tests/e2e/shape.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace mesh::e2e {
namespace {

Shape fabric(const std::string& file, const std::vector<std::string>& hosts = {}) {
  std::stringstream text;
  text << std::ifstream(MESH_FABRIC_DIR "/" + file).rdbuf();
  auto shape = Shape::of_fabric(text.str(), hosts);
  EXPECT_TRUE(shape.ok()) << file;
  return shape.ok() ? *shape : Shape(0);
}

Shape cluster(const std::string& topology, std::size_t world) {
  std::string why;
  auto shape = Shape::of_cluster(topology, world, why);
  EXPECT_TRUE(shape.ok()) << why;
  return shape.ok() ? *shape : Shape(0);
}

using Ranks = std::vector<std::size_t>;

TEST(Shape, FabricFilesAreRead) {
  EXPECT_EQ(fabric("pair.json").cables(0, 1), 1);
  EXPECT_EQ(fabric("pair2.json").cables(1, 0), 2);
  EXPECT_EQ(fabric("switched3.json").cables(0, 2), 1);
  const Shape ring = fabric("ring4.json");
  EXPECT_EQ(ring.cables(3, 0), 1);
  EXPECT_EQ(ring.cables(0, 2), 0);
  EXPECT_FALSE(fabric("line3.json", {"a", "c"}).connected());
  EXPECT_EQ(fabric("routed2.json").cables(0, 1), 2) << "by way of a router";
  EXPECT_TRUE(fabric("pair.json", {"a"}).connected());
  EXPECT_FALSE(Shape::of_fabric("[]", {}).ok());
}

TEST(Shape, AClusterWithoutAWordReachesEverybodySomehow) {
  EXPECT_EQ(place(fabric("pair2.json"), cluster("", 3)).ranks, (Ranks{0, 1}));
  EXPECT_EQ(place(fabric("ring4.json"), cluster("", 4)).ranks, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(place(fabric("line3.json", {"a", "c"}), cluster("", 3)).reason,
            "needs hosts that do not reach each other");
}

TEST(Shape, ScenariosGoWhereTheirHostsReachEachOther) {
  EXPECT_EQ(place(fabric("pair.json"), cluster("line3", 3)).ranks, (Ranks{0, 1}));
  EXPECT_EQ(place(fabric("line3.json", {"a", "c"}), cluster("line3", 3)).ranks, (Ranks{0, 2}));
  EXPECT_EQ(place(fabric("line3.json", {"a", "c"}), cluster("ring4", 4)).ranks, (Ranks{0, 2}));
  EXPECT_EQ(place(fabric("line3.json"), cluster("ring4", 4)).ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(place(fabric("switched3.json"), cluster("triangle", 3)).ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(place(fabric("pair2.json"), cluster("triangle2", 3)).ranks, (Ranks{0, 1}));
  EXPECT_EQ(place(fabric("pair.json", {"b"}), cluster("pair", 2)).ranks, (Ranks{0}));
}

TEST(Shape, WhatCannotRunSaysWhy) {
  EXPECT_EQ(place(fabric("triangle.json"), cluster("pair", 2)).reason, "needs 3 hosts, here are 2");
  EXPECT_EQ(place(fabric("pair2.json"), cluster("pair", 2)).reason,
            "needs more than one cable between two hosts");
  EXPECT_EQ(place(fabric("triangle.json"), cluster("ring4", 4)).reason,
            "needs 3 hosts of which more reach each other");
  std::string why;
  EXPECT_FALSE(Shape::of_cluster("ring4", 3, why).ok());
  EXPECT_EQ(why, "MESH_TOPOLOGY is ring4, but the world has 3 ranks");
}

TEST(Shape, ALargeClusterIsSearchedInNoTime) {
  EXPECT_EQ(place(fabric("alltoall8.json"), cluster("", 256)).ranks.size(), 8u);
  EXPECT_TRUE(place(fabric("alltoall8.json"), cluster("ring256", 256)).ranks.empty());
}

}  // namespace
}  // namespace mesh::e2e
