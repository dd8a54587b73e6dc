#include "perf/results/result_file.h"

#include "perf/results/quantiles.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace mesh::results {
namespace {

nlohmann::json cases() {
  std::ifstream stream(MESH_RESULT_CASES);
  return nlohmann::json::parse(stream);
}

TEST(ResultFile, ReadsBackWhatItWrote) {
  std::string why;
  const auto file = from_json(cases().at("good").dump(), why);
  ASSERT_TRUE(file.has_value()) << why;
  ASSERT_EQ(file->series.size(), 1U);
  const Series& series = file->series[0];
  EXPECT_EQ(series.settings.qps, 4U);
  EXPECT_FALSE(series.settings.signal_interval.has_value());
  EXPECT_EQ(series.settings.inline_bytes, 0U);
  ASSERT_EQ(series.points.size(), 2U);
  EXPECT_FALSE(series.points[0].verified.has_value());
  EXPECT_EQ(series.points[0].latency_us->median, 1.5);
  EXPECT_EQ(series.points[1].bandwidth->ceiling_gbytes_per_s, 12.25);
  EXPECT_EQ(series.points[1].extra.at("memcpy_gbytes_per_s"), 9.5);

  const auto again = from_json(to_json(*file), why);
  ASSERT_TRUE(again.has_value()) << why;
  EXPECT_EQ(to_json(*again), to_json(*file));
}

TEST(ResultFile, RefusesWhatIsWrongByName) {
  const nlohmann::json all = cases();
  for (const nlohmann::json& one : all.at("bad")) {
    nlohmann::json patch = one;
    patch.erase("says");
    std::string why;
    EXPECT_FALSE(
        from_json(all.at("good").patch(nlohmann::json::array({patch})).dump(), why).has_value())
        << one;
    EXPECT_EQ(why, one.at("says").get<std::string>());
  }
}

TEST(ResultFile, NamesTheFileThatCannotBeUsed) {
  std::string why;
  EXPECT_FALSE(from_json("{", why).has_value());
  EXPECT_EQ(why, "not JSON");
  EXPECT_FALSE(read_file("/nowhere/results.json", why).has_value());
  EXPECT_EQ(why, "/nowhere/results.json: cannot be opened");
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
  EXPECT_FALSE(latency_of({}).has_value());
}

TEST(ResultFile, KnowsItsMachine) {
  const Place place = this_place();
  EXPECT_FALSE(place.host.empty());
  EXPECT_GT(place.cpus, 0U);
}

}  // namespace
}  // namespace mesh::results
