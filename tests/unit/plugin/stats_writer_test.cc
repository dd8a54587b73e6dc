#include "plugin/stats_writer.h"

#include "src/base/small_file.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/log_capture.h"

namespace mesh::plugin {
namespace {

using namespace std::chrono_literals;
using testkit::LogCapture;
using Texts = std::vector<std::string>;

class StatsWriterTest : public testing::Test {
 protected:
  std::string text() const { return read_short_file(file_, 1000).value(); }
  // Writes pages until the one with this number is asked for. Returns the number of the last one.
  int write_until(int number, const std::function<std::string(int)>& page) {
    std::promise<void> reached;
    std::atomic<int> pages{0};
    auto writer = StatsWriter::start({.files = {file_}, .period = 0s, .texts = [&](PageKind) {
                                        const int now = ++pages;
                                        if (now == number) reached.set_value();
                                        return Texts{page(now)};
                                      }});
    EXPECT_NE(writer, nullptr);
    EXPECT_EQ(reached.get_future().wait_for(30s), std::future_status::ready);
    EXPECT_TRUE(writer->finish());
    return pages;
  }

  const testkit::Folder folder_;
  const std::string file_ = folder_.path("mesh.prom");
};

TEST_F(StatsWriterTest, FirstPageComesByItselfAndTheLastOneAtTheEnd) {
  const LogCapture log;
  std::promise<void> written;
  bool first = true;
  auto writer = StatsWriter::start(
      {.files = {file_},
       .period = 3600s,
       .texts = [](PageKind kind) { return Texts{kind == PageKind::Last ? "last\n" : "usual\n"}; },
       .write =
           [&](const std::string& file, std::string_view page) {
             const int error = replace_file(file, page);
             if (std::exchange(first, false)) written.set_value();
             return error;
           }});
  ASSERT_NE(writer, nullptr);
  ASSERT_EQ(written.get_future().wait_for(30s), std::future_status::ready);
  EXPECT_EQ(text(), "usual\n");
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(text(), "last\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.root()), {}), 1)
      << "only the file itself stays";
  EXPECT_TRUE(log.warned("", 0));
}

TEST_F(StatsWriterTest, EachFileGetsItsText) {
  const std::string other = folder_.path("mesh.json");
  auto writer =
      StatsWriter::start({.files = {file_, other}, .period = 3600s, .texts = [](PageKind) {
                            return Texts{"page\n", "{}\n"};
                          }});
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(text(), "page\n");
  EXPECT_EQ(read_short_file(other, 1000).value(), "{}\n");
}

TEST_F(StatsWriterTest, PagesFollowEachOther) {
  const int last = write_until(3, [](int number) { return std::to_string(number); });
  EXPECT_EQ(text(), std::to_string(last)) << "the last page is the one that stays";
}

TEST_F(StatsWriterTest, WhatCannotBeWrittenIsOneWarningThatNamesFileAndReason) {
  const LogCapture log;
  const auto texts = [](PageKind) { return Texts{"x"}; };
  for (const std::string& file : {folder_.path("none/mesh.prom"), folder_.root()}) {
    auto writer = StatsWriter::start({.files = {file}, .period = 0s, .texts = texts});
    ASSERT_NE(writer, nullptr);
    EXPECT_TRUE(writer->finish());
  }
  EXPECT_TRUE(
      log.warned(folder_.path("none/mesh.prom") + " cannot be written: No such file or directory"));
  EXPECT_TRUE(log.warned("Is a directory; there will be no metrics"));
  EXPECT_EQ(log.all().size(), 2u) << log.joined();
}

TEST_F(StatsWriterTest, PageThatThrowsIsOneWarningAndTheNextOneIsWritten) {
  const LogCapture log;
  const int last = write_until(
      3, [](int number) { return number == 2 ? throw std::bad_alloc() : std::to_string(number); });
  EXPECT_TRUE(log.warned("cannot be written any more: std::bad_alloc"));
  EXPECT_EQ(text(), std::to_string(last));
}

// A write that waits for a gate, as on a file system that hangs.
class Gate {
 public:
  int hang() {
    inside_.set_value();
    open_.wait();
    return 0;
  }
  bool entered() { return inside_.get_future().wait_for(30s) == std::future_status::ready; }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> inside_, opened_;
  std::shared_future<void> open_ = opened_.get_future().share();
};

TEST_F(StatsWriterTest, LaterFailureWarnsOnce) {
  const LogCapture log;
  write_until(6, [this](int number) {
    if (number == 2) std::filesystem::remove_all(folder_.root());
    return "x";
  });
  EXPECT_TRUE(log.warned("cannot be written any more: No such file or directory"));
}

TEST_F(StatsWriterTest, FileSystemThatHangsHoldsUpNobodyAndNoFurtherPageIsMade) {
  for (const int at : {1, 2}) {
    const LogCapture log;
    Gate gate;
    std::atomic<int> pages{0}, writes{0};
    auto writer = StatsWriter::start(
        {.files = {file_},
         .period = 0s,
         .texts = [&](PageKind) { return ++pages, Texts{"x"}; },
         .write = [&](const std::string&,
                      std::string_view) { return ++writes == at ? gate.hang() : 0; }});
    ASSERT_NE(writer, nullptr) << "start() returns, though the first page hangs";
    ASSERT_TRUE(gate.entered());
    EXPECT_FALSE(writer->finish());
    EXPECT_TRUE(log.warned("its last page may be missing"));
    gate.open();
    writer.reset();  // waits for the thread, unlike an owner that leaves it behind
    EXPECT_EQ(pages, at) << "what the page asks may be gone by now";
  }
}

}  // namespace
}  // namespace mesh::plugin
