#pragma once
// Starts the library's own threads with every signal blocked, because signals belong to the
// application's threads. Thread: any; start_own_thread may run on a thread of NCCL, whose signal
// mask is restored. Bound: one thread for each call.

#include <pthread.h>
#include <csignal>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include <mesh/status.h>

#include "src/base/check.h"
#include "src/base/log.h"

namespace mesh {

// Blocks every signal for the calling thread while the object lives. A thread that is made
// meanwhile inherits the mask.
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

// Starts `thread` with the name, of at most 15 characters. Returns Errc::System if no thread is to
// be had; one INFO line says why, and `thread` is unchanged.
template <typename Body>
Status start_own_thread(std::thread& thread, const char* name, Body body) {
  DCHECK(!thread.joinable() && std::strlen(name) <= 15);
  const SignalsBlocked blocked;
  try {
    thread = std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
    return {};
  } catch (const std::exception& error) {  // system_error or bad_alloc
    LOG_INFO("cannot start thread {}: {}", name, error.what());
    return Errc::System;
  }
}

}  // namespace mesh
