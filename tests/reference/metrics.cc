// The metrics and the snapshot's fields. A snapshot in which every list has an item shows them all.
#include "plugin/metrics_text.h"
#include "src/base/snapshot_fields.h"
#include "tests/reference/tables.h"

namespace mesh::reference {
namespace {

template <typename Value>
constexpr bool kIsList = false;
template <typename Item>
constexpr bool kIsList<std::vector<Item>> = true;
template <typename Value>
constexpr bool kIsText = std::is_same_v<Value, std::string>;

// Puts something into every field, and writes a row for it.
class Fields {
 public:
  template <typename Value>
  void operator()(const char* name, Value& value, const fields::About& about) {
    rows_ += row({"`" + prefix_ + name + "`", kind_of<Value>(), about.meaning});
    if constexpr (std::is_arithmetic_v<Value>) {
      value = Value{1};
    } else if constexpr (kIsText<Value>) {
      value = name == std::string("direction") ? "send" : "x";
    } else if constexpr (kIsList<Value>) {
      using Item = typename Value::value_type;
      Item& item = value.emplace_back();
      if constexpr (kIsText<Item>) item = "x";
      if constexpr (!kIsText<Item>) descend(std::string(name) + "[].", item);
    } else {
      descend(std::string(name) + ".", value);
    }
  }
  const std::string& rows() const { return rows_; }

 private:
  template <typename Value>
  static constexpr const char* kind_of() {
    if constexpr (std::is_same_v<Value, bool>) return "true or false";
    if constexpr (std::is_arithmetic_v<Value>) return "number";
    if constexpr (kIsText<Value>) return "text";
    if constexpr (std::is_same_v<Value, std::vector<std::string>>) return "texts";
    if constexpr (kIsList<Value>) return "list";
    return "object";
  }
  template <typename Value>
  void descend(const std::string& step, Value& value) {
    const std::string outer = prefix_;
    prefix_ += step;
    fields::visit(*this, value);
    prefix_ = outer;
  }

  std::string prefix_, rows_;
};

// Returns the labels of a sample behind host and process.
std::string labels_of(const std::string& sample) {
  static const std::regex label(R"re((\w+)="(?:[^"\\]|\\.)*")re");
  std::string text;
  for (std::sregex_iterator each(sample.begin(), sample.end(), label), end; each != end; ++each) {
    const std::string name = (*each)[1];
    if (name != "host" && name != "process") text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

}  // namespace

std::string snapshot_fields() {
  Snapshot shot;
  Fields fill;
  fields::visit(fill, shot);
  return head({"field", "type", "meaning"}) + fill.rows();
}

std::string metrics() {
  Snapshot shot;
  Fields fill;
  fields::visit(fill, shot);
  std::istringstream page(plugin::metrics_page(shot.engine, shot.process));
  std::string text = head({"metric", "type", "labels", "meaning"});
  // A family is "# HELP name meaning", "# TYPE name type" and its samples.
  std::string skip, name, meaning, type, sample;
  while (page >> skip >> skip >> name) {
    std::getline(page >> std::ws, meaning);
    page >> skip >> skip >> skip >> type >> std::ws;
    std::getline(page, sample);
    text += row({"`" + name + "`", type, labels_of(sample), meaning});
    while (page.peek() == 'm') std::getline(page, skip);  // mesh_...
  }
  return text;
}

}  // namespace mesh::reference
