#pragma once
// Makes a relayed queue pair of an end: memory for its headers and counts, a real queue pair whose
// send queue has room for the work requests that the user's become, and a place in the completion
// queues. Thread: any. Bounds: the device's.

#include "src/relay/end_completion_queue.h"
#include "src/relay/end_queue_pair.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <memory>

namespace mesh::relay {

// Real work requests beyond the two for each of the user's: a few that wait to be polled, and the
// mark that EndQueuePair posts behind all others when it fails.
inline constexpr std::uint32_t kSpareRequests = 8;

struct EndQueues {
  EndCompletionQueue* sends = nullptr;
  EndCompletionQueue* receives = nullptr;
};

// Returns null with errno on failure. Afterwards attr->cap has what was granted; the caller sets
// the context.
std::unique_ptr<EndQueuePair> make_end(verbs::Provider& real, ibv_pd* pd, const EndQueues& queues,
                                       ibv_qp_init_attr* attr);

}  // namespace mesh::relay
