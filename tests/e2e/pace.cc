#include "tests/e2e/pace.h"

#include "perf/driver/world.h"

namespace mesh::e2e {
namespace {

constexpr double kEmulationSlowness = 5;
constexpr double kShareOfABusyMachine = 1.0 / 30;
constexpr std::uint64_t kTrim = 10;
constexpr std::uint64_t kTrimmedMin = 4;

double sanitizer_slowness() noexcept {
#if defined(MESH_SANITIZE_ADDRESS)
  return 4;
#elif defined(MESH_SANITIZE_THREAD)
  return 10;
#else
  return 1;
#endif
}

}  // namespace

bool emulated() {
  static const bool known = driver::switched_on(process_environment(), "MESH_LAB");
  return known;
}

double slowness() { return sanitizer_slowness() * (emulated() ? kEmulationSlowness : 1); }

double clock_bar_s(double promised_s) { return promised_s / kShareOfABusyMachine * slowness(); }

driver::milliseconds clock_bar(std::chrono::seconds promised) {
  const std::chrono::duration<double> bar(clock_bar_s(static_cast<double>(promised.count())));
  return std::chrono::duration_cast<driver::milliseconds>(bar);
}

double processor_bar_s(double promised_s) {
  return emulated() ? clock_bar_s(promised_s) : promised_s * slowness();
}

driver::milliseconds scaled(driver::milliseconds time) {
  return std::chrono::duration_cast<driver::milliseconds>(time * slowness());
}

std::uint64_t trimmed(std::uint64_t count) {
  return emulated() ? std::max(std::min(count, kTrimmedMin), count / kTrim) : count;
}

std::size_t largest(std::size_t bytes, std::size_t when_emulated) {
  return emulated() ? when_emulated : bytes;
}

}  // namespace mesh::e2e
