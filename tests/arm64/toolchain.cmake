# Builds for aarch64 with Debian's cross compiler and the libraries that tests/arm64/sysroot brings;
# what is built runs under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(MESH_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../../build/arm64-sysroot)
get_filename_component(MESH_SYSROOT ${MESH_SYSROOT} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${MESH_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The compiler has a C library of its own; of the rest only what is beside it is looked at.
set(CMAKE_CXX_FLAGS_INIT
  "-isystem ${MESH_SYSROOT}/usr/include -isystem ${MESH_SYSROOT}/usr/include/aarch64-linux-gnu")
set(libraries ${MESH_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath-link,${libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR
  "qemu-aarch64;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${libraries}")
