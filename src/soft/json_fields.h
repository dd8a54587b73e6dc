#pragma once
// Reads typed fields of the objects of a JSON document. A field that is not as it should be throws
// BadField, whose text names the object, the field, the value and the range. Thread: any (pure).
// Bounds: those of parse_document.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace mesh::soft {

using nlohmann::json;

// Thrown and caught while one file is read; the first contradiction ends the reading.
class BadField : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw BadField(fmt::format(format, std::forward<Args>(args)...));
}

// A document whose destruction needs no memory. The destructor of a json that is not empty first
// moves its contents into a list, and ends the process if there is no memory for that.
class Document {
 public:
  explicit Document(json root_of) : root_(std::move(root_of)) {}
  ~Document() { take_apart(root_); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  const json& root() const noexcept { return root_; }

 private:
  static void take_apart(json& value) noexcept;  // recurses as deep as parse_document allows

  json root_;
};

// Parses a document. Throws BadField, or json::exception if the text is not JSON. No object of the
// document has a field twice.
json parse_document(const std::string& text, std::size_t bytes_max);

void check_keys(const json& object, const std::string& what,
                std::initializer_list<const char*> known);
// Returns an empty text if the field is missing.
std::string text_of(const json& object, const std::string& what, const char* key);
std::string name_of(const json& object, const std::string& what);

struct Range {
  double low, high, fallback;
};
double number_of(const json& object, const std::string& what, const char* key, Range range);
std::uint64_t count_of(const json& object, const std::string& what, const char* key,
                       std::uint64_t fallback);
// Returns false if the field is missing.
bool flag_of(const json& object, const std::string& what, const char* key);
// Returns an empty list if the field is missing.
const json& list_of(const json& object, const std::string& what, const char* key);

}  // namespace mesh::soft
