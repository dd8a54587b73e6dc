#pragma once
// Reads a JSON document and typed fields of its objects. The first thing that is not as it should
// be ends the reading, and the text about it names the line and column, the object, the key, the
// value and what is wanted. Thread: any (pure). Bound: JsonBounds.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh {

using Json = nlohmann::ordered_json;  // keeps the order of the text, from which places are found

// Thrown and caught while one document is read.
class BadField : public std::runtime_error {
 public:
  BadField(const std::string& what, const Json* at) : std::runtime_error(what), at_(at) {}
  const Json* at() const noexcept { return at_; }  // null: the object that is being read

 private:
  const Json* at_;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw BadField(fmt::format(format, std::forward<Args>(args)...), nullptr);
}
// Throws "WHAT: KEY is VALUE; wanted: WANTED".
[[noreturn]] void refuse(const Json& object, const std::string& what, const char* key,
                         const std::string& wanted);

// Calls read(object). A failure in it that names no place is at the object.
template <typename Read>
void read_object(const Json& object, const Read& read) {
  try {
    read(object);
  } catch (const BadField& bad) {
    throw BadField(bad.what(), bad.at() != nullptr ? bad.at() : &object);
  }
}

struct JsonBounds {
  std::size_t bytes = 0;
  int depth = 0;
};
// Calls read() with the root of the document, in which no object has a key twice. Returns an empty
// text, or what is wrong and where, in one line of ASCII.
std::string read_json(std::string_view text, const JsonBounds& bounds,
                      const std::function<void(const Json&)>& read);

// Returns a value as text for a log line, cut to a bound.
std::string shown(const Json& value);

void check_keys(const Json& object, const std::string& what, const std::vector<const char*>& known);
// Throws if the field is missing.
const Json& member_of(const Json& object, const std::string& what, const char* key);
// Returns an empty text if the field is missing.
std::string text_of(const Json& object, const std::string& what, const char* key);
std::string name_of(const Json& object, const std::string& what);

struct Range {
  double low, high, fallback;
};
double number_of(const Json& object, const std::string& what, const char* key, Range range);
std::uint64_t count_of(const Json& object, const std::string& what, const char* key,
                       std::uint64_t fallback);
// Returns false if the field is missing.
bool flag_of(const Json& object, const std::string& what, const char* key);
// Returns an empty list if the field is missing.
const Json& list_of(const Json& object, const std::string& what, const char* key);

}  // namespace mesh
