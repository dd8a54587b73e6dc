#pragma once
// How the library starts a thread of its own: with every signal blocked, because signals belong to
// the application's threads. Thread: any; start_own_thread may run on a thread of NCCL's, whose
// signal mask is afterwards what it was.

#include <pthread.h>
#include <csignal>
#include <exception>
#include <thread>
#include <utility>

#include <mesh/status.h>

#include "src/base/log.h"

namespace mesh {

// Blocks every signal for the calling thread while it lives; a thread that is made meanwhile
// inherits that.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Errc::System: no thread is to be had, one INFO line says why, and `thread` is what it was. The
// name has at most 15 characters.
template <typename Body>
Status start_own_thread(std::thread& thread, const char* name, Body body) {
  const SignalsBlocked blocked;
  try {
    thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
    return {};
  } catch (const std::exception&
               error) {  // system_error: the system has no thread left; bad_alloc: no memory for it
    LOG_INFO("no thread {} is to be had: {}", name, error.what());
    return Errc::System;
  }
}

}  // namespace mesh
