# shellcheck shell=bash
# Properties of the machine: system, privileges, disk, memory, cores.

# Measured on Debian 12, amd64, and rounded up.
readonly packages_mib=1500
readonly mkl_mib=2300
readonly arrow_mib=500
readonly build_mib=1000

# system_value FIELD: prints a field of /etc/os-release; empty if it is missing.
system_value() { sed -n "s/^$1=//p" /etc/os-release 2>/dev/null | tr -d "\"'" || true; }

as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    sudo -n -- "$@"
  fi
}

# require_root PACKAGE...: set-up never prompts for a password, so sudo must work without one.
require_root() {
  ((EUID == 0)) && return 0
  if ! command -v sudo >/dev/null; then
    die "Installing packages requires root, and sudo is not installed." \
      "Run './dev setup' once as root, or run as root:" "  apt-get install $*"
  fi
  if ! sudo -n true 2>/dev/null; then
    die "Installing packages requires root, and sudo requires a password." \
      "Run 'sudo -v' first, or './dev setup' once as root, or run as root:" "  apt-get install $*"
  fi
}

# Prints the nearest existing parent directory of a path.
existing_parent() {
  local path=$1
  while [[ ! -d $path ]]; do path=$(dirname -- "$path"); done
  echo "$path"
}

free_mib() { df --output=avail -B 1M -- "$(existing_parent "$1")" | tail -n 1 | tr -d ' '; }

# require_space MIB PATH WHAT
require_space() {
  local free
  free=$(free_mib "$2")
  ((free >= $1)) && return 0
  die "Not enough disk space for $3: $1 MiB required in $2, $free MiB free." \
    "Free some space there$(space_hint "$2"), then run this again."
}

space_hint() {
  case $1 in
    "$(cache_directory)"*) echo ", or set FULCRUM_CACHE to a folder on a larger disk" ;;
  esac
}

# The directories that a step may write to.
written_places() { printf '%s\n' /usr "$(cache_directory)" "$root/build" "${TMPDIR:-/tmp}"; }

# If the disk is full, the error message may be missing from the log.
disk_is_full() {
  local place
  while read -r place; do
    (($(free_mib "$place") >= 20)) || return 0
  done < <(written_places)
  return 1
}

disk_report() {
  local place
  printf 'Free:'
  while read -r place; do
    printf ' %s MiB in %s,' "$(free_mib "$place")" "$place"
  done < <(written_places)
  printf ' required: %s MiB in /usr for packages, %s in %s for Arrow, %s in %s per preset.' \
    "$((packages_mib + mkl_mib))" "$arrow_mib" "$(cache_directory)" "$build_mib" "$root/build"
}

# One job per core, limited by memory: a large translation unit takes about 1.5 GiB.
job_count() {
  local cores memory_kib by_memory
  if [[ -n ${FULCRUM_JOBS:-} ]]; then
    echo "$FULCRUM_JOBS"
    return
  fi
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$((memory_kib / 1572864))
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}
