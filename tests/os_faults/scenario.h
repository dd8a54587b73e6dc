#pragma once
// Does what NCCL does with a plugin in a short life: init, listen, connect, accept, messages,
// close, finalize, between two communicators. Whatever fails, all that exists is closed afterwards,
// as NCCL does. Only the plugin's own calls are made inside the door. Thread: one. Bound:
// kWaitSeconds for each of connect and messages.

#include "plugin/nccl/versions.h"

#include <string>

namespace mesh::testkit {

// Ends a step that hangs: a fault must end in an error within seconds.
inline constexpr int kWaitSeconds = 60;

struct End {
  const char* step = "";  // the step that did not succeed; "": all did
  ncclResult_t result = ncclSuccess;
  bool stuck = false;  // it took longer than kWaitSeconds
  bool succeeded() const noexcept { return *step == '\0'; }
};

// Runs both communicators in this process.
End run_scenario(const nccl::NewestNet& net);

// Opens a communicator that does nothing, so that the engine outlives the scenario; null if it
// fails.
void* open_bystander(const nccl::NewestNet& net);
void close_bystander(const nccl::NewestNet& net, void* context);

// Returns the lines that the plugin has logged since the last call.
std::string take_log();

}  // namespace mesh::testkit
