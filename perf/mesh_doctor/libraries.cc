#include "perf/mesh_doctor/libraries.h"

#include "perf/driver/plugin_log.h"
#include "perf/driver/world.h"
#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
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

namespace {

using driver::variable;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string find_python(const Tree& tree, const Environment& environment) {
  for (const char* const name : {"python3", "python"}) {
    for (const std::string& folder : words_of(variable(environment, "PATH"), ':')) {
      if (tree.has(folder + "/" + name)) return folder + "/" + name;
    }
  }
  return {};
}

// Adds folders such as PREFIX/lib/python3.11/site-packages. A `version` of "python3" means any.
void add_libraries(const Tree& tree, const std::string& prefix, const std::string& version,
                   std::vector<std::string>& folders) {
  for (const std::string& name : tree.names(prefix + "/lib")) {
    const bool wanted =
        version == "python3" ? name.starts_with("python3") : name == version || name == "python3";
    if (!wanted) continue;
    for (const char* const kind : {"/site-packages", "/dist-packages"}) {
      const std::string folder = prefix + "/lib/" + name + kind;
      if (tree.has(folder)) folders.push_back(folder);
    }
  }
}

}  // namespace

std::vector<std::string> python_folders(const Tree& tree, const Environment& environment) {
  const std::string python = find_python(tree, environment);
  if (python.empty()) return {};
  std::vector<std::string> folders = words_of(variable(environment, "PYTHONPATH"), ':');
  std::string real = tree.resolved(python);
  std::string version = name_of(real);
  if (!version.starts_with("python3")) version = "python3";
  std::string prefix = folder_of(folder_of(python));
  if (tree.has(prefix + "/pyvenv.cfg")) {
    add_libraries(tree, prefix, version, folders);
    return folders;
  }
  if (!real.empty()) prefix = folder_of(folder_of(real));
  const std::string home = variable(environment, "HOME");
  if (!home.empty()) add_libraries(tree, home + "/.local", version, folders);
  if (prefix == "/usr") add_libraries(tree, "/usr/local", version, folders);
  add_libraries(tree, prefix, version, folders);
  return folders;
}

namespace {

class MappedFile {
 public:
  explicit MappedFile(const std::string& file) {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat about {};
    if (!fd.valid() || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode)) return;
    if (about.st_size <= 0) return;
    bytes_ = static_cast<std::size_t>(about.st_size);
    data_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  }
  ~MappedFile() {
    if (data_ != MAP_FAILED) ::munmap(data_, bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Returns the text behind `words`; empty if the file does not have them.
  std::string_view behind(std::string_view words) const {
    if (data_ == MAP_FAILED) return {};
    const std::string_view all(static_cast<const char*>(data_), bytes_);
    const auto* const at =
        static_cast<const char*>(::memmem(data_, bytes_, words.data(), words.size()));
    if (at == nullptr) return {};
    return all.substr(static_cast<std::size_t>(at - all.data()) + words.size());
  }

 private:
  void* data_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

bool is_part(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; }

}  // namespace

std::string nccl_version(const std::string& file) {
  const MappedFile mapped(file);
  const std::string_view text = mapped.behind("NCCL version 2.");
  const auto* const end = std::find_if_not(text.begin(), text.end(), is_part);
  const std::string_view rest(text.data(), static_cast<std::size_t>(end - text.begin()));
  return rest.empty() ? std::string() : "2." + std::string(rest);
}

NcclVersion version_numbers(const std::string& text) {
  NcclVersion version{};
  const char* at = text.c_str();
  for (int& part : version) {
    char* end = nullptr;
    part = static_cast<int>(std::strtol(at, &end, 10));
    at = *end == '.' ? end + 1 : end;
  }
  return version;
}

bool takes_empty_for_none(const std::vector<LibraryFacts>& nccl) {
  constexpr NcclVersion kFirst{2, 27, 0};  // NCCL_NET_PLUGIN became a list, which may be empty
  return nccl.empty() || std::any_of(nccl.begin(), nccl.end(), [&](const LibraryFacts& each) {
           return each.version.empty() || version_numbers(each.version) >= kFirst;
         });
}

bool is_our_plugin(const std::string& file) {
  return !MappedFile(file).behind(driver::kPluginPrefix).empty();
}

}  // namespace mesh::doctor
