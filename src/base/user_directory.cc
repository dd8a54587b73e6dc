#include "src/base/user_directory.h"

#include "src/base/log.h"
#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

namespace mesh {

namespace {

// Returns why the place cannot be used; empty if it can.
std::string fault_of(const std::string& place) {
  if (::mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) return std::strerror(errno);
  // The place is opened before it is judged, and not through a link, so what is judged is what is
  // used.
  const UniqueFd fd(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0) {
    const int error = errno;
    if (::lstat(place.c_str(), &about) != 0 || about.st_uid == ::geteuid())
      return std::strerror(error);
  }
  if (about.st_uid != ::geteuid())
    return fmt::format("it belongs to user {}, not {}", about.st_uid, ::geteuid());
  const unsigned open_to_others = about.st_mode & 077u;
  return open_to_others == 0 ? ""
                             : fmt::format("its mode {:o} lets others in", about.st_mode & 0777u);
}

void warn_once(const std::string& line) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;  // exit handlers use it too
  const std::lock_guard lock(mutex);
  if (said->insert(line).second) LOG_WARN("{}", line);
}

}  // namespace

std::vector<std::string> user_places() {
  const uid_t user = ::geteuid();
  return {fmt::format("/dev/shm/nccl-mesh-{}", user), fmt::format("/run/user/{}/nccl-mesh", user),
          fmt::format("/tmp/nccl-mesh-{}", user)};
}

Result<std::string> user_directory(std::span<const std::string> places) {
  std::string faults;
  for (const std::string& place : places) {
    const std::string fault = fault_of(place);
    if (fault.empty()) {
      if (!faults.empty()) warn_once(fmt::format("{} is used, since {}", place, faults));
      return place;
    }
    faults += fmt::format("{}{} cannot be: {}", faults.empty() ? "" : "; ", place, fault);
  }
  warn_once("processes of this user cannot meet, since " + faults);
  return Errc::System;
}

}  // namespace mesh
