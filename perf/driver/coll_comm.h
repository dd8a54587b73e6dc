#pragma once
// The group of all ranks for one-shot all-reduce: the CollNet that the plugin's library has beside
// its net, called in NCCL's order. NCCL finds none unless NCCL_MESH_ONESHOT_BYTES is set when the
// library is asked. Thread: one owner; start() and test() from the progress thread. Bound: the
// plugin's own bound for connect; the bootstrap's timeout for the rest.

#include "perf/driver/bootstrap.h"
#include "perf/driver/communicator.h"
#include "plugin/nccl/collnet.h"

#include <cstddef>
#include <string>

namespace mesh::driver {

// In NCCL's numbering.
struct CollReduction {
  int type = 0;
  int operation = 0;
};

struct CollWork {
  void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  CollReduction reduction;
};

class CollComm {
 public:
  explicit CollComm(Communicator& communicator) : communicator_(communicator) {}
  ~CollComm() { close(); }
  CollComm(const CollComm&) = delete;
  CollComm& operator=(const CollComm&) = delete;

  // Joins all ranks of the bootstrap, which call it at the same time. Returns an ncclResult_t;
  // `error` says what failed. A member without a group makes it fail on all.
  int open(Bootstrap& bootstrap, const CollReduction& reduction, std::string& error);
  int close();

  // Leaves *request null if the caller must try again.
  int start(const CollWork& work, void** request);
  int test(void* request, int* done);

 private:
  int join(Bootstrap& bootstrap);
  int vote(Bootstrap& bootstrap, const CollReduction& reduction);

  Communicator& communicator_;
  const ncclCollNet_v12_t* table_ = nullptr;
  void* context_ = nullptr;
  void* comm_ = nullptr;
  void* mhandle_ = nullptr;
};

}  // namespace mesh::driver
