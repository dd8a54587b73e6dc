#pragma once
// Data calls made by the scenario's own thread, for tests that need to see single requests.
// Thread: one, in the place of the progress thread.

#include "perf/driver/pipe.h"
#include "tests/e2e/scenario.h"

namespace mesh::e2e {

class Raw {
 public:
  Raw(driver::NetApi& api, void* comm, driver::Side side) : api_(api), comm_(comm), side_(side) {}

  // Calls isend or irecv once, with rubbish in the request slot. Returns the slot afterwards; null:
  // try again.
  void* try_post(const driver::NetPiece& piece);
  // Tries until the call is accepted; fails the scenario when that takes too long.
  void* post(const driver::NetPiece& piece);

  // Sends one empty message of each side over middle hosts, where the first message opens the path
  // and nothing is accepted before. Does nothing without such hosts.
  void wake();

  // Calls test() once. Returns nothing while the request is open, else its bytes.
  std::optional<int> poll(void* request);
  // Waits until the request is done and returns its bytes. Fails the scenario on error or when that
  // takes too long.
  int await(void* request);
  // Waits until the request is done, without asking for sizes.
  void await_blind(void* request);

 private:
  driver::NetApi& api_;
  void* comm_;
  driver::Side side_;
};

// One end's part of a message.
struct RawPart {
  Raw& raw;
  const driver::NetPiece& piece;
};
// Sends one message and receives another one of equal size, as NCCL does: neither waits for the
// other before both are begun.
void exchange(const RawPart& out, const RawPart& in);

}  // namespace mesh::e2e
