#include "src/soft/json_fields.h"

#include "src/base/json_keys.h"

#include <algorithm>
#include <cctype>

namespace mesh::soft {

namespace {
constexpr int kDepthMax = 16;  // a fabric file needs five
}  // namespace

// Refuses a field that is there twice: only one would count, and a reader cannot know which of the
// two.
json parse_document(const std::string& text, std::size_t bytes_max) {
  if (text.size() > bytes_max) fail("{} bytes are not in 1..{}", text.size(), bytes_max);
  JsonKeys keys;
  const auto see = [&keys](int depth, json::parse_event_t event, json& parsed) {
    keys.see(depth, event, parsed);
    return depth <= kDepthMax;  // deeper values belong to no fabric file and are not kept
  };
  json root = json::parse(text, see);
  if (!keys.twice()) return root;
  fail("the field \"{}\" is there twice in {}", keys.key(),
       keys.where().empty() ? "the file" : "one of " + keys.where());
}

void Document::take_apart(json& value) noexcept {
  if (!value.is_structured()) return;
  for (json& inner : value) take_apart(inner);
  value.clear();  // its elements are empty by now
}

void check_keys(const json& object, const std::string& what,
                std::initializer_list<const char*> known) {
  if (!object.is_object()) fail("{} is {}, not an object", what, object.type_name());
  for (const auto& item : object.items()) {
    const bool ok =
        std::any_of(known.begin(), known.end(), [&](const char* key) { return item.key() == key; });
    if (!ok) fail("{} has an unknown field \"{}\"", what, item.key());
  }
}

std::string text_of(const json& object, const std::string& what, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return {};
  if (!it->is_string()) fail("{}: {} is {}, not a string", what, key, it->type_name());
  return it->get<std::string>();
}

std::string name_of(const json& object, const std::string& what) {
  std::string name = text_of(object, what, "name");
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  if (name.empty() || name.size() > 32 || !std::all_of(name.begin(), name.end(), good))
    fail("{}: name \"{}\" is not 1 to 32 letters, digits, '_', '-' or '.'", what, name);
  return name;
}

double number_of(const json& object, const std::string& what, const char* key, Range range) {
  const auto it = object.find(key);
  if (it == object.end()) return range.fallback;
  if (!it->is_number()) fail("{}: {} is {}, not a number", what, key, it->type_name());
  const double value = it->get<double>();
  if (!(value >= range.low && value <= range.high))
    fail("{}: {} {} is not in {}..{}", what, key, value, range.low, range.high);
  return value;
}

std::uint64_t count_of(const json& object, const std::string& what, const char* key,
                       std::uint64_t fallback) {
  return static_cast<std::uint64_t>(
      number_of(object, what, key, {0, 1e15, static_cast<double>(fallback)}));
}

bool flag_of(const json& object, const std::string& what, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return false;
  if (!it->is_boolean()) fail("{}: {} is {}, not true or false", what, key, it->type_name());
  return it->get<bool>();
}

const json& list_of(const json& object, const std::string& what, const char* key) {
  static const json kEmpty = json::array();
  const auto it = object.find(key);
  if (it == object.end()) return kEmpty;
  if (!it->is_array()) fail("{}: {} is {}, not a list", what, key, it->type_name());
  return *it;
}

}  // namespace mesh::soft
