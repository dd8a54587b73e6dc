#pragma once
// Writes the page of metrics to its file again and again, the first page included, on a thread of
// its own: a file system that hangs holds up neither an init nor messages nor the control path.
// Each page replaces the one before as a whole. Thread: start, finish and the end from one thread;
// `page` is called on the writer's. Bound: one file; finish() kFinishMs.

#include "src/base/small_file.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace mesh::plugin {

enum class PageKind : std::uint8_t { Usual, Last };

class StatsWriter {
 public:
  static constexpr std::chrono::milliseconds kFinishMs{1000};

  struct Options {
    std::string file;
    std::chrono::seconds period{10};
    std::function<std::string(PageKind)> page;  // not called after finish()
    std::function<int(const std::string& file, std::string_view text)> write = replace_file;
  };
  // Returns at once. When the first page cannot be written, one WARN line says why and no other
  // page is tried. Null: there is no thread for it, and one WARN line said so.
  static std::unique_ptr<StatsWriter> start(Options options);

  // The last page is written and the thread ends. False: the file system does not answer; keep the
  // object until has_ended().
  [[nodiscard]] bool finish();
  bool has_ended() const
      noexcept;  // the thread does nothing any more, so the end of the object waits for nobody

  explicit StatsWriter(Options options) : options_(std::move(options)) {}  // for start()
  ~StatsWriter();  // waits for the thread, after finish()
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

 private:
  void run();
  bool write(PageKind kind) noexcept;
  void warn(const char* reason) noexcept;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, done_ = false;
  bool wrote_ = false;     // the writer's: some page is in the file
  bool failing_ = false;   // the writer's: a line has said so
  std::mutex page_mutex_;  // held while a page is made
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace mesh::plugin
