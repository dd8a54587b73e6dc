#pragma once
// Rows of texts in columns that are as wide as their widest text. Thread: any (pure).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace mesh::driver {

template <std::size_t Columns>
using Rows = std::vector<std::array<std::string, Columns>>;

// Every line begins with `indent`.
template <std::size_t Columns>
std::string text_table(const Rows<Columns>& rows, const std::string& indent = {}) {
  std::array<std::size_t, Columns> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < Columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < Columns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace mesh::driver
