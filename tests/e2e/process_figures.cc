#include "tests/e2e/process_figures.h"

namespace mesh::e2e {
namespace {

constexpr std::chrono::milliseconds kLook{20};

long entries_of(const char* directory) {
  const std::filesystem::directory_iterator entries(directory);
  return static_cast<long>(std::distance(begin(entries), end(entries)));
}

}  // namespace

ProcessFigures process_figures() {
  std::ifstream maps("/proc/self/maps");
  const auto lines =
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
  return {entries_of("/proc/self/task"), entries_of("/proc/self/fd"), static_cast<long>(lines)};
}

ProcessFigures settled_process_figures() {
  constexpr int kQuietRounds = 10, kRoundsMax = 150;
  ProcessFigures last = process_figures();
  for (int round = 0, quiet = 0; round < kRoundsMax && quiet < kQuietRounds; ++round) {
    std::this_thread::sleep_for(kLook);
    const ProcessFigures now = process_figures();
    quiet = now == last ? quiet + 1 : 0;
    last = now;
  }
  return last;
}

ProcessFigures process_figures_down_to(const ProcessFigures& most,
                                       std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const ProcessFigures now = process_figures();
    const bool down = now.threads <= most.threads && now.descriptors <= most.descriptors &&
                      now.mappings <= most.mappings;
    if (down || std::chrono::steady_clock::now() > end) return now;
    std::this_thread::sleep_for(kLook);
  }
}

std::string text_of(const ProcessFigures& figures) {
  return std::to_string(figures.threads) + " threads, " + std::to_string(figures.descriptors) +
         " descriptors, " + std::to_string(figures.mappings) + " mappings";
}

long wake_ups() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "voluntary_ctxt_switches:") continue;
      long count = 0;
      status >> count;
      sum += count;
    }
  }
  return sum;
}

}  // namespace mesh::e2e
