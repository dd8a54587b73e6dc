#include "src/base/small_file.h"

#include "src/base/unique_fd.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mesh {

std::optional<std::string> read_first_line(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::array<char, 4095> buffer{};
  const ssize_t bytes = ::read(fd.get(), buffer.data(), buffer.size());
  if (bytes < 0) return std::nullopt;  // sysfs fails with EINVAL for entries that are not in use
  const std::string_view text(buffer.data(), static_cast<std::size_t>(bytes));
  return std::string(text.substr(0, text.find('\n')));
}

std::optional<long long> read_number(const std::string& path) {
  const std::optional<std::string> line = read_first_line(path);
  if (!line) return std::nullopt;
  long long value = 0;
  const char* const last = line->data() + line->size();
  const auto [end, error] = std::from_chars(line->data(), last, value);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

Result<std::string> read_short_file(const std::string& path, std::size_t bytes_max) {
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return errno == ENOENT || errno == ENOTDIR ? Errc::NotFound : Errc::System;
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return Errc::System;
  if (!S_ISREG(about.st_mode)) return Errc::InvalidArgument;
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Errc::System;
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > bytes_max) return Errc::Exhausted;
  }
}

namespace {
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}
}  // namespace

int replace_file(const std::string& path, std::string_view text) {
  struct stat about {};
  // Renaming over a device or a pipe would destroy it.
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return S_ISDIR(about.st_mode) ? EISDIR : EOPNOTSUPP;
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  // The file is made anew, so that we do not write through a link that somebody has put there. It
  // is as readable as the user's mask allows.
  if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) return errno;
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno;
  int error = write_all(fd.get(), text);
  fd.reset();
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

}  // namespace mesh
