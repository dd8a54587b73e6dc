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

std::string file_of(const std::string& fabric) { return MESH_FABRIC_DIR "/" + fabric + ".json"; }

TEST_F(Ceiling, HalvesAndNicsCarryNoMoreThanTheirCableAndTheirSlots) {
  struct Case {
    const char* fabric;
    double gbps;
    bool slots_bind = false;
    Kind kind = Kind::SendRecv;
  };
  for (const Case& each :
       {Case{"model-halves", 200}, Case{"model-unequal", 175}, Case{"model-spark-pair", 200},
        Case{"model-spark-pair2", 218, true}, Case{"model-x16-pair2", 400},
        Case{"model-cards4-pair", 800}, Case{"model-spark-ring4", 200, false, Kind::AllReduce},
        Case{"capped", 8}}) {
    const auto found = link_ceiling(file_of(each.fabric), {}, each.kind);
    ASSERT_TRUE(found.has_value()) << each.fabric;
    EXPECT_NEAR(found->gbytes_per_s, each.gbps / 8 * kPayloadShare, 1e-9) << each.fabric;
    if (each.kind == Kind::SendRecv) {
      EXPECT_EQ(found->slots_bind, each.slots_bind) << each.fabric;
    }
  }
}

TEST_F(Ceiling, IsNotKnownOfLinksWithoutRate) {
  EXPECT_FALSE(link_ceiling(file_of("pair"), {}, Kind::SendRecv).has_value());
  EXPECT_FALSE(link_ceiling("/nowhere.json", {}, Kind::SendRecv).has_value());
  EXPECT_FALSE(link_ceiling(file_of("capped"), {"a", "z"}, Kind::SendRecv).has_value());
}

}  // namespace
}  // namespace mesh::perf
