#include "perf/mesh_perf/run_end.h"

#include "perf/driver/plugin_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mesh::perf {
namespace {

// The difference between the ranks' deadlines: the time of one message on busy hosts.
constexpr std::chrono::milliseconds kSkew{250};
// How long a rank stays after it has said that its time is over. On busy hosts another rank notices
// its own deadline later, and would report a lost peer before that.
constexpr std::chrono::milliseconds kLinger{2500};

}  // namespace

RunLimit::RunLimit(int rank, std::chrono::seconds limit)
    : who_("mesh_perf: rank " + std::to_string(rank) + ": "),
      limit_(limit),
      deadline_(Clock::now() + limit) {}

RunLimit::~RunLimit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunLimit::enforce() {
  thread_ = std::thread([this] { watch(); });
}

void RunLimit::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_ && Clock::now() < deadline_) {
    const Clock::time_point end = deadline_;
    changed_.wait_until(lock, end);
  }
  if (over_) return;
  tell_end();
  changed_.wait_for(lock, kLinger, [this] { return over_; });
  // A call into the plugin may never return. The kernel closes everything that is open.
  ::_exit(1);
}

void RunLimit::tell_end() {
  if (!told_end_) {
    std::fprintf(stderr, "%snot finished within %lld s (--timeout), still at: %s\n", who_.c_str(),
                 static_cast<long long>(limit_.count()), stage_);
  }
  told_end_ = true;
  // From here on the others end too, and the plugin's lines about that are no news.
  driver::PluginLog::instance().set_echo(driver::Echo::Nothing, "");
}

std::chrono::milliseconds RunLimit::left() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

void RunLimit::shorten_to(std::chrono::milliseconds left) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    deadline_ = std::min(deadline_, Clock::now() + left);
  }
  changed_.notify_all();
}

void RunLimit::enter(const char* stage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  stage_ = stage;
}

void RunLimit::tell(const std::string& failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Clock::now() + kSkew >= deadline_) return tell_end();
  std::fprintf(stderr, "%s%s\n", who_.c_str(), failure.c_str());
}

Result<bool> EndMark::seen() {
  if (file_.empty()) return true;
  const auto all = bootstrap_.all_gather(::access(file_.c_str(), F_OK) == 0 ? "1" : "0");
  if (!all.ok()) return all.status();
  return std::find(all->begin(), all->end(), "1") != all->end();
}

}  // namespace mesh::perf
