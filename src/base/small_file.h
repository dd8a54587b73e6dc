#pragma once
// Reads one-line files such as those of sysfs and short files that people write, and replaces files
// that others read meanwhile. Thread: any. Bound: the first 4095 bytes, or the bound given.

#include <mesh/status.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mesh {

// Returns the first line without its newline, or no value if the file is unreadable.
std::optional<std::string> read_first_line(const std::string& path);
// Returns no value if the file is unreadable, or is not one decimal number.
std::optional<long long> read_number(const std::string& path);

// Reads a whole regular file. Returns NotFound if there is none, Exhausted if it has more than
// bytes_max, and InvalidArgument if it is a folder or a pipe.
Result<std::string> read_short_file(const std::string& path, std::size_t bytes_max);

// Writes FILE.<pid>.tmp and renames it. So a reader sees the old text or the new one, never a part,
// and processes that write the file at once do not disturb each other. Returns 0 or an errno value.
int replace_file(const std::string& path, std::string_view text);

}  // namespace mesh
