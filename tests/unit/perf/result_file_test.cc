#include "perf/results/result.h"

#include "tests/prelude.h"

#include <nlohmann/json.hpp>

namespace mesh::results {
namespace {

File good_file() {
  File file;
  file.label = "software fabric on this host, not RDMA (pair.json)";
  file.tool = "mesh_perf";
  file.arguments = {"sendrecv", "-b", "8"};
  file.place = {.host = "h",
                .cpu = "a cpu",
                .kernel = "Linux 6.1",
                .cpus = 2,
                .topology = "pair.json",
                .ranks = 2};
  Point small, large;
  small.bytes = 8;
  small.iterations = 100;
  small.latency_us = Latency{.min = 1, .median = 1.5, .p99 = 2, .p999 = 2, .samples = 100};
  large.bytes = 65536;
  large.iterations = 200;
  large.verified = true;
  large.bandwidth = Bandwidth{.gbytes_per_s = 5.25,
                              .bus_gbytes_per_s = 5.25,
                              .ceiling_gbytes_per_s = 12.25,
                              .slots_bind = true};
  large.cpu_seconds_per_gb = 0.5;
  large.extra["memcpy_gbytes_per_s"] = 9.5;
  Series series{.operation = "sendrecv one way", .settings = {}, .points = {small, large}};
  series.settings.qps = 4;
  series.settings.inline_bytes = 0;
  series.settings.outstanding = 8;
  file.series.push_back(series);
  return file;
}

// The reader's tests use this case too (tests/unit/perf/suite/results_test.py).
TEST(ResultFile, IsWrittenAsItsReaderExpects) {
  std::ifstream stream(MESH_RESULT_CASES);
  const nlohmann::json cases = nlohmann::json::parse(stream);
  EXPECT_EQ(nlohmann::json::parse(to_json(good_file())), cases.at("good"));
}

TEST(ResultFile, NamesTheFileThatCannotBeWritten) {
  std::string why;
  EXPECT_FALSE(write_file("/nowhere/results.json", {}, why));
  EXPECT_EQ(why, "/nowhere/results.json: cannot be written");
}

TEST(Quantiles, AreSamplesByNearestRank) {
  std::vector<double> rising(1000);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<double>(i + 1);
  EXPECT_EQ(quantile(rising, 0.5), 500);
  EXPECT_EQ(quantile(rising, 0.99), 990);
  EXPECT_EQ(quantile(rising, 0.999), 999);
  EXPECT_EQ(quantile(rising, 1), 1000);
  EXPECT_EQ(quantile(rising, 0), 1);
}

TEST(Quantiles, OfFewSamplesAreTheLargest) {
  const auto latency = latency_of({3, 1, 2});
  ASSERT_TRUE(latency.has_value());
  EXPECT_EQ(latency->min, 1);
  EXPECT_EQ(latency->median, 2);
  EXPECT_EQ(latency->p99, 3);
  EXPECT_EQ(latency->p999, 3);
  EXPECT_EQ(latency->samples, 3U);
  EXPECT_EQ(latency->mean, 2);
  EXPECT_FALSE(latency_of({}).has_value());
}

TEST(ResultFile, KnowsItsMachine) {
  const Place place = this_place();
  EXPECT_FALSE(place.host.empty());
  EXPECT_GT(place.cpus, 0U);
}

}  // namespace
}  // namespace mesh::results
