#pragma once
// The directory where all processes of one user on one machine meet, whatever network namespace
// each is in. Nobody else but root may enter it, so nobody else can take a name there, lock a file
// or put a link there. Thread: any. Bound: three places.

#include <mesh/status.h>

#include <span>
#include <string>
#include <vector>

namespace mesh {

// The places in the order in which all processes try them, whatever their environment says:
// /dev/shm/nccl-mesh-UID, /run/user/UID/nccl-mesh, /tmp/nccl-mesh-UID.
std::vector<std::string> user_places();

// Answers the first place that is a directory of ours and closed to others; it is made if nothing
// is there. A line says which places were passed over and why, once in a process. System: there is
// no place, and a line said so.
Result<std::string> user_directory(std::span<const std::string> places);

}  // namespace mesh
