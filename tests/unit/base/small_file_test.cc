#include "src/base/small_file.h"

#include "src/base/random.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace mesh {
namespace {

std::string file_with(const std::string& content) {
  std::string path = testing::TempDir() + "mesh_small_file_" + std::to_string(random_u64());
  std::ofstream(path) << content;
  return path;
}

TEST(SmallFile, FirstLineWithoutItsNewline) {
  EXPECT_EQ(read_first_line(file_with("RoCE v2\nmore\n")), "RoCE v2");
  EXPECT_EQ(read_first_line(file_with("")), "");
  EXPECT_EQ(read_first_line("/nonexistent/file"), std::nullopt);
  EXPECT_EQ(read_first_line("/proc"), std::nullopt);
}

TEST(SmallFile, NumberIsTheWholeLine) {
  EXPECT_EQ(read_number(file_with("-1\n")), -1);
  EXPECT_EQ(read_number(file_with("3900000")), 3900000);
  EXPECT_EQ(read_number(file_with("12 apples\n")), std::nullopt);
  EXPECT_EQ(read_number(file_with("")), std::nullopt);
}

TEST(SmallFile, ShortFileComesWholeOrNotAtAll) {
  EXPECT_EQ(*read_short_file(file_with("a\nb\n"), 4), "a\nb\n");
  EXPECT_EQ(*read_short_file(file_with(""), 4), "");
  EXPECT_EQ(*read_short_file(file_with(std::string(100'000, 'x')), 100'000), std::string(100'000, 'x'));
  EXPECT_EQ(read_short_file(file_with("abcde"), 4).code(), Errc::Exhausted);
  EXPECT_EQ(read_short_file("/nonexistent/file", 4).code(), Errc::NotFound);
  EXPECT_EQ(read_short_file("/dev/null/file", 4).code(), Errc::NotFound);
  EXPECT_EQ(read_short_file("/proc", 4).code(), Errc::InvalidArgument);
}

TEST(Random, IdsDiffer) {
  std::set<std::array<std::uint8_t, 16>> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_id());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace mesh
