#include "tests/sim/trace.h"

namespace mesh::sim {
namespace {
Trace* g_listener = nullptr;  // one run at a time in a process

void mix(std::uint64_t& hash, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte, value >>= 8) hash = (hash ^ (value & 0xff)) * 0x100000001b3u;
}
}  // namespace

Trace::Trace(const std::atomic<std::uint64_t>& clock_ns, bool verbose)
    : clock_ns_(clock_ns), verbose_(verbose) {
  g_listener = this;
  set_log_sink(take_log_line);
}

Trace::~Trace() {
  set_log_sink(nullptr);
  g_listener = nullptr;
}

void Trace::take_log_line(LogLevel level, const char*, int, const char* text) {
  if (g_listener == nullptr || level > LogLevel::Info) return;
  if (level == LogLevel::Warn) ++g_listener->warnings_;
  if (level == LogLevel::Warn && g_listener->warned_.size() < kWarningsKept)
    g_listener->warned_.emplace_back(text);
  if (std::strstr(text, "the link is cut") != nullptr) ++g_listener->cuts_;
  g_listener->keep({.at_ns = g_listener->clock_ns_.load(std::memory_order_relaxed),
                    .what = level == LogLevel::Warn ? "WARN" : "info",
                    .line = text});
}

void Trace::note(const char* what, std::initializer_list<std::uint64_t> values) noexcept {
  ++events_;
  Event event{.at_ns = clock_ns_.load(std::memory_order_relaxed), .what = what, .line = {}};
  mix(hash_, event.at_ns);
  for (const char* at = what; *at != 0; ++at) mix(hash_, static_cast<unsigned char>(*at));
  for (const std::uint64_t value : values) {
    mix(hash_, value);
    if (event.count < event.values.size()) event.values[event.count++] = value;
  }
  keep(std::move(event));
}

void Trace::keep(Event event) {
  if (verbose_) std::printf("%s\n", text_of(event).c_str());
  kept_.push_back(std::move(event));
  if (kept_.size() > kEventsKept) kept_.pop_front();
}

bool Trace::warned(std::string_view words) const {
  return std::any_of(warned_.begin(), warned_.end(), [words](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

void Trace::violate(const std::string& what) {
  if (violated()) return;
  violation_ = what;
  if (verbose_) std::printf("VIOLATION: %s\n", what.c_str());
}

std::string Trace::text_of(const Event& event) {
  std::string text =
      fmt::format("{:>14.3f} us  {:<18}", static_cast<double>(event.at_ns) / 1000, event.what);
  for (std::size_t i = 0; i < event.count; ++i) text += fmt::format(" {}", event.values[i]);
  return event.line.empty() ? text : text + " " + event.line;
}

std::string Trace::last_events() const {
  std::string text;
  for (const Event& event : kept_) text += text_of(event) + "\n";
  return text;
}

}  // namespace mesh::sim
