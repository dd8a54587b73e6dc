#include "src/base/snapshot_json.h"

#include "src/base/json_fields.h"
#include "src/base/snapshot_fields.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace mesh {

namespace {

constexpr JsonBounds kBounds{.bytes = kSnapshotBytesMax, .depth = 16};

template <typename Value>
struct IsList : std::false_type {};
template <typename Item>
struct IsList<std::vector<Item>> : std::true_type {};

template <typename Value>
constexpr bool kIsText = std::is_same_v<Value, std::string>;
template <typename Value>
constexpr bool kIsNumber = std::is_integral_v<Value> && !std::is_same_v<Value, bool>;

class Writer {
 public:
  template <typename Value>
  void operator()(const char* name, Value& value, const fields::About& /*about*/) {
    text_ += fmt::format("{}\"{}\":", text_.back() == '{' ? "" : ",", name);
    write(value);
  }
  template <typename Value>
  void write(Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      text_ += value ? "true" : "false";
    } else if constexpr (kIsNumber<Value>) {
      text_ += std::to_string(value);
    } else if constexpr (kIsText<Value>) {
      text_ += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
    } else if constexpr (IsList<Value>::value) {
      text_ += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i != 0) text_ += ',';
        write(value[i]);
      }
      text_ += ']';
    } else {
      text_ += '{';
      fields::visit(*this, value);
      text_ += '}';
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads the fields of one object. A field that is missing keeps its value.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  template <typename Value>
  void operator()(const char* name, Value& value, const fields::About& /*about*/) {
    if (!object_.is_object()) refuse_value(object_, "the snapshot", "an object");
    const auto found = object_.find(name);
    if (found != object_.end()) read(*found, name, value);
  }

 private:
  [[noreturn]] static void refuse_value(const Json& value, const char* name, const char* wanted) {
    throw BadField(fmt::format("{} is {}; wanted: {}", name, shown(value), wanted), &value);
  }

  template <typename Value>
  static void read(const Json& from, const char* name, Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      if (!from.is_boolean()) refuse_value(from, name, "true or false");
      value = from.get<bool>();
    } else if constexpr (kIsNumber<Value>) {
      const bool fits =
          std::is_signed_v<Value> ? from.is_number_integer() : from.is_number_unsigned();
      if (!fits) refuse_value(from, name, "a whole number");
      value = from.get<Value>();
    } else if constexpr (kIsText<Value>) {
      if (!from.is_string()) refuse_value(from, name, "a text");
      value = from.get<std::string>();
    } else if constexpr (IsList<Value>::value) {
      if (!from.is_array()) refuse_value(from, name, "a list");
      for (const Json& each : from) read(each, name, value.emplace_back());
    } else {
      if (!from.is_object()) refuse_value(from, name, "an object");
      Reader reader(from);
      fields::visit(reader, value);
    }
  }

  const Json& object_;
};

}  // namespace

std::string to_json(Snapshot snapshot) {
  Writer writer;
  writer.write(snapshot);
  return writer.take() + "\n";
}

Result<Snapshot> snapshot_from(std::string_view text, std::string* why) {
  Snapshot snapshot;
  snapshot.schema = 0;
  const std::string wrong = read_json(text, kBounds, [&snapshot](const Json& root) {
    Reader reader(root);
    reader("schema", snapshot.schema, "");
    if (snapshot.schema == kSnapshotSchema) fields::visit(reader, snapshot);
  });
  if (wrong.empty() && snapshot.schema == kSnapshotSchema) return snapshot;
  *why = !wrong.empty() ? wrong
                        : fmt::format("its schema is {}; this program reads schema {}",
                                      snapshot.schema, kSnapshotSchema);
  *why = "no snapshot of nccl-mesh: " + *why;
  return Errc::Protocol;
}

}  // namespace mesh
