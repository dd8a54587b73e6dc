#include "perf/mesh_top/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::top {

namespace {

constexpr double kGiga = 1e9;
// A process is silent if it has missed so many pages, but not within the first minute.
constexpr std::uint64_t kPagesMissed = 3;
constexpr std::uint64_t kOldPageS = 60;

std::string marked(const std::string& text, bool wrong, const ViewOptions& options) {
  return wrong && options.colour ? "\033[1;31m" + text + "\033[0m" : text;
}

const std::string& label(const Sample& sample, const std::string& name) {
  static const std::string none;
  const auto found = sample.labels.find(name);
  return found == sample.labels.end() ? none : found->second;
}

// Returns the rate of a counter, per second.
double rate(const Process& process, const Sample& sample) {
  const double until = process.now.value("mesh_page_time_seconds");
  double from = process.now.value("mesh_start_time_seconds"), before = 0;
  if (process.before) {
    from = process.before->value("mesh_page_time_seconds");
    before = process.before->value(sample.name, sample.labels);
  }
  return until > from && sample.value >= before ? (sample.value - before) / (until - from) : 0;
}

bool is_silent(const Process& process, std::uint64_t age_s) {
  if (process.now.value("mesh_running") == 0) return false;
  const auto interval_s =
      static_cast<std::uint64_t>(process.now.value("mesh_page_interval_seconds"));
  return age_s > std::max(kOldPageS, kPagesMissed * interval_s);
}

std::string process_line(const Process& process, const ViewOptions& options) {
  const Page& page = process.now;
  const bool running = page.value("mesh_running") != 0;
  const auto written = static_cast<std::uint64_t>(page.value("mesh_page_time_seconds"));
  const std::uint64_t age_s = options.now_s > written ? options.now_s - written : 0;
  const bool gone = is_silent(process, age_s);
  std::string rails;
  for (const Sample* const rail : page.all("mesh_rail_up")) {
    rails += fmt::format("  {} {}", label(*rail, "rail"),
                         marked(rail->value != 0 ? "up" : "down", rail->value == 0, options));
  }
  const double errors = page.value("mesh_errors_total");
  const std::string state = gone ? "silent" : running ? "runs" : "ended";
  return fmt::format("{:<10} {:>8} {} {:>5} s {:>6} {}{}\n", page.host(), page.process(),
                     marked(fmt::format("{:<6}", state), gone, options), age_s,
                     page.value("mesh_queue_pairs"),
                     marked(fmt::format("{:>6}", errors), errors != 0, options), rails);
}

// Returns the reason for which the oldest request of a link waits, and since when.
std::string wait_text(const Page& page, const Labels& link) {
  const Sample* longest = nullptr;
  for (const Sample* const wait : page.all("mesh_waiting_seconds", link)) {
    if (wait->value > 0 && (longest == nullptr || wait->value > longest->value)) longest = wait;
  }
  return longest == nullptr
             ? ""
             : fmt::format("  {} for {} s", label(*longest, "reason"), longest->value);
}

std::string path_state(const Page& page, const Sample& path, bool* wrong) {
  std::string text;
  for (const Sample* const links :
       page.all("mesh_path_links", {{"peer", label(path, "peer")},
                                    {"direction", label(path, "direction")},
                                    {"path", label(path, "path")}})) {
    if (links->value == 0) continue;
    const std::string& state = label(*links, "state");
    text += (text.empty() ? "" : ",") + state;
    *wrong |= state == "down" || state == "quarantined";
  }
  return text;
}

std::string path_line(const Process& process, const Sample& path, const ViewOptions& options) {
  bool wrong = false;
  const std::string state = path_state(process.now, path, &wrong);
  Labels about = path.labels;
  const Sample* const via = process.now.find("mesh_path_route_info", about);
  // The paths of a receiving link count only what the receiver posts, so their rate is not shown.
  const bool sends = label(path, "direction") == "send";
  const double failures = process.now.value("mesh_path_failures_total", about);
  return fmt::format(
      "    {:>14}  {} {}{}{}\n",
      sends ? fmt::format("{:.3f} GB/s", rate(process, path) / kGiga) : "",
      marked(fmt::format("{:<8}", state), wrong, options), label(path, "path"),
      via == nullptr ? "" : "  over " + label(*via, "via"),
      failures == 0 ? "" : marked(fmt::format("  lost {} times", failures), true, options));
}

std::string link_lines(const Process& process, const Sample& link, const ViewOptions& options) {
  const Labels about = {{"peer", label(link, "peer")}, {"direction", label(link, "direction")}};
  const Page& page = process.now;
  const Sample* const bytes = page.find("mesh_bytes_total", about);
  const Sample* const messages = page.find("mesh_messages_total", about);
  if (bytes == nullptr || messages == nullptr) return {};
  const std::string waits = wait_text(page, about);
  std::string text =
      fmt::format("{:<10} {:<4} {:<10} {:>9.3f} GB/s {:>10.0f} msg/s {:>5} open {:>4} channels{}\n",
                  page.host(), label(link, "direction") == "send" ? "to" : "from",
                  label(link, "peer"), rate(process, *bytes) / kGiga, rate(process, *messages),
                  page.value("mesh_open_requests", about), page.value("mesh_channels", about),
                  marked(waits, !waits.empty(), options));
  for (const Sample* const path : page.all("mesh_path_bytes_total", about))
    text += path_line(process, *path, options);
  return text;
}

std::string relay_lines(const Process& process) {
  std::string text;
  for (const Sample* const carried : process.now.all("mesh_relay_bytes_total")) {
    if (carried->value == 0) continue;
    text += fmt::format("{:<10} carries    {:>9.3f} GB/s  for others, from {} to {}\n",
                        process.now.host(), rate(process, *carried) / kGiga,
                        label(*carried, "from"), label(*carried, "rail"));
  }
  return text;
}

}  // namespace

std::string view(const std::vector<Process>& processes, const ViewOptions& options) {
  std::string text = fmt::format("{:<10} {:>8} {:<6} {:>7} {:>6} {:>6}  {}\n", "host", "process",
                                 "state", "page", "qps", "errors", "rails");
  for (const Process& process : processes) text += process_line(process, options);
  text += "\n";
  for (const Process& process : processes) {
    for (const Sample* const link : process.now.all("mesh_links"))
      text += link_lines(process, *link, options);
    text += relay_lines(process);
  }
  return text;
}

}  // namespace mesh::top
