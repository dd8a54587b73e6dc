#include "tests/e2e/process_figures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mesh::e2e {
namespace {

long entries_of(const char* directory) {
  const std::filesystem::directory_iterator entries(directory);
  return static_cast<long>(std::distance(begin(entries), end(entries)));
}

}  // namespace

ProcessFigures process_figures() {
  std::ifstream maps("/proc/self/maps");
  const auto lines = std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
  return {entries_of("/proc/self/task"), entries_of("/proc/self/fd"), static_cast<long>(lines)};
}

std::string text_of(const ProcessFigures& figures) {
  return std::to_string(figures.threads) + " threads, " + std::to_string(figures.descriptors) + " descriptors, " +
         std::to_string(figures.mappings) + " mappings";
}

}  // namespace mesh::e2e
