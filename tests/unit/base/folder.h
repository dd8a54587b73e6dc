#pragma once
// A folder for the files of one test, removed with it. Thread: the test's.

#include "src/base/random.h"
#include "tests/prelude.h"

namespace mesh::testkit {

class Folder {
 public:
  Folder() { std::filesystem::create_directory(root_); }
  ~Folder() { std::filesystem::remove_all(root_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& root() const { return root_; }
  std::string path(const std::string& file) const { return root_ + "/" + file; }
  // Makes the folders above the file, too. Returns the file's path.
  std::string write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = make_parents(file);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // Makes the folder `target`, and a link to it.
  void link(const std::string& file, const std::string& target) const {
    std::filesystem::create_directories(path(target));
    std::filesystem::create_directory_symlink(path(target), make_parents(file));
  }

 private:
  std::filesystem::path make_parents(const std::string& file) const {
    std::filesystem::path whole = path(file);
    std::filesystem::create_directories(whole.parent_path());
    return whole;
  }

  const std::string root_ = testing::TempDir() + "mesh_test_" + std::to_string(random_u64());
};

}  // namespace mesh::testkit
