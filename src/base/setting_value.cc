#include "src/base/setting_value.h"

#include "src/base/log.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

namespace mesh {

std::optional<NcclNumber> read_nccl_number(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 0);
  if (errno != 0 || end == text.c_str()) return std::nullopt;
  return NcclNumber{.value = value, .whole = *end == '\0'};
}

namespace {

bool is_ours(std::string_view variable) { return variable.starts_with("NCCL_MESH_"); }

// Reads the whole text as decimal or 0x hexadecimal.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace

std::optional<std::int64_t> read_bytes(std::string_view text) {
  std::int64_t unit = 1;
  if (!text.empty() && !text.starts_with("0x") && !text.starts_with("0X")) {
    switch (text.back()) {
      case 'k':
      case 'K': unit = kKiB; break;
      case 'm':
      case 'M': unit = kMiB; break;
      case 'g':
      case 'G': unit = kGiB; break;
    }
  }
  if (unit != 1) text.remove_suffix(1);
  const std::optional<std::int64_t> count = parse_integer(text);
  if (!count || *count > INT64_MAX / unit || *count < 0) return std::nullopt;
  return *count * unit;
}

namespace {

const char* extra_text(Extra extra) {
  switch (extra) {
    case Extra::None: return "";
    case Extra::Auto: return " or auto";
    case Extra::PowerOfTwo: return ", a power of two";
    case Extra::Multiple128: return ", a multiple of 128";
  }
  return "";
}

// Returns the range as text. Only our variables may be "auto", never those of NCCL.
std::string range_of(const IntField& field, bool ours) {
  return fmt::format("{}..{}{}", field.min, field.max, ours ? extra_text(field.extra) : "");
}
std::string range_of(const BytesField& field, bool) {
  return fmt::format("{}..{}{}", bytes_text(field.min), bytes_text(field.max),
                     extra_text(field.extra));
}
std::string range_of(const TextField& field, bool) { return field.range; }

// Returns the value as text, or empty if the plugin chooses it.
std::string value_of(const IntField& field, const Settings& settings) {
  const int value = settings.*field.member;
  return field.extra == Extra::Auto && value == kAuto ? "" : fmt::format("{}", value);
}
std::string value_of(const BytesField& field, const Settings& settings) {
  const std::int64_t value = settings.*field.member;
  return field.extra == Extra::Auto && value == kAuto ? "" : bytes_text(value);
}
std::string value_of(const TextField& field, const Settings& settings) {
  const std::string& value = settings.*field.member;
  return field.secret && !value.empty() ? "a secret" : value;
}

// Returns the text of a variable as a line may quote it.
std::string quoted(const Setting& setting, const std::string& text) {
  const auto* const field = std::get_if<TextField>(&setting.field);
  return field != nullptr && field->secret ? "its value" : fmt::format("'{}'", text);
}

template <typename Field>
bool in_range(const Field& field, std::int64_t value) {
  if (value < field.min || value > field.max) return false;
  switch (field.extra) {
    case Extra::None:
    case Extra::Auto: return true;
    case Extra::PowerOfTwo: return std::has_single_bit(static_cast<std::uint64_t>(value));
    case Extra::Multiple128: return value % 128 == 0;
  }
  return false;
}

std::optional<std::int64_t> parse(const IntField&, std::string_view text) {
  return parse_integer(text);
}
std::optional<std::int64_t> parse(const BytesField&, std::string_view text) {
  return read_bytes(text);
}

// Returns false, with the settings untouched, if the text is unusable.
template <typename Field>
bool assign(const Field& field, const std::string& text, Settings& settings) {
  auto& value = settings.*field.member;
  if (field.extra == Extra::Auto && (text == "auto" || text == "-1")) {
    value = kAuto;
    return true;
  }
  const std::optional<std::int64_t> parsed = parse(field, text);
  if (!parsed || !in_range(field, *parsed)) return false;
  value = static_cast<std::remove_reference_t<decltype(value)>>(*parsed);
  return true;
}
bool assign(const TextField& field, const std::string& text, Settings& settings) {
  if (!field.accepts(text)) return false;
  settings.*field.member = text;
  return true;
}
bool assign(const Setting& setting, const std::string& text, Settings& settings) {
  return std::visit([&](const auto& field) { return assign(field, text, settings); },
                    setting.field);
}

// Reads a number for a variable of NCCL's. If it is unusable, the default stays, as in NCCL.
Taken take_number(const IntField& field, const EnvironmentVariable& variable, Settings& settings) {
  const auto& [name, text] = variable;
  const std::optional<NcclNumber> number = read_nccl_number(text);
  if (!number) {
    LOG_WARN("{}: '{}' is not a number ({}..{}); it counts as unset", name, text, field.min,
             field.max);
    return Taken::Unset;
  }
  if (number->value >= field.lowest_unset && number->value < 0) return Taken::Unset;
  const std::int64_t used = std::clamp<std::int64_t>(number->value, field.min, field.max);
  if (used != number->value || !number->whole)
    LOG_WARN("{}: '{}' is not one of {}..{}; {} is used", name, text, field.min, field.max, used);
  settings.*field.member = static_cast<int>(used);
  return Taken::Given;
}

Taken take_foreign(const Setting& setting, const EnvironmentVariable& variable,
                   Settings& settings) {
  if (const auto* number = std::get_if<IntField>(&setting.field); number != nullptr)
    return take_number(*number, variable, settings);
  if (assign(setting, variable.second, settings)) return Taken::Given;
  LOG_WARN("{}: '{}' is not {}; it counts as unset", variable.first, variable.second,
           range_text(setting));
  return Taken::Unset;
}

}  // namespace

Taken take_value(const Setting& setting, const EnvironmentVariable& variable, Settings& settings) {
  if (!is_ours(variable.first)) return take_foreign(setting, variable, settings);
  if (assign(setting, variable.second, settings)) return Taken::Given;
  LOG_WARN("{}: {} is not usable; wanted: {}", variable.first, quoted(setting, variable.second),
           range_text(setting));
  return Taken::Unusable;
}

const EnvironmentVariable* deciding(const Setting& setting, const Environment& environment) {
  for (const char* name : {setting.name, setting.fallback}) {
    if (name == nullptr) continue;
    const auto entry = environment.find(name);
    if (entry != environment.end() && !entry->second.empty()) return &*entry;
  }
  return nullptr;
}

std::string bytes_text(std::int64_t value) {
  if (value >= kGiB && value % kGiB == 0) return fmt::format("{}G", value / kGiB);
  if (value >= kMiB && value % kMiB == 0) return fmt::format("{}M", value / kMiB);
  if (value >= kKiB && value % kKiB == 0) return fmt::format("{}K", value / kKiB);
  return fmt::format("{}", value);
}

std::string range_text(const Setting& setting) {
  return std::visit([&](const auto& field) { return range_of(field, is_ours(setting.name)); },
                    setting.field);
}

std::string value_text(const Setting& setting, const Settings& settings) {
  std::string value =
      std::visit([&](const auto& field) { return value_of(field, settings); }, setting.field);
  if (!value.empty()) return value;
  const bool text = std::holds_alternative<TextField>(setting.field);
  return text || !is_ours(setting.name) ? "unset" : "auto";
}

}  // namespace mesh
