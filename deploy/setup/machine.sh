# shellcheck shell=bash
# What the machine is and offers: system, rights, disk, memory, cores.

# The sizes were measured on Debian 12, amd64, and rounded up.
readonly packages_mib=1500
readonly mkl_mib=2300
readonly arrow_mib=500
readonly build_mib=1000

# system_value FIELD: of the description that every distribution has; empty where it has none.
system_value() { sed -n "s/^$1=//p" /etc/os-release 2>/dev/null | tr -d "\"'" || true; }

as_root() {
  if ((EUID == 0)); then
    "$@"
  else
    sudo -n -- "$@"
  fi
}

# require_root WHAT...: set-up never asks for a password, so sudo has to work without one.
require_root() {
  ((EUID == 0)) && return 0
  if ! command -v sudo >/dev/null; then
    die "Packages have to be installed, which only root may do, and there is no sudo here." \
      "Run './dev setup' as root once, or let root run:" "  apt-get install $*"
  fi
  if ! sudo -n true 2>/dev/null; then
    die "Packages have to be installed, and sudo asks for a password, which a script does not have." \
      "Run 'sudo -v' first, or './dev setup' as root once, or let root run:" "  apt-get install $*"
  fi
}

# The nearest folder that exists, for asking about a path that is yet to be made.
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
  die "Not enough disk space for $3: $1 MiB are needed in $2, $free MiB are free." \
    "Free some space there$(space_hint "$2"), then run this again."
}

space_hint() {
  case $1 in
    "$(cache_directory)"*) echo ", or set FULCRUM_CACHE to a folder on a larger disk" ;;
  esac
}

# Where a step may write.
written_places() { printf '%s\n' /usr "$(cache_directory)" "$root/build" "${TMPDIR:-/tmp}"; }

# On a full disk the log cannot grow either, so that the complaint may be missing there.
disk_is_full() {
  local place
  while read -r place; do
    (($(free_mib "$place") >= 20)) || return 0
  done < <(written_places)
  return 1
}

disk_report() {
  local place
  printf 'Free now:'
  while read -r place; do
    printf ' %s MiB in %s,' "$(free_mib "$place")" "$place"
  done < <(written_places)
  printf ' needed: %s MiB in /usr for packages, %s in %s for Arrow, %s in %s a preset.' \
    "$((packages_mib + mkl_mib))" "$arrow_mib" "$(cache_directory)" "$build_mib" "$root/build"
}

# As many as there are cores, but no more than memory allows: a large unit takes about 1.5 GiB.
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
