#include "perf/mesh_scale/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mesh::scale {
namespace {
constexpr double kKib = 1024, kMib = kKib * kKib, kNsPerUs = 1000;

struct Column {
  const char* name;
  double PerPeer::*value;
  int decimals;
  bool time;
};
constexpr std::array<Column, 10> kColumns{{
    {"queue_pairs", &PerPeer::queue_pairs, 2, false},
    {"descriptors", &PerPeer::descriptors, 2, false},
    {"heap_kib", &PerPeer::heap_kib, 1, false},
    {"resident_kib", &PerPeer::resident_kib, 1, false},
    {"connect_us", &PerPeer::connect_us, 0, true},
    {"connect_cpu_us", &PerPeer::connect_cpu_us, 0, true},
    {"close_us", &PerPeer::close_us, 0, true},
    {"close_cpu_us", &PerPeer::close_cpu_us, 0, true},
    {"first_large_us", &PerPeer::first_large_us, 0, true},
    {"second_large_us", &PerPeer::second_large_us, 0, true},
}};

const Figures& base_of(const std::vector<Figures>& all) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const Figures& each) { return each.peers == kBasePeers; });
  return found == all.end() ? all.front() : *found;
}
}  // namespace

PerPeer per_peer(const Figures& figures) {
  const auto share = [&figures](std::uint64_t before, std::uint64_t after, double unit) {
    return (static_cast<double>(after) - static_cast<double>(before)) / unit /
           static_cast<double>(figures.peers);
  };
  const auto [peers, alone, connected, closing, closed, queue_pairs, first_large_ns,
              second_large_ns] = figures;
  return {.queue_pairs = share(0, queue_pairs, 1),
          .descriptors = share(alone.descriptors, connected.descriptors, 1),
          .heap_kib = share(alone.heap_bytes, connected.heap_bytes, kKib),
          .resident_kib = share(alone.resident_bytes, connected.resident_bytes, kKib),
          .connect_us = share(alone.wall_ns, connected.wall_ns, kNsPerUs),
          .connect_cpu_us = share(alone.cpu_ns, connected.cpu_ns, kNsPerUs),
          .close_us = share(closing.wall_ns, closed.wall_ns, kNsPerUs),
          .close_cpu_us = share(closing.cpu_ns, closed.cpu_ns, kNsPerUs),
          .first_large_us = static_cast<double>(first_large_ns) / kNsPerUs,
          .second_large_us = static_cast<double>(second_large_ns) / kNsPerUs};
}

std::string table(const std::vector<Figures>& all) {
  std::string text =
      "# mesh_scale: one process of a communicator with a channel to each peer and one from each, "
      "on the\n# software fabric; the peers are in one other process. Figures are per peer. heap: "
      "allocated by the engine;\n# resident: this and the memory of the software fabric's NICs. "
      "first, second: large messages of 1 MiB to one peer, medians of 16 peers.\n#\n# peers "
      "threads";
  for (const Column& column : kColumns) text += fmt::format(" {:>14}", column.name);
  text += '\n';
  for (const Figures& each : all) {
    const PerPeer values = per_peer(each);
    text += fmt::format("{:>7} {:>7}", each.peers, each.connected.threads);
    for (const Column& column : kColumns)
      text += fmt::format(" {:>14.{}f}", values.*column.value, column.decimals);
    text += '\n';
  }
  return text;
}

double HostMemory::ratio() const noexcept {
  return static_cast<double>(together_bytes) / static_cast<double>(apart_bytes);
}

namespace {
HostMemory memory_of(const std::vector<Figures>& processes, const Figures& alone,
                     std::uint64_t Usage::*bytes) {
  const auto grown = [bytes](const Figures& each) {
    return each.connected.*bytes - each.alone.*bytes;
  };
  HostMemory memory{.apart_bytes = processes.size() * grown(alone)};
  for (const Figures& each : processes) memory.together_bytes += grown(each);
  return memory;
}
}  // namespace

HostMemory heap_of(const std::vector<Figures>& processes, const Figures& alone) {
  return memory_of(processes, alone, &Usage::heap_bytes);
}

std::string host_lines(const std::vector<Figures>& processes, const Figures& alone) {
  std::uint64_t queue_pairs = 0, descriptors = 0, threads = 0;
  for (const Figures& each : processes) {
    queue_pairs += each.queue_pairs;
    descriptors += each.connected.descriptors;
    threads += each.connected.threads;
  }
  std::string text = fmt::format(
      "# host of {} processes with {} peers each: {} queue pairs, {} descriptors, {} threads\n",
      processes.size(), alone.peers, queue_pairs, descriptors, threads);
  const auto add = [&](const char* name, const HostMemory& memory) {
    text += fmt::format(
        "{}_mib {:.1f}; the sum of as many processes, each alone on its host: {:.1f} (ratio "
        "{:.3f})\n",
        name, static_cast<double>(memory.together_bytes) / kMib,
        static_cast<double>(memory.apart_bytes) / kMib, memory.ratio());
  };
  add("heap", heap_of(processes, alone));
  add("resident", memory_of(processes, alone, &Usage::resident_bytes));
  return text;
}

std::string json(const std::vector<Figures>& all) {
  std::string text = "[";
  for (const Figures& each : all) {
    const PerPeer values = per_peer(each);
    text += fmt::format("{}\n  {{\"peers\": {}, \"threads\": {}", text.size() == 1 ? "" : ",",
                        each.peers, each.connected.threads);
    for (const Column& column : kColumns)
      text += fmt::format(", \"{}\": {:.3f}", column.name, values.*column.value);
    text += "}";
  }
  return text + "\n]\n";
}

namespace {
void add_limits(const Figures& figures, Judge what, std::vector<std::string>& lines) {
  const PerPeer values = per_peer(figures);
  const auto judge = [&](const char* name, double value, double limit) {
    if (value > limit)
      lines.push_back(fmt::format("{}: {:.1f} with {} peers, at most {:.0f} wanted", name, value,
                                  figures.peers, limit));
  };
  judge("heap_kib", values.heap_kib, kHeapKibMax);
  if (what != Judge::CountsAndTimes) return;
  judge("connect_cpu_us", values.connect_cpu_us, kConnectCpuUsMax);
  judge("first_large_us - second_large_us", values.first_large_us - values.second_large_us,
        kLargeLaterUsMax);
}
}  // namespace

std::vector<std::string> out_of_proportion(const std::vector<Figures>& all, Judge what) {
  std::vector<std::string> lines;
  const Figures& base = base_of(all);
  const PerPeer wanted = per_peer(base);
  for (const Figures& each : all) {
    if (each.peers >= kBasePeers) add_limits(each, what, lines);
    if (each.peers <= base.peers) continue;
    const PerPeer values = per_peer(each);
    for (const Column& column : kColumns) {
      if (column.time && what != Judge::CountsAndTimes) continue;
      if (values.*column.value <= wanted.*column.value * kBar) continue;
      lines.push_back(fmt::format("{}: {:.{}f} with {} peers, {:.{}f} with {}", column.name,
                                  values.*column.value, column.decimals, each.peers,
                                  wanted.*column.value, column.decimals, base.peers));
    }
  }
  return lines;
}

}  // namespace mesh::scale
