#include "perf/mesh_doctor/loader.h"

#include "perf/driver/world.h"

#include <array>
#include <cstring>
#include <string_view>

namespace mesh::doctor {
namespace {

// glibc's cache since 2.2: a header, entries, and texts by their distance from the header.
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kHeaderBytes = 48, kEntryBytes = 24;
constexpr std::uint32_t kEntriesMax = 100'000;
constexpr std::uint32_t k32Bit = 0x0003;  // i386: an ELF library without a flag of a machine

constexpr std::array kUsual{"/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/"};

std::uint32_t word_at(const std::string& text, std::size_t at) {
  std::uint32_t word = 0;
  if (at + sizeof(word) <= text.size()) std::memcpy(&word, text.data() + at, sizeof(word));
  return word;
}

std::string text_at(const std::string& text, std::size_t at) {
  if (at >= text.size()) return {};
  return text.substr(at, text.find('\0', at) - at);
}

LibraryFacts found(const Tree& tree, const std::string& path, const std::string& by) {
  return {.found_by = by, .path = path, .file = tree.resolved(path), .version = {}};
}

}  // namespace

std::string find_in_cache(const Tree& tree, const std::string& cache, const std::string& name) {
  const std::size_t begin = cache.find(kMagic);
  if (begin == std::string::npos) return {};
  const std::uint32_t count = std::min(word_at(cache, begin + kMagic.size()), kEntriesMax);
  for (std::uint32_t index = 0; index < count; ++index) {
    const std::size_t entry = begin + kHeaderBytes + index * kEntryBytes;
    if (word_at(cache, entry) == k32Bit) continue;
    if (text_at(cache, begin + word_at(cache, entry + 4)) != name) continue;
    std::string path = text_at(cache, begin + word_at(cache, entry + 8));
    if (tree.has(path)) return path;
  }
  return {};
}

std::optional<LibraryFacts> find_library(const Tree& tree, const Environment& environment,
                                         const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (!tree.has(name)) return std::nullopt;
    return found(tree, name, "its path");
  }
  constexpr const char* kFolders = "LD_LIBRARY_PATH";
  for (const std::string& folder : words_of(driver::variable(environment, kFolders), ':')) {
    if (const std::string path = folder + "/" + name; tree.has(path))
      return found(tree, path, kFolders);
  }
  const std::string cached = find_in_cache(tree, tree.text("/etc/ld.so.cache"), name);
  if (!cached.empty()) return found(tree, cached, "ld.so.cache");
  for (const std::string folder : kUsual) {
    if (tree.has(folder + name)) return found(tree, folder + name, "the loader's own folders");
  }
  return std::nullopt;
}

}  // namespace mesh::doctor
