#include "perf/driver/service_thread.h"

#include <future>
#include <utility>

namespace mesh::driver {

ServiceThread::ServiceThread() : thread_([this] { run(); }) {}

ServiceThread::~ServiceThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ServiceThread::post(Turn turn) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(turn));
  }
  changed_.notify_all();
}

int ServiceThread::call(const std::function<int()>& work) {
  std::promise<int> answer;
  std::future<int> result = answer.get_future();
  post([&] {
    answer.set_value(work());
    return true;
  });
  return result.get();
}

void ServiceThread::run() {
  std::list<Turn> open;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (open.empty()) changed_.wait(lock, [&] { return stop_ || !posted_.empty(); });
      if (stop_) return;
      open.splice(open.end(), posted_);
    }
    const std::size_t before = open.size();
    open.remove_if([](const Turn& turn) { return turn(); });
    if (open.size() == before) std::this_thread::yield();
  }
}

}  // namespace mesh::driver
