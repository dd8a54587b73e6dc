#pragma once
// The files of a host below a root, which tests replace by a planted tree. Paths begin with "/" and
// are those of the host. Thread: any (const). Bound: kTextMax bytes of a file, kNamesMax names of a
// folder.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::doctor {

class Tree {
 public:
  static constexpr std::size_t kTextMax = std::size_t{1} << 20;
  static constexpr std::size_t kNamesMax = 4096;

  explicit Tree(std::string root);

  bool has(const std::string& path) const;
  bool whole_machine() const noexcept { return root_.empty(); }  // false: a planted tree
  std::string at(const std::string& path) const { return root_ + path; }

  // These return an empty value, or -1, if there is none.
  std::string line(const std::string& path) const;  // the first line
  std::int64_t number(const std::string& path) const;
  std::string text(const std::string& path) const;
  std::vector<std::string> lines(const std::string& path) const;
  std::vector<std::string> names(const std::string& folder) const;  // sorted
  std::string resolved(const std::string& path) const;              // without links

 private:
  std::string root_;  // without a slash at its end
};

std::vector<std::string> words_of(const std::string& text, char separator);

}  // namespace mesh::doctor
