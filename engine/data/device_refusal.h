#pragma once
// The lines about objects that a device refuses. Thread: any. Bound: none.

#include <mesh/status.h>

#include "engine/data/queue_pair.h"

#include <cstdint>
#include <string_view>

namespace mesh::engine {

// Logs that the device cannot create the object, with errno's value, and returns System.
Status tell_refused(std::string_view device, std::string_view object, int error) noexcept;

// The answer of a device to the last try to make a queue pair.
struct PairAnswer {
  int error = 0;                   // errno's value; 0: it grants too few bytes inline
  std::uint32_t inline_bytes = 0;  // granted
};
void tell_no_queue_pair(std::string_view device, const QueueDepths& depths,
                        const PairAnswer& answer);

}  // namespace mesh::engine
