#include "perf/results/result_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace mesh::results {
namespace {

using nlohmann::json;

constexpr std::uint64_t kCountMax = std::uint64_t{1}
                                    << 53;  // what every reader of JSON can hold exactly

template <typename... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw std::invalid_argument(fmt::format(text, std::forward<Arguments>(arguments)...));
}

// One object of the file and where it stands in it, for what is said about it.
class Object {
 public:
  Object(const json& value, std::string where, const std::set<std::string>& known)
      : value_(value), where_(std::move(where)) {
    if (!value.is_object()) fail("{}: an object is expected, not {}", where_, value.type_name());
    for (const auto& [key, _] : value.items()) {
      if (!known.contains(key)) fail("{}: unknown key \"{}\"", where_, key);
    }
  }

  std::string at(const std::string& key) const { return where_ + "." + key; }
  bool has(const std::string& key) const {
    return value_.contains(key) && !value_.at(key).is_null();
  }

  const json& need(const std::string& key) const {
    if (!value_.contains(key)) fail("{}: \"{}\" is missing", where_, key);
    return value_.at(key);
  }

  std::string text(const std::string& key) const {
    const json& found = need(key);
    if (!found.is_string()) fail("{}: a text is expected, not {}", at(key), found.dump());
    return found.get<std::string>();
  }

  std::uint64_t count(const std::string& key, std::uint64_t least) const {
    const json& found = need(key);
    const bool fits =
        found.is_number_integer() && (found.is_number_unsigned() || found.get<std::int64_t>() >= 0);
    const std::uint64_t number = fits ? found.get<std::uint64_t>() : 0;
    if (!fits || number < least || number > kCountMax) {
      fail("{}: {} is not a whole number of {}..2^53", at(key), found.dump(), least);
    }
    return number;
  }

  double number(const std::string& key) const { return number_of(need(key), at(key)); }

  std::optional<double> maybe_number(const std::string& key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }
  std::optional<std::uint64_t> maybe_count(const std::string& key, std::uint64_t least) const {
    return has(key) ? std::optional(count(key, least)) : std::nullopt;
  }

  const json& list(const std::string& key, std::size_t most) const {
    const json& found = need(key);
    if (!found.is_array()) fail("{}: a list is expected, not {}", at(key), found.type_name());
    if (found.size() > most) fail("{}: {} entries, at most {}", at(key), found.size(), most);
    return found;
  }

  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> found;
    for (const json& one : list(key, kPointsMax)) {
      if (!one.is_string()) fail("{}: texts are expected, not {}", at(key), one.dump());
      found.push_back(one);
    }
    return found;
  }

  static double number_of(const json& found, const std::string& where) {
    if (!found.is_number()) fail("{}: a number is expected, not {}", where, found.dump());
    const double number = found.get<double>();
    if (!std::isfinite(number) || number < 0)
      fail("{}: {} is not a number of 0 or more", where, found.dump());
    return number;
  }

 private:
  const json& value_;
  const std::string where_;
};

Kind kind_of(const Object& root) {
  const std::string name = root.text("kind");
  for (const Kind kind : {Kind::Model, Kind::Soft, Kind::Rdma}) {
    if (name == kind_name(kind)) return kind;
  }
  fail("{}: \"{}\" is not model, soft or rdma", root.at("kind"), name);
}

Bandwidth bandwidth_of(const json& value, const std::string& where) {
  const Object object(value, where, {"gbytes_per_s", "bus_gbytes_per_s", "ceiling_gbytes_per_s"});
  return {.gbytes_per_s = object.number("gbytes_per_s"),
          .bus_gbytes_per_s = object.number("bus_gbytes_per_s"),
          .ceiling_gbytes_per_s = object.maybe_number("ceiling_gbytes_per_s")};
}

Latency latency_of(const json& value, const std::string& where) {
  const Object object(value, where, {"min", "median", "p99", "p99.9", "samples"});
  const Latency latency{.min = object.number("min"),
                        .median = object.number("median"),
                        .p99 = object.number("p99"),
                        .p999 = object.number("p99.9"),
                        .samples = object.count("samples", 1)};
  if (latency.min > latency.median || latency.median > latency.p99 || latency.p99 > latency.p999) {
    fail("{}: min, median, p99 and p99.9 must not fall", where);
  }
  return latency;
}

