#pragma once
// Makes a relayed queue pair of an end: memory for its headers and counts, a real queue pair whose
// send queue holds what becomes of the user's work, and a place in the completion queues. Thread:
// any. Bounds: the device's.

#include "src/relay/end_completion_queue.h"
#include "src/relay/end_queue_pair.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <memory>

namespace mesh::relay {

// Real work requests beyond two for each of the user's: a few that wait to be polled, and the mark
// of the end.
inline constexpr std::uint32_t kSpareRequests = 8;

struct EndQueues {
  EndCompletionQueue* sends = nullptr;
  EndCompletionQueue* receives = nullptr;
};

// Null with errno. Afterwards attr->cap has what was granted; the caller sets the context.
std::unique_ptr<EndQueuePair> make_end(verbs::Provider& real, ibv_pd* pd, const EndQueues& queues,
                                       ibv_qp_init_attr* attr);

}  // namespace mesh::relay
