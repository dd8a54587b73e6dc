#include "perf/collectives/one_shot.h"

#include "perf/collectives/element.h"

namespace mesh::perf {

void OneShotTurns::start(const driver::CollWork& work, std::uint64_t count) {
  work_ = work;
  request_ = nullptr;
  stopwatch_.start(count);
  left_.store(count, std::memory_order_seq_cst);
  poke();
}

// The next all-reduce begins in the turn in which the last one ends.
bool OneShotTurns::turn() {
  std::uint64_t left = left_.load(std::memory_order_acquire);
  if (left == 0) return false;
  if (request_ == nullptr) {
    if (const int result = comm_.start(work_, &request_); result != driver::kNetSuccess)
      return fail(result);
    if (request_ == nullptr) return false;
  }
  int done = 0;
  if (const int result = comm_.test(request_, &done); result != driver::kNetSuccess)
    return fail(result);
  if (done == 0) return false;
  request_ = nullptr;
  stopwatch_.lap();
  left_.store(--left, std::memory_order_release);
  return true;
}

bool OneShotTurns::fail(int result) {
  error_.store(result, std::memory_order_release);
  return false;
}

template <typename T>
driver::CollReduction OneShot<T>::reduction() const {
  return {static_cast<int>(options_.type), static_cast<int>(options_.reduction)};
}

template <typename T>
int OneShot<T>::open(std::string& error) {
  const int result = comm_.open(*team_.bootstrap, reduction(), error);
  if (result == driver::kNetSuccess) team_.communicator->progress().attach(turns_);
  return result;
}

template <typename T>
int OneShot<T>::run(std::size_t count, int iterations) {
  turns_.start({.send = arrays_.input(),
                .receive = arrays_.output(),
                .count = count,
                .reduction = reduction()},
               static_cast<std::uint64_t>(iterations));
  return team_.communicator->progress().wait_idle(team_.timeout);
}

template <typename T>
int OneShot<T>::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  arrays_.fill(count, round);
  const int result = run(count, 1);
  if (result == driver::kNetSuccess) wrong += arrays_.wrong_elements(count, round);
  return result;
}

MESH_OF_EACH_ELEMENT(OneShot)

}  // namespace mesh::perf
