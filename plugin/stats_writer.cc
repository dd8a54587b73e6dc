#include "plugin/stats_writer.h"

#include "src/base/log.h"

#include <pthread.h>
#include <csignal>
#include <cstring>
#include <utility>

namespace mesh::plugin {

std::unique_ptr<StatsWriter> StatsWriter::start(Options options) {
  auto writer = std::make_unique<StatsWriter>(std::move(options));
  if (const int error = writer->options_.write(writer->options_.file, writer->options_.page(PageKind::Usual)); error != 0) {
    LOG_WARN("NCCL_MESH_STATS: {} cannot be written: {}; there will be no metrics", writer->options_.file, std::strerror(error));
    return nullptr;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  writer->thread_ = std::thread([raw = writer.get()] { raw->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return writer;
}

StatsWriter::~StatsWriter() {
  if (thread_.joinable()) thread_.join();
}

void StatsWriter::write(PageKind kind) {
  std::string text;
  {
    const std::lock_guard lock(page_mutex_);
    if (abandoned_) return;
    text = options_.page(kind);
  }
  const int error = options_.write(options_.file, text);
  if (error != 0 && !failing_) LOG_WARN("NCCL_MESH_STATS: {} cannot be written any more: {}", options_.file, std::strerror(error));
  failing_ = error != 0;
}

void StatsWriter::run() {
  pthread_setname_np(pthread_self(), "mesh-stats");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (changed_.wait_for(lock, options_.period, [this] { return stopping_; })) break;
    lock.unlock();
    write(PageKind::Usual);
    lock.lock();
  }
  lock.unlock();
  write(PageKind::Last);
  lock.lock();
  done_ = true;
  changed_.notify_all();
}

bool StatsWriter::finish() {
  bool ended = false;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    ended = changed_.wait_for(lock, kFinishMs, [this] { return done_; });
  }
  if (ended) {
    if (thread_.joinable()) thread_.join();
    return true;
  }
  LOG_WARN("NCCL_MESH_STATS: {} takes longer than {} ms to write; its last page may be missing", options_.file, kFinishMs.count());
  const std::lock_guard lock(page_mutex_);  // a page under way ends soon; none is begun any more
  abandoned_ = true;
  return false;
}

}  // namespace mesh::plugin
