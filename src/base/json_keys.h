#pragma once
// Finds a key that occurs twice in one JSON object. The parser silently keeps one of the two
// values, so a person and a program that read the file may see different settings. Thread: one
// owner, for one document. Bound: the keys of the open objects, kLevels deep; deeper ones are not
// looked at.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace mesh {

class JsonKeys {
 public:
  static constexpr int kLevels = 32;

  // Must be called for each event of nlohmann's parser callback, with the values that it passes.
  template <typename Event, typename Json>
  void see(int depth, Event event, const Json& parsed) {
    if (depth >= kLevels) return;
    // An object's keys lie one level deeper than its beginning. Levels are entered by number,
    // because the parser does not report the end of what its caller has thrown away.
    if (event == Event::object_start) level(depth + 1) = {};
    if (event == Event::key) note(depth, parsed.template get_ref<const std::string&>());
  }

  // twice() tells whether a key occurred twice. key() is the first such key, and where() the keys
  // that lead to its object, such as "hosts.nics" (empty at the top).
  bool twice() const noexcept { return twice_; }
  const std::string& key() const noexcept { return key_; }
  const std::string& where() const noexcept { return where_; }

 private:
  struct Level {
    std::set<std::string> keys;
    std::string last;
  };

  Level& level(int depth) {
    const auto index = static_cast<std::size_t>(depth);
    if (index >= levels_.size()) levels_.resize(index + 1);
    return levels_[index];
  }

  void note(int depth, const std::string& key) {
    Level& here = level(depth);
    here.last = key;
    if (here.keys.insert(key).second || twice_) return;
    twice_ = true;
    key_ = key;
    for (int outer = 0; outer < depth; ++outer) {
      const std::string& name = level(outer).last;
      if (!name.empty()) where_ += (where_.empty() ? "" : ".") + name;
    }
  }

  std::vector<Level> levels_;
  bool twice_ = false;
  std::string key_, where_;
};

}  // namespace mesh
