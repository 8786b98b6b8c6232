# shellcheck shell=bash
# The required packages of the distribution.

readonly build_packages=(
  ca-certificates ccache cmake g++ git mold ninja-build pkg-config
)
readonly library_packages=(
  libabsl-dev libbenchmark-dev libcli11-dev libgmock-dev libgrpc++-dev libgtest-dev libprotobuf-dev
  libspdlog-dev libsqlite3-dev libssl-dev libsvm-dev libsystemd-dev libtbb-dev libyaml-cpp-dev
  nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc sqlite3
)
# Codecs and metadata format of Parquet; tools to unpack the Arrow source package.
readonly arrow_packages=(
  dpkg-dev libboost-dev libbrotli-dev liblz4-dev libsnappy-dev libthrift-dev libzstd-dev patch
  rapidjson-dev xz-utils zlib1g-dev
)
# For the Python client, its extension module and its notebook, the worker, the client of the daemon benchmark, TLS tests,
# the checks of manifests, the page, and the test of the packages.
readonly test_packages=(
  chromium chromium-driver curl debootstrap faketime jq libnghttp2-dev openssl pybind11-dev python3-dev python3-grpcio
  python3-ipykernel python3-ipython python3-ipywidgets python3-nbclient python3-nbformat python3-numpy python3-pandas
  python3-pip python3-scipy python3-selenium python3-setuptools python3-sklearn python3-venv python3-wheel python3-yaml
  systemd-container
)
readonly lint_packages=(
  clang-format clang-tidy shellcheck
)
# libFuzzer requires clang, which is large and used by one preset only. Its runtime has the version of the release's clang.
fuzz_packages=(clang libclang-rt-14-dev)
[[ $(system_value VERSION_ID) != 13 ]] || fuzz_packages=(clang libclang-rt-19-dev)
readonly fuzz_packages
readonly openblas_packages=(
  liblapacke-dev libopenblas-dev
)

# Only if rounds over several processes are asked for (FULCRUM_MPI=ON).
readonly mpi_packages=(
  libopenmpi-dev openmpi-bin
)

# is_installed PACKAGE
is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# One call for the whole list, because this runs before every build.
missing_packages() {
  local -A present=()
  local name status
  while read -r name status; do
    [[ $status == installed ]] && present[$name]=1
  done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)
  for name in "$@"; do
    [[ -n ${present[$name]:-} ]] || echo "$name"
  done
}

wanted_packages() {
  printf '%s\n' "${build_packages[@]}" "${library_packages[@]}" "${arrow_packages[@]}" \
    "${test_packages[@]}" "${lint_packages[@]}"
  if [[ $(blas_choice) == OpenBLAS ]]; then
    printf '%s\n' "${openblas_packages[@]}"
  fi
  if [[ ${FULCRUM_MPI:-OFF} == ON ]]; then
    printf '%s\n' "${mpi_packages[@]}"
  fi
  if [[ ${chosen_preset:-} == fuzz ]]; then
    printf '%s\n' "${fuzz_packages[@]}"
  fi
}

# Noninteractive: packages are configured with their defaults. Waits for locks, for example of unattended upgrades.
# Downloads are not kept, because they are large and used once.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C \
    apt-get -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o APT::Keep-Downloaded-Packages=false \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 "$@"
}

# An unavailable third-party archive is not an error, so this only checks that packages are known afterwards.
refresh_lists() {
  apt_get update
  has_candidate cmake || {
    echo "Cannot download the package lists: Failed to fetch." >&2
    return 1
  }
}

install_packages() { apt_get install --no-install-recommends "$@"; }

# has_candidate PACKAGE: succeeds if the apt sources of the machine have the package.
has_candidate() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
  [[ -n $candidate && $candidate != "(none)" ]]
}
