#pragma once
// The table of all settings: name, field, range, unit and text of each, in the order of the
// documentation. config.cc reads and prints them. Thread: any (constant). Bound: the table.

#include <mesh/config.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace mesh {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

enum class Extra : std::uint8_t { None, Auto, PowerOfTwo, Multiple128 };

struct IntField {
  int Settings::*member;
  int min;
  int max;
  Extra extra = Extra::None;
  int lowest_unset = -1;  // a variable of NCCL's with a value from here to -1 counts as unset
};
struct BytesField {
  std::int64_t Settings::*member;
  std::int64_t min;
  std::int64_t max;
  Extra extra = Extra::None;
};
struct TextField {
  std::string Settings::*member;
  bool (*accepts)(std::string_view);
  const char* range;
  bool secret = false;  // its value is never printed
};

struct Setting {
  const char* name;
  const char* unit;  // empty: none
  std::variant<IntField, BytesField, TextField> field;
  const char* doc;
  const char* fallback = nullptr;  // another variable that is used if `name` is unset
};

std::span<const Setting> settings_table() noexcept;

}  // namespace mesh
