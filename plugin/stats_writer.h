#pragma once
// Writes every page of metrics, and the snapshot beside it, to their files on a thread of its own,
// so that a file system that hangs delays neither an init nor messages nor the control path. Each
// text replaces the previous one as a whole. Thread: start, finish and destruction on one thread;
// `texts` is called on the writer's own. Bound: the files; finish() takes at most
// kExitToLastPageMs.

#include "src/base/small_file.h"
#include "src/base/timeouts.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mesh::plugin {

enum class PageKind : std::uint8_t { Usual, Last };

class StatsWriter {
 public:
  struct Options {
    std::vector<std::string> files;
    std::chrono::seconds period{kStatsPeriodSeconds};
    // Returns one text for each file. It is not called after finish().
    std::function<std::vector<std::string>(PageKind)> texts;
    std::function<int(const std::string& file, std::string_view text)> write = replace_file;
  };
  // Returns at once. If the first texts cannot be written, one WARN line says why, and no others
  // are tried. Returns null, after one WARN line, if the thread cannot be started.
  static std::unique_ptr<StatsWriter> start(Options options);

  // Writes the last page and ends the thread. Returns false if the file system does not answer; the
  // destructor then waits for it.
  [[nodiscard]] bool finish();

  explicit StatsWriter(Options options) : options_(std::move(options)) {}  // for start() only
  ~StatsWriter();  // waits for the thread, after finish()
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

 private:
  bool stop_in_time();
  void run();
  bool write(PageKind kind) noexcept;
  void warn(const std::string& file, const char* reason) noexcept;

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, done_ = false;
  bool wrote_ = false;     // writer thread: some page is in its file
  bool failing_ = false;   // writer thread: a line has said that pages cannot be written
  std::mutex page_mutex_;  // locked while a page is made
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace mesh::plugin
