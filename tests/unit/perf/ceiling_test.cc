#include "perf/mesh_perf/ceiling.h"

#include "tests/prelude.h"

namespace mesh::perf {
namespace {

constexpr double kPayloadShare = 4096.0 / 4178.0;
constexpr soft::Goodput kNone;

// Three hosts for the links of a test: a and b have two cables of 100 and 50 Gb/s, b and c one of
// 10 Gb/s with a small MTU, a and c none. Or all ports are on a switch of 40 Gb/s.
class Ceiling : public testing::Test {
 protected:
  Ceiling() : file_(testing::TempDir() + "mesh-ceiling-" + std::to_string(::getpid()) + ".json") {}
  ~Ceiling() override { std::remove(file_.c_str()); }

  void write(const std::string& links) {
    std::ofstream(file_)
        << R"({"name": "three", "hosts": [)"
        << R"({"name": "a", "nics": [{"name": "n0", "address": "10.0.1.1/16"}, )"
        << R"({"name": "n1", "address": "10.0.2.1/16"}]},)"
        << R"({"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/16"}, )"
        << R"({"name": "n1", "address": "10.0.2.2/16"},)"
        << R"({"name": "n2", "address": "10.0.3.2/16"}]},)"
        << R"({"name": "c", "nics": [{"name": "n0", "address": "10.0.3.3/16"}]}], "links": [)"
        << links << "]}";
  }

  const std::string file_;
};

TEST_F(Ceiling, AddsTheLinksBetweenTwoHosts) {
  write(R"({"ends": ["a/n0", "b/n0"], "gbps": 100}, {"ends": ["a/n1", "b/n1"], "gbps": 50})");
  EXPECT_NEAR(link_ceiling(file_, {"a", "b"}, Kind::SendRecv).value_or(kNone).gbytes_per_s,
              150 / 8.0 * kPayloadShare, 1e-9);
}

TEST_F(Ceiling, TakesTheWorstPairOfTheRing) {
  write(R"({"ends": ["a/n0", "b/n0"], "gbps": 100}, {"ends": ["b/n2", "c/n0"], "gbps": 10, )"
        R"("mtu": 1024})");
  EXPECT_NEAR(link_ceiling(file_, {"b", "c"}, Kind::AllReduce).value_or(kNone).gbytes_per_s,
              10 / 8.0 * 1024 / 1106, 1e-9);
  EXPECT_FALSE(link_ceiling(file_, {}, Kind::AllReduce).has_value());  // c to a: no link
}

TEST_F(Ceiling, CountsPortsOnASwitch) {
  write(R"({"switch": ["a/n0", "a/n1", "b/n0", "b/n1", "c/n0"], "gbps": 40})");
  const double port = 40 / 8.0 * kPayloadShare;
  EXPECT_NEAR(link_ceiling(file_, {"a", "b"}, Kind::SendRecv).value_or(kNone).gbytes_per_s,
              2 * port, 1e-9);
  EXPECT_NEAR(link_ceiling(file_, {}, Kind::AllReduce).value_or(kNone).gbytes_per_s, port, 1e-9);
  EXPECT_FALSE(link_ceiling(file_, {}, Kind::AllToAll).has_value());
}

TEST_F(Ceiling, HalvesCarryNoMoreThanTheirCable) {
  EXPECT_NEAR(link_ceiling(MESH_FABRIC_DIR "/model-halves.json", {}, Kind::SendRecv)
                  .value_or(kNone)
                  .gbytes_per_s,
              200 / 8.0 * kPayloadShare, 1e-9);
  EXPECT_NEAR(link_ceiling(MESH_FABRIC_DIR "/model-unequal.json", {}, Kind::SendRecv)
                  .value_or(kNone)
                  .gbytes_per_s,
              175 / 8.0 * kPayloadShare, 1e-9);
}

TEST_F(Ceiling, NicsCarryNoMoreThanTheirSlots) {
  const auto of = [](const char* fabric) {
    return link_ceiling(fmt::format(MESH_FABRIC_DIR "/model-{}.json", fabric), {}, Kind::SendRecv)
        .value_or(kNone)
        .gbytes_per_s;
  };
  EXPECT_NEAR(of("spark-pair"), 200 / 8.0 * kPayloadShare, 1e-9) << "the cable";
  EXPECT_NEAR(of("spark-pair2"), 218 / 8.0 * kPayloadShare, 1e-9) << "both x4 links";
  EXPECT_NEAR(of("x16-pair2"), 400 / 8.0 * kPayloadShare, 1e-9);
  EXPECT_NEAR(of("cards4-pair"), 800 / 8.0 * kPayloadShare, 1e-9);
  const auto bind = [](const char* file) {
    return link_ceiling(file, {}, Kind::SendRecv)->slots_bind;
  };
  EXPECT_TRUE(bind(MESH_FABRIC_DIR "/model-spark-pair2.json"));
  EXPECT_FALSE(bind(MESH_FABRIC_DIR "/model-spark-pair.json"));
  const auto ring = [](const char* file) { return link_ceiling(file, {}, Kind::AllReduce); };
  EXPECT_NEAR(ring(MESH_FABRIC_DIR "/model-spark-triangle.json").value_or(kNone).gbytes_per_s,
              200 / 8.0 * kPayloadShare, 1e-9);
  EXPECT_NEAR(ring(MESH_FABRIC_DIR "/model-spark-ring4.json").value_or(kNone).gbytes_per_s,
              200 / 8.0 * kPayloadShare, 1e-9);
}

TEST_F(Ceiling, IsNotKnownOfLinksWithoutRate) {
  EXPECT_FALSE(link_ceiling(MESH_FABRIC_DIR "/pair.json", {}, Kind::SendRecv).has_value());
  EXPECT_FALSE(link_ceiling("/nowhere.json", {}, Kind::SendRecv).has_value());
  EXPECT_NEAR(
      link_ceiling(MESH_FABRIC_DIR "/capped.json", {}, Kind::SendRecv).value_or(kNone).gbytes_per_s,
      kPayloadShare, 1e-9);
  EXPECT_FALSE(
      link_ceiling(MESH_FABRIC_DIR "/capped.json", {"a", "z"}, Kind::SendRecv).has_value());
}

}  // namespace
}  // namespace mesh::perf
