# The Debian packages the project builds and tests with, in one place, and the function that
# installs what is missing. Sourced by tests/run, perf/run and tests/lab/run.

MESH_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config binutils
  libibverbs-dev libhwloc-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtbb-dev
  libgtest-dev libbenchmark-dev libseccomp-dev systemtap-sdt-dev
  python3 valgrind git dpkg-dev help2man python3-venv python3-wheel
)

# The style tests need this too.
MESH_TEST_PACKAGES=(clang-format)

# The linter, from the second ring of the tests on.
MESH_LINT_PACKAGES=(clang-tidy)

# The packages that draw the reports' charts. python3-fonttools asks for scipy (and so for Boost,
# 200 MB) or for munkres, so munkres is named too.
MESH_CHART_PACKAGES=(python3-munkres python3-matplotlib)

# Debian's Python packages belong to Debian's interpreter, which is not always the first in PATH.
mesh_python=python3
if [[ -x /usr/bin/python3 ]]; then mesh_python=/usr/bin/python3; fi

# tests/coverage counts lines with it.
MESH_COVERAGE_PACKAGES=(gcovr)

# The builds of the sanitizers and the fuzzers need these; other versions of clang have the same
# libraries, CMakePresets.json names this one.
MESH_CLANG_PACKAGES=(clang-14 libclang-rt-14-dev llvm-14)

# tests/fresh makes its bare Debian with it.
MESH_FRESH_PACKAGES=(mmdebstrap)

# A compiler for aarch64, and what runs its programs; the libraries: tests/arm64/sysroot.
MESH_ARM64_PACKAGES=(g++-aarch64-linux-gnu qemu-user)

# Hosts with kernel verbs, and other people's RDMA programs and launchers to compare with on them.
MESH_LAB_PACKAGES=(
  qemu-system-x86 kmod iproute2 procps python3
  libibverbs1 ibverbs-providers ibverbs-utils perftest
  openssh-client dropbear-bin openmpi-bin
)

mesh_missing_packages() { # PACKAGE...
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

# Says every 15 s that packages are still being installed, until it is killed.
mesh_tell_of_packages() {
  local begin=$SECONDS sleeper=
  trap 'kill "$sleeper"; exit' TERM
  while true; do
    sleep 15 &
    sleeper=$!
    wait "$sleeper"
    echo "Installing packages: $((SECONDS - begin)) s elapsed" >&2
  done
}

# Installs those of the packages that are missing. Only a set-up step installs: after it a script
# exports MESH_SET_UP=done, and a later call that finds a package missing fails with one line.
mesh_install_packages() { # PACKAGE...
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is no Debian system; install by its own means: $*" >&2
    return 0
  fi
  local missing=()
  mapfile -t missing < <(mesh_missing_packages "$@")
  if ((${#missing[@]} == 0)); then return 0; fi
  if [[ ${MESH_SET_UP:-} == done ]]; then
    echo "Packages are missing after the set-up, which installs all: ${missing[*]}" >&2
    return 1
  fi
  local root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null; then
      echo "Packages are missing and this is not root." \
        "Run once: sudo apt-get install ${missing[*]}" >&2
      return 1
    fi
    root=(sudo -n)
  fi
  echo "Installing ${missing[*]}" >&2
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq) status=0
  mesh_tell_of_packages &
  local teller=$!
  { { [[ -n ${mesh_lists_are_new:-} ]] || "${apt[@]}" update </dev/null; } &&
    mesh_lists_are_new=yes &&
    "${apt[@]}" -y --no-install-recommends install "${missing[@]}" </dev/null >/dev/null; } ||
    status=$?
  kill "$teller"
  wait "$teller" 2>/dev/null || true
  return "$status"
}
