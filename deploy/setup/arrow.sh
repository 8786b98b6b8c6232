# shellcheck shell=bash
# Arrow and Parquet: installed from packages if the system has them, otherwise built once from the source
# package in Debian testing into a prefix in the cache. Nothing from that suite is installed.

readonly arrow_suite=${FULCRUM_ARROW_SUITE:-testing}
# Only what is needed to read and write tables; compute kernels would double the build time.
readonly arrow_flags=(
  -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_UNITY_BUILD=ON
  -DARROW_BUILD_SHARED=ON
  -DARROW_BUILD_STATIC=OFF
  -DARROW_BUILD_TESTS=OFF
  -DARROW_BUILD_UTILITIES=OFF
  -DARROW_TESTING=OFF
  -DARROW_DEPENDENCY_SOURCE=SYSTEM
  -DARROW_RPATH_ORIGIN=ON
  -DARROW_PARQUET=ON
  -DARROW_CSV=ON
  -DARROW_FILESYSTEM=ON
  -DARROW_IPC=ON
  -DARROW_COMPUTE=OFF
  -DARROW_JEMALLOC=OFF
  -DARROW_MIMALLOC=OFF
  -DARROW_WITH_SNAPPY=ON
  -DARROW_WITH_ZSTD=ON
  -DARROW_WITH_LZ4=ON
  -DARROW_WITH_ZLIB=ON
  -DARROW_WITH_BROTLI=ON
  -DARROW_WITH_RE2=OFF
  -DARROW_WITH_UTF8PROC=OFF
)
# Increment this if a change of this file changes the build result.
readonly arrow_recipe=1

# Distinguishes prefixes built with other flags or for other systems or architectures.
arrow_key() {
  echo "$arrow_recipe $(system_value ID) $(system_value VERSION_ID) $(uname -m) ${arrow_flags[*]}" |
    sha256sum | cut -c 1-12
}

# Prints the prefix to build with; prints nothing if packages provide Arrow or it is not built yet.
arrow_prefix() {
  local key prefix newest=""
  arrow_from_packages && return 0
  key=$(arrow_key)
  for prefix in "$(cache_directory)"/arrow-*-"$key"; do
    [[ ! -f $prefix/lib/cmake/Parquet/ParquetConfig.cmake ]] || newest=$prefix
  done
  echo "$newest"
}

arrow_from_packages() { [[ -z $(missing_packages libarrow-dev libparquet-dev) ]]; }

arrow_ready() { arrow_from_packages || [[ -n $(arrow_prefix) ]]; }

arrow_is_packaged() { has_candidate libarrow-dev && has_candidate libparquet-dev; }

# fetch_arrow STATE FOLDER: downloads the source, and two header libraries that are outdated or missing in Debian 12.
# apt checks the signature of the suite and the hash of every file.
fetch_arrow() {
  local state=$1 folder=$2 package
  archive_source "$state/sources" deb "$arrow_suite" main
  archive_source "$state/sources" deb-src "$arrow_suite" main
  archive_apt "$state" -o APT::Update::Error-Mode=any update
  mkdir -p "$folder/download" "$folder/headers"
  cd "$folder/download" || return
  archive_apt "$state" source --download-only --only-source apache-arrow
  archive_apt "$state" download libxsimd-dev xtl-dev
  for package in ./*.deb; do dpkg-deb -x "$package" "$folder/headers"; done
  dpkg-source --no-check -x ./*.dsc "$folder/source"
  dpkg-parsechangelog -l "$folder/source/debian/changelog" -S Version | sed 's/-[^-]*$//; s/[^A-Za-z0-9.]/_/g' >"$folder/version"
}

# configure_arrow FOLDER PREFIX
configure_arrow() {
  local headers=$1/headers/usr
  cmake -S "$1/source/cpp" -B "$1/build" -G Ninja "${arrow_flags[@]}" -DCMAKE_INSTALL_PREFIX="$2" \
    -DCMAKE_INSTALL_LIBDIR=lib -Dxsimd_DIR="$(config_folder "$headers" xsimd)" -Dxtl_DIR="$(config_folder "$headers" xtl)"
}

# config_folder FOLDER NAME: prints the directory of the CMake package NAME below FOLDER.
config_folder() { dirname -- "$(find "$1" -name "$2Config.cmake" -print -quit)"; }

build_arrow() { cmake --build "$1/build" --parallel "$(job_count)"; }

# The prefix is created by a single rename, so an interrupted run leaves either no prefix or a complete one.
install_arrow() {
  DESTDIR=$1/stage cmake --install "$1/build" --strip
  sync -f "$1/stage" || true
  rm -rf -- "$2"
  mv -T -- "$1/stage$2" "$2"
}

arrow_prefix_for() { echo "$(cache_directory)/arrow-$(<"$1/version")-$(arrow_key)"; }
