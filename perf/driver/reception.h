#pragma once
// Receives the other ranks at rank 0. It listens to all connections at once, so that a silent peer
// keeps no rank waiting. Thread: one owner. Bounds: the deadline, and kUnauthenticatedMax sockets
// more than ranks are missing; beyond that the oldest is closed.

#include <mesh/status.h>

#include "perf/driver/stream.h"
#include "src/base/unique_fd.h"

#include <poll.h>

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::driver {

// Unauthenticated connections: those that have not said which rank they are.
inline constexpr std::size_t kUnauthenticatedMax = 64;

// Returns the text by which a rank introduces itself.
std::string hello_of(int rank, int world);

class Reception {
 public:
  Reception(int listening, int world)
      : listening_(listening), ranks_(static_cast<std::size_t>(world)) {}

  // Returns the sockets of the other ranks by rank; our own place stays empty. Returns Timeout if a
  // rank did not come, Protocol if one came twice. `missing`, if given, then gets the ranks that
  // did not come.
  Result<std::vector<UniqueFd>> gather(Deadline deadline, std::vector<int>* missing = nullptr) &&;

 private:
  struct Unauthenticated {
    UniqueFd socket;
    std::string text;  // its hello, with the length in front
  };
  enum class HelloState { Incomplete, Complete, Invalid };

  Status wait(Deadline deadline);
  Status read_hellos();
  Status accept_one_more(Deadline deadline);
  Status admit(Unauthenticated& connection);
  void note_missing(std::vector<int>* missing) const;
  static HelloState read_hello(Unauthenticated& connection);

  int listening_;
  std::vector<UniqueFd> ranks_;
  std::size_t missing_ = ranks_.size() - 1;
  std::vector<Unauthenticated> unauthenticated_;  // the oldest first
  std::vector<pollfd>
      waiting_;  // the unauthenticated connections in their order, then the listening socket
};

}  // namespace mesh::driver
