#include "perf/mesh_doctor/tree.h"

#include "src/base/small_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace mesh::doctor {

namespace fs = std::filesystem;

Tree::Tree(std::string root) : root_(std::move(root)) {
  while (root_.ends_with('/')) root_.pop_back();
  std::error_code none;
  const fs::path real = root_.empty() ? fs::path() : fs::canonical(root_, none);
  if (!none && !real.empty()) root_ = real.string();
}

bool Tree::has(const std::string& path) const {
  std::error_code none;
  return fs::exists(at(path), none);
}

std::string Tree::line(const std::string& path) const {
  return read_first_line(at(path)).value_or("");
}

std::int64_t Tree::number(const std::string& path) const {
  return read_number(at(path)).value_or(-1);
}

// Files of /proc tell no size.
std::string Tree::text(const std::string& path) const {
  std::ifstream stream(at(path), std::ios::binary);
  std::string text(kTextMax, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(stream.gcount() > 0 ? static_cast<std::size_t>(stream.gcount()) : 0);
  return text;
}

std::vector<std::string> Tree::lines(const std::string& path) const {
  return words_of(text(path), '\n');
}

std::vector<std::string> Tree::names(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator each(at(folder), none), end; !none && each != end;
       each.increment(none)) {
    if (names.size() == kNamesMax) break;
    names.push_back(each->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Tree::resolved(const std::string& path) const {
  std::error_code none;
  const std::string real = fs::canonical(at(path), none).string();
  return none || !real.starts_with(root_) ? std::string() : real.substr(root_.size());
}

std::vector<std::string> words_of(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

}  // namespace mesh::doctor
