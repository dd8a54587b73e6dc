#include "perf/results/result.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace mesh::results {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json value_or_null(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json json_of(const Bandwidth& bandwidth) {
  Json json{{"gbytes_per_s", bandwidth.gbytes_per_s},
            {"bus_gbytes_per_s", bandwidth.bus_gbytes_per_s},
            {"ceiling_gbytes_per_s", value_or_null(bandwidth.ceiling_gbytes_per_s)}};
  if (bandwidth.slots_bind) json["ceiling_of"] = "slots";
  return json;
}

Json json_of(const Latency& latency) {
  return {{"min", latency.min},
          {"median", latency.median},
          {"p99", latency.p99},
          {"p99.9", latency.p999},
          {"samples", latency.samples}};
}

Json json_of(const Point& point) {
  Json json{{"bytes", point.bytes},
            {"iterations", point.iterations},
            {"verified", value_or_null(point.verified)}};
  if (point.bandwidth.has_value()) json["bandwidth"] = json_of(*point.bandwidth);
  if (point.latency_us.has_value()) json["latency_us"] = json_of(*point.latency_us);
  if (point.cpu_seconds_per_gb.has_value()) json["cpu_seconds_per_gb"] = *point.cpu_seconds_per_gb;
  if (!point.extra.empty()) json["extra"] = point.extra;
  return json;
}

Json json_of(const Series& series) {
  const Settings& settings = series.settings;
  Json json{{"operation", series.operation},
            {"qps", value_or_null(settings.qps)},
            {"signal_interval", value_or_null(settings.signal_interval)},
            {"inline_bytes", value_or_null(settings.inline_bytes)},
            {"channels", settings.channels},
            {"outstanding", settings.outstanding},
            {"points", Json::array()}};
  if (settings.via != 0) json["via"] = settings.via;
  if (settings.pause_us != 0) json["pause_us"] = settings.pause_us;
  for (const Point& point : series.points) json["points"].push_back(json_of(point));
  return json;
}

Json json_of(const Place& place) {
  return {{"host", place.host},     {"cpu", place.cpu},           {"cpus", place.cpus},
          {"kernel", place.kernel}, {"topology", place.topology}, {"ranks", place.ranks}};
}

}  // namespace

const char* kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::Model: return "model";
    case Kind::Soft: return "soft";
    case Kind::Rdma: return "rdma";
  }
  return "unknown";
}

std::string to_json(const File& file) {
  Json json{{"format", kFormat},
            {"version", kVersion},
            {"kind", kind_name(file.kind)},
            {"label", file.label},
            {"tool", file.tool},
            {"arguments", file.arguments},
            {"place", json_of(file.place)},
            {"notes", file.notes},
            {"series", Json::array()}};
  for (const Series& series : file.series) json["series"].push_back(json_of(series));
  return json.dump(1) + "\n";
}

bool write_file(const std::string& path, const File& file, std::string& why) {
  std::ofstream stream(path);
  stream << to_json(file);
  stream.close();
  if (!stream.fail()) return true;
  why = path + ": cannot be written";
  return false;
}

}  // namespace mesh::results
