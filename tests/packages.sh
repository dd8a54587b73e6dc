# The Debian packages the project builds and tests with, in one place, and the function that installs what is missing.
# Sourced by tests/run and perf/run.

MESH_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config binutils
  libibverbs-dev libhwloc-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtbb-dev
  libgtest-dev libbenchmark-dev libseccomp-dev
  clang-tidy clang-format python3
)

mesh_missing_packages() {
  local package
  for package in "${MESH_PACKAGES[@]}"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
  done
}

mesh_install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is no Debian system; install by its own means: ${MESH_PACKAGES[*]}" >&2
    return 0
  fi
  local missing=()
  mapfile -t missing < <(mesh_missing_packages)
  if ((${#missing[@]} == 0)); then return 0; fi
  local root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "Packages are missing and this is not root. Run once: sudo apt-get install ${missing[*]}" >&2
      return 1
    fi
    root=(sudo -n)
  fi
  echo "Installing ${missing[*]}"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update </dev/null
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" </dev/null >/dev/null
}
