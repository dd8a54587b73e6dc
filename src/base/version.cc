#include "src/base/version.h"

namespace mesh {

const char* version() noexcept { return MESH_VERSION; }

}  // namespace mesh
