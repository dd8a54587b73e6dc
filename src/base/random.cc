#include "src/base/random.h"

#include "src/base/unique_fd.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace mesh {

namespace {
// Serves containers whose seccomp filter refuses getrandom.
bool read_urandom(void* out, std::size_t bytes) {
  const UniqueFd fd(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  return fd.valid() && ::read(fd.get(), out, bytes) == static_cast<ssize_t>(bytes);
}
}  // namespace

std::array<std::uint8_t, 16> random_id() {
  std::array<std::uint8_t, 16> id{};
  ssize_t got = -1;
  do {
    got = ::getrandom(id.data(), id.size(), 0);
  } while (got < 0 && errno == EINTR);
  // Up to 256 bytes come whole or not at all (random(7)). Equal ids would join the memory of
  // unrelated processes, so without random bits nothing is made.
  if (got != static_cast<ssize_t>(id.size()) && !read_urandom(id.data(), id.size())) {
    throw std::runtime_error("the system has no random numbers");
  }
  return id;
}

std::uint64_t random_u64() {
  const std::array<std::uint8_t, 16> id = random_id();
  std::uint64_t value = 0;
  std::memcpy(&value, id.data(), sizeof value);
  return value;
}

}  // namespace mesh
