#include "src/base/small_file.h"

#include "src/base/random.h"
#include "tests/prelude.h"

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
  EXPECT_EQ(*read_short_file(file_with(std::string(100'000, 'x')), 100'000),
            std::string(100'000, 'x'));
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

std::string temporary_of(const std::string& path) {
  return path + "." + std::to_string(::getpid()) + ".tmp";
}

TEST(ReplaceFile, TextIsReplacedAsAWhole) {
  const std::string path = file_with("old and longer");
  EXPECT_EQ(replace_file(path, "new"), 0);
  EXPECT_EQ(read_short_file(path, 100).value(), "new");
  EXPECT_EQ(replace_file(path, ""), 0);
  EXPECT_EQ(read_short_file(path, 100).value(), "");
  EXPECT_EQ(read_short_file(temporary_of(path), 100).code(), Errc::NotFound);
}

// Ranks of one host may write one file. A reader finds the whole page of one of them, and no writer
// fails.
TEST(ReplaceFile, TwoProcessesDoNotBreakEachOther) {
  const std::string path = file_with("old");
  const auto failures = [&path](char letter) {
    int failed = 0;
    for (int i = 0; i < 1000; ++i)
      failed += replace_file(path, std::string(1000, letter)) == 0 ? 0 : 1;
    return failed;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(failures('c') == 0 ? 0 : 1);
  EXPECT_EQ(failures('p'), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process's writes failed";
  const std::string text = read_short_file(path, 2000).value();
  EXPECT_TRUE(text == std::string(1000, 'c') || text == std::string(1000, 'p')) << text;
}

TEST(ReplaceFile, WhatIsNoRegularFileIsLeftAlone) {
  EXPECT_EQ(replace_file("/dev/null", "x"), EOPNOTSUPP);
  EXPECT_EQ(replace_file(testing::TempDir(), "x"), EISDIR);
  EXPECT_EQ(replace_file(file_with("") + "/x", "x"), ENOTDIR);
}

// An attacker may have put a link there to make us write elsewhere.
TEST(ReplaceFile, LinkInThePlaceOfTheTemporaryIsNotFollowed) {
  const std::string path = file_with("old"), victim = file_with("victim");
  std::filesystem::create_symlink(victim, temporary_of(path));
  EXPECT_EQ(replace_file(path, "new"), 0);
  EXPECT_EQ(read_short_file(victim, 100).value(), "victim");
  EXPECT_EQ(read_short_file(path, 100).value(), "new");
}

}  // namespace
}  // namespace mesh