Point point_of(const json& value, const std::string& where) {
  const Object object(value, where,
                      {"bytes", "iterations", "verified", "bandwidth", "latency_us",
                       "cpu_seconds_per_gb", "extra"});
  Point point;
  point.bytes = object.count("bytes", 0);
  point.iterations = object.count("iterations", 1);
  if (object.has("verified")) {
    const json& verified = object.need("verified");
    if (!verified.is_boolean())
      fail("{}: {} is not true, false or null", object.at("verified"), verified.dump());
    point.verified = verified.get<bool>();
  }
  if (object.has("bandwidth"))
    point.bandwidth = bandwidth_of(object.need("bandwidth"), object.at("bandwidth"));
  if (object.has("latency_us"))
    point.latency_us = latency_of(object.need("latency_us"), object.at("latency_us"));
  if (!point.bandwidth && !point.latency_us) fail("{}: neither bandwidth nor latency_us", where);
  point.cpu_seconds_per_gb = object.maybe_number("cpu_seconds_per_gb");
  if (object.has("extra")) {
    const json& extra = object.need("extra");
    if (!extra.is_object())
      fail("{}: an object is expected, not {}", object.at("extra"), extra.type_name());
    for (const auto& [key, number] : extra.items())
      point.extra[key] = Object::number_of(number, object.at("extra") + "." + key);
  }
  return point;
}

Series series_of(const json& value, const std::string& where) {
  const Object object(
      value, where,
      {"operation", "qps", "signal_interval", "inline_bytes", "channels", "outstanding", "points"});
  Series series;
  series.operation = object.text("operation");
  if (series.operation.empty()) fail("{}: must not be empty", object.at("operation"));
  series.settings = {.qps = object.maybe_count("qps", 1),
                     .signal_interval = object.maybe_count("signal_interval", 1),
                     .inline_bytes = object.maybe_count("inline_bytes", 0),
                     .channels = object.count("channels", 1),
                     .outstanding = object.count("outstanding", 1)};
  for (const json& one : object.list("points", kPointsMax)) {
    const std::string place = fmt::format("{}[{}]", object.at("points"), series.points.size());
    const Point point = point_of(one, place);
    if (!series.points.empty() && point.bytes <= series.points.back().bytes) {
      fail("{}.bytes: {} does not rise above the {} before it", place, point.bytes,
           series.points.back().bytes);
    }
    series.points.push_back(point);
  }
  return series;
}

Place place_of(const json& value) {
  const Object object(value, "place", {"host", "cpu", "cpus", "kernel", "topology", "ranks"});
  return {.host = object.text("host"),
          .cpu = object.text("cpu"),
          .kernel = object.text("kernel"),
          .cpus = object.count("cpus", 0),
          .topology = object.text("topology"),
          .ranks = object.count("ranks", 0)};
}

File file_of(const json& value) {
  const Object root(
      value, "file",
      {"format", "version", "kind", "label", "tool", "arguments", "place", "notes", "series"});
  if (root.text("format") != kFormat)
    fail("file.format: \"{}\" is not \"{}\"", root.text("format"), kFormat);
  if (root.count("version", 1) != kVersion) {
    fail("file.version: {} is not the version this program reads ({})", root.count("version", 1),
         kVersion);
  }
  File file;
  file.kind = kind_of(root);
  file.label = root.text("label");
  if (file.label.empty()) fail("file.label: must not be empty");
  file.tool = root.text("tool");
  file.arguments = root.texts("arguments");
  file.place = place_of(root.need("place"));
  file.notes = root.texts("notes");
  for (const json& one : root.list("series", kSeriesMax)) {
    file.series.push_back(series_of(one, fmt::format("series[{}]", file.series.size())));
  }
  return file;
}

}  // namespace

std::optional<File> from_json(const std::string& text, std::string& why) {
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    why = "not JSON";
    return std::nullopt;
  }
  try {
    return file_of(root);
  } catch (const std::exception& error) {
    why = error.what();
    return std::nullopt;
  }
}

std::optional<File> read_file(const std::string& path, std::string& why) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream.is_open()) {
    why = path + ": cannot be opened";
    return std::nullopt;
  }
  std::optional<File> file = from_json(text.str(), why);
  if (!file.has_value()) why = path + ": " + why;
  return file;
}

}  // namespace mesh::results
