#pragma once
// The version of the build, which CMakeLists.txt names. Thread: any.

namespace mesh {

const char* version() noexcept;  // as "1.2.3"

}  // namespace mesh
