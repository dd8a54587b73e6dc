#pragma once
// The directory where the processes that one user runs on one machine meet, in whatever network
// namespace each of them lives. Nobody else may enter it (root aside), so nobody else can take a
// name in it, lock a file in it or put a link there. Thread: any.

#include <mesh/status.h>

#include <span>
#include <string>
#include <vector>

namespace mesh {

// /dev/shm/nccl-mesh-UID, /run/user/UID/nccl-mesh, /tmp/nccl-mesh-UID: the places in the order in
// which all processes try them, whatever their environment says.
std::vector<std::string> user_places();

// The first place that is a directory of ours and closed to others, made where nothing is. A line
// names those that were passed over and why, once in a process. System: there is no place; a line
// said so.
Result<std::string> user_directory(std::span<const std::string> places);

}  // namespace mesh
