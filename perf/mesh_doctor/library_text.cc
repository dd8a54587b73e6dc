#include "perf/mesh_doctor/library_text.h"

#include "perf/driver/plugin_log.h"
#include "src/base/unique_fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mesh::doctor {
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

bool is_our_plugin(const std::string& file) {
  return !MappedFile(file).behind(driver::kPluginPrefix).empty();
}

}  // namespace mesh::doctor
