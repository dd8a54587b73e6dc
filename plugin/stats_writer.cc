#include "plugin/stats_writer.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

namespace mesh::plugin {

std::unique_ptr<StatsWriter> StatsWriter::start(Options options) {
  auto writer = std::make_unique<StatsWriter>(std::move(options));
  if (start_own_thread(writer->thread_, "mesh-stats", [raw = writer.get()] { raw->run(); }).ok())
    return writer;
  LOG_WARN("NCCL_MESH_STATS: cannot start the thread that writes {}; there will be no metrics",
           writer->options_.files.front());
  return nullptr;
}

StatsWriter::~StatsWriter() {
  if (thread_.joinable()) thread_.join();
}

void StatsWriter::warn(const std::string& file, const char* reason) noexcept {
  if (!failing_) {
    LOG_WARN("NCCL_MESH_STATS: {} cannot be written{}: {}{}", file, wrote_ ? " any more" : "",
             reason, wrote_ ? "" : "; there will be no metrics");
  }
  failing_ = true;
}

// Returns false if the page cannot be written. A page for which there is no memory is left out like
// one that the file system refuses.
bool StatsWriter::write(PageKind kind) noexcept {
  try {
    std::vector<std::string> texts;
    {
      const std::lock_guard lock(page_mutex_);
      if (abandoned_) return false;
      texts = options_.texts(kind);
    }
    DCHECK(texts.size() == options_.files.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const int error = options_.write(options_.files[i], texts[i]);
      if (error == 0) continue;
      warn(options_.files[i], std::strerror(error));
      return false;
    }
    failing_ = false;
    wrote_ = true;
    return true;
  } catch (const std::exception& error) {
    warn(options_.files.front(), error.what());
    return false;
  }
}

void StatsWriter::run() {
  std::unique_lock lock(mutex_);
  bool usable = true;
  while (!stopping_ && usable) {
    lock.unlock();
    usable = write(PageKind::Usual) || wrote_;
    lock.lock();
    if (usable) changed_.wait_for(lock, options_.period, [this] { return stopping_; });
  }
  lock.unlock();
  if (usable) write(PageKind::Last);
  lock.lock();
  done_ = true;
  changed_.notify_all();
}

bool StatsWriter::stop_in_time() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, std::chrono::milliseconds(kExitToLastPageMs),
                           [this] { return done_; });
}

bool StatsWriter::finish() {
  if (stop_in_time()) {
    if (thread_.joinable()) thread_.join();
    return true;
  }
  LOG_WARN("NCCL_MESH_STATS: {} takes longer than {} ms to write; its last page may be missing",
           options_.files.front(), kExitToLastPageMs);
  // Lets a page that is being made end, which is soon, and no other page begin.
  const std::lock_guard lock(page_mutex_);
  abandoned_ = true;
  return false;
}

}  // namespace mesh::plugin
