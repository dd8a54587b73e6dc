#pragma once
// The directory where all processes of one user on one machine meet, whatever network namespace
// each is in. Nobody else but root may enter it, so nobody else can take a name there, lock a file
// or put a link there. Thread: any. Bound: three places.

#include <mesh/status.h>

#include <span>
#include <string>
#include <vector>

namespace mesh {

// Returns the places in the order in which all processes try them, whatever their environment says:
// /dev/shm/nccl-mesh-UID, /run/user/UID/nccl-mesh, /tmp/nccl-mesh-UID.
std::vector<std::string> user_places();

// Returns the first place that is a directory of this user and closed to others; makes it if
// nothing is there. A line says which places were passed over and why, once in a process. Returns
// System if there is no such place; a line said so.
Result<std::string> user_directory(std::span<const std::string> places);

}  // namespace mesh
