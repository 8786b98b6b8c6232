# shellcheck shell=bash
# Everything that comes as a package of the distribution.

readonly build_packages=(
  ca-certificates ccache cmake g++ git mold ninja-build pkg-config
)
readonly library_packages=(
  libabsl-dev libbenchmark-dev libcivetweb-dev libcli11-dev libgmock-dev libgrpc++-dev libgtest-dev libprotobuf-dev
  libspdlog-dev libsqlite3-dev libssl-dev libsvm-dev libsystemd-dev libtbb-dev libyaml-cpp-dev
  nlohmann-json3-dev prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc sqlite3
)
# The codecs of Parquet and its metadata format; what Arrow's source package is unpacked with.
readonly arrow_packages=(
  dpkg-dev libboost-dev libbrotli-dev liblz4-dev libsnappy-dev libthrift-dev libzstd-dev patch
  rapidjson-dev xz-utils zlib1g-dev
)
# A worker in Python, a crowd of workers that costs little, and manifests to be read.
readonly test_packages=(
  libnghttp2-dev openssl python3-grpcio python3-yaml
)
readonly lint_packages=(
  clang-format clang-tidy shellcheck
)
# libFuzzer comes with clang, which is large and used for one preset.
readonly fuzz_packages=(
  clang libclang-rt-14-dev
)
readonly openblas_packages=(
  liblapacke-dev libopenblas-dev
)

# is_installed PACKAGE
is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# One call for the whole list: this is on the way of every build.
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
  if [[ ${chosen_preset:-} == fuzz ]]; then
    printf '%s\n' "${fuzz_packages[@]}"
  fi
}

# Packages may ask questions while they are configured; here they take their defaults.
# A lock held by unattended upgrades is waited for. Downloads are not kept: they are large, and used once.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C \
    apt-get -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o APT::Keep-Downloaded-Packages=false \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 "$@"
}

# A third party's archive that is down shall not stop us, so what counts is that packages are known afterwards.
refresh_lists() {
  apt_get update
  has_candidate cmake || {
    echo "The lists of packages could not be downloaded: Failed to fetch." >&2
    return 1
  }
}

install_packages() { apt_get install --no-install-recommends "$@"; }

# has_candidate PACKAGE: can the machine's own sources install it?
has_candidate() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" { print $2 }')
  [[ -n $candidate && $candidate != "(none)" ]]
}
