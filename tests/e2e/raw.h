#pragma once
// Data calls made by the scenario's own thread, for tests that need to see single requests.
// Thread: one, in the place of the progress thread.

#include "perf/driver/pipe.h"
#include "tests/e2e/scenario.h"

#include <optional>

namespace mesh::e2e {

class Raw {
 public:
  Raw(driver::NetApi& api, void* comm, driver::Side side) : api_(api), comm_(comm), side_(side) {}

  // One isend or irecv with rubbish in the request slot. The slot afterwards; null: ask again.
  void* try_post(const driver::NetPiece& piece);
  // Until it is accepted; fails the scenario when that takes too long.
  void* post(const driver::NetPiece& piece);

  // Over middle hosts the first message opens the path, and until then nothing is accepted: an
  // empty one goes, of both sides. Without such hosts it does nothing.
  void wake();

  // One test(): nothing while open, else the bytes.
  std::optional<int> poll(void* request);
  // Until done; the bytes. Fails the scenario on error or when it takes too long.
  int await(void* request);
  // Until done, without asking for sizes.
  void await_blind(void* request);
  // Until test() answers something else than success; that code.
  int await_error(void* request, driver::milliseconds patience);

 private:
  driver::NetApi& api_;
  void* comm_;
  driver::Side side_;
};

}  // namespace mesh::e2e
