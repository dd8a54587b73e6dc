#pragma once
// One-line files as sysfs has them. Thread: any. Bound: the first 4095 bytes.

#include <optional>
#include <string>

namespace mesh {

std::optional<std::string> read_first_line(const std::string& path);  // without its newline; none: unreadable
std::optional<long long> read_number(const std::string& path);        // none: unreadable or not one decimal number

}  // namespace mesh
