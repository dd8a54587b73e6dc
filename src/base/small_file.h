#pragma once
// One-line files as sysfs has them, short ones that people write, and whole ones that others read
// while we write them. Thread: any. Bound: the first 4095 bytes, or as told.

#include <mesh/status.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mesh {

std::optional<std::string> read_first_line(
    const std::string& path);  // without its newline; none: unreadable
std::optional<long long> read_number(
    const std::string& path);  // none: unreadable or not one decimal number

// The whole of a regular file. NotFound: there is none. Exhausted: more than bytes_max.
// InvalidArgument: a folder, a pipe.
Result<std::string> read_short_file(const std::string& path, std::size_t bytes_max);

// Writes FILE.<pid>.tmp and renames it, so that a reader sees the old text or the new one, never a
// part, and processes that write the same file do not break each other's. 0 or an errno.
int replace_file(const std::string& path, std::string_view text);

}  // namespace mesh
