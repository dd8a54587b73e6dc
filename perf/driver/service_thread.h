#pragma once
// The thread that manages connections and registrations for one communicator, as NCCL's proxy
// service thread does: it spins over all open non-blocking operations in turn, and sleeps when
// there is none. Thread: any may post.

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace mesh::driver {

class ServiceThread {
 public:
  using Turn = std::function<bool()>;  // called until it returns true

  ServiceThread();
  ~ServiceThread();  // operations still open are dropped, as at an abort
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  void post(Turn turn);
  int call(const std::function<int()>& work);  // runs it once on the thread and waits

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Turn> posted_;  // under mutex_
  bool stop_ = false;       // under mutex_
  std::thread thread_;
};

}  // namespace mesh::driver
