#pragma once
// A hint for the user of a device that has no memory for a completion queue, a queue pair or a
// region. A device pins memory for each of them, and the kernel answers ENOMEM if the process may
// lock no more, or if it cannot pin the pages. Thread: any. Bound: none.

namespace mesh::verbs {

// Returns the hint, with a blank in front, for ENOMEM, and an empty text for any other errno value.
// It stands behind strerror() in the line of whoever decides on the error.
const char* memory_hint(int error) noexcept;

}  // namespace mesh::verbs
