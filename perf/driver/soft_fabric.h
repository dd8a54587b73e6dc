#pragma once
// A software fabric for one run: a private copy of a fabric file, so that runs with one file never
// meet, and the environment that makes a process one of its hosts. The copy is a memory file and
// goes with its launcher. Thread: one owner.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <string>
#include <utility>
#include <vector>

namespace mesh::soft {
struct FabricFile;
}

namespace mesh::driver {

class SoftFabric {
 public:
  // `wanted` has names of hosts; empty: every host of the file. The ranks of a host follow one
  // another, as torchrun counts them. Errors go to stderr.
  static Result<SoftFabric> open(const std::string& file, const std::vector<std::string>& wanted,
                                 int ranks_per_host = 1);
  // Does what open() does, with a text instead of a file.
  static Result<SoftFabric> make(const std::string& text, const std::vector<std::string>& wanted,
                                 int ranks_per_host = 1);

  const std::vector<std::string>& hosts() const noexcept { return hosts_; }  // by rank
  std::vector<std::pair<std::string, std::string>> environment(std::size_t rank) const;

 private:
  static Result<SoftFabric> make_copy(const std::string& text, const soft::FabricFile& file,
                                      const std::vector<std::string>& wanted, int ranks_per_host);

  UniqueFd copy_;
  std::string path_;
  std::vector<std::string> hosts_;
  std::size_t ranks_per_host_ = 1;
};

}  // namespace mesh::driver
