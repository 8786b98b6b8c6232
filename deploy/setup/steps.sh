# shellcheck shell=bash
# Steps: each prints one line with its time; its output goes to a log.
# If a step fails, the end of the log and advice are printed.

log_file=""

# The directory for libraries built from source and for logs; independent of the build tree.
cache_directory() {
  local cache=${FULCRUM_CACHE:-}
  if [[ -z $cache ]]; then
    # HOME is not set in some containers; use the password database then.
    local home=${HOME:-$(getent passwd "$EUID" | cut -d: -f6)}
    cache=${XDG_CACHE_HOME:-$home/.cache}/fulcrum
  fi
  realpath -m -- "$cache"
}

say() { printf '%s\n' "$*"; }

# die MESSAGE...: prints one line per argument and exits with code 1.
die() {
  printf '\n' >&2
  printf '%s\n' "$@" >&2
  exit 1
}

# open_log NAME: creates a new log; the last ten logs per name are kept.
open_log() {
  local folder
  folder=$(cache_directory)/log
  mkdir -p "$folder" 2>/dev/null ||
    die "Cannot create $folder." "Set FULCRUM_CACHE to a writable folder."
  log_file=$folder/$1-$(date +%Y%m%d-%H%M%S)-$$.log
  : 2>/dev/null >"$log_file" ||
    die "Cannot write to $folder. The disk may be full." "Free some space, or set FULCRUM_CACHE to another folder."
  find "$folder" -name "$1-*.log" -printf '%T@ %p\n' | sort -rn | tail -n +11 | cut -d' ' -f2- |
    xargs -r -d '\n' rm -f --
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# format_ms 83250 -> 1 min 23.2 s
format_ms() {
  local tenths=$(($1 / 100)) minutes
  minutes=$((tenths / 600))
  tenths=$((tenths % 600))
  if ((minutes > 0)); then
    printf '%d min %d.%d s' "$minutes" $((tenths / 10)) $((tenths % 10))
  else
    printf '%d.%d s' $((tenths / 10)) $((tenths % 10))
  fi
}

# print_row TITLE VALUE: the layout of all lines with a time.
print_row() { printf '  %-44s %16s\n' "$1" "$2"; }

# On a terminal, a running step shows its elapsed seconds and the progress of the build.
start_ticker() {
  ticker_pid=""
  [[ -t 1 ]] || return 0
  (
    while sleep 1; do
      progress=$(tail -c 4096 "$log_file" | grep -ao '^\[[0-9]*/[0-9]*\]' | tail -n 1 || true)
      printf '\r\033[K  %-44s %16s' "$1 $progress" "$((SECONDS)) s ..."
    done
  ) &
  ticker_pid=$!
}

stop_ticker() {
  [[ -n ${ticker_pid:-} ]] || return 0
  kill "$ticker_pid" 2>/dev/null || true
  wait "$ticker_pid" 2>/dev/null || true
  ticker_pid=""
  printf '\r\033[K'
}

# step TITLE COMMAND...: runs the command with its output in the log; exits if it fails.
# Never call it in a condition: bash would ignore errors inside the command.
step() {
  local title=$1 start status
  shift
  start=$(now_ms)
  step_offset=$(stat -c %s "$log_file")
  printf '\n=== %s\n' "$title" 2>/dev/null >>"$log_file" || true
  SECONDS=0
  start_ticker "$title"
  set +e
  (
    set -e
    "$@"
  ) >>"$log_file" 2>&1 </dev/null
  status=$?
  set -e
  stop_ticker
  step_ms=$(($(now_ms) - start))
  if ((status != 0)); then
    print_row "$title" "FAILED"
    explain_failure
    exit 1
  fi
  print_row "$title" "$(format_ms "$step_ms")"
}

# Prints the log of the current step.
step_log() { tail -c "+$((step_offset + 1))" "$log_file"; }

explain_failure() {
  {
    printf '\nEnd of the log:\n'
    last_lines | sed 's/^/  | /'
    printf '\nAdvice: %s\n' "$(advice)"
    printf 'Full log: %s\n' "$log_file"
  } >&2
}

# The first compiler error is more useful than the last lines of a parallel build.
last_lines() {
  local first
  first=$(step_log | grep -anm 1 '^FAILED: ' | cut -d: -f1 || true)
  if [[ -n $first ]]; then
    step_log | tail -n "+$first" | cut -c -400 | sed -n '1,60p'
  else
    step_log | tail -n 20 | cut -c -400
  fi
}

# Not a pipe: grep exits at the first match, and the broken pipe of a long log would be reported as a failure.
step_log_has() { grep -aqiE "$1" < <(step_log); }

# Advice per known cause. Disk first: a full disk can cause all the other errors.
advice() {
  if step_log_has 'No space left on device|enough free space|Disk quota exceeded' || disk_is_full; then
    echo "the disk is full. $(disk_report)"
  elif step_log_has 'Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Network is unreachable|Connection (failed|refused|timed out)|Failed to fetch|No route to host'; then
    echo "the package archive is unreachable. Check the network and the apt proxy (try: apt-get update), then run this again."
  elif step_log_has 'Could not get lock|is another process using it'; then
    echo "another program is installing packages. Wait until it has finished, then run this again."
  elif step_log_has 'dpkg was interrupted'; then
    echo "an earlier installation was interrupted. Run 'dpkg --configure -a' as root, then run this again."
  elif step_log_has 'Unable to locate package|has no installation candidate'; then
    echo "a package is not available on this system ($(system_value PRETTY_NAME)). Fulcrum is tested on Debian 12; the packages are listed in deploy/setup/packages.sh."
  elif step_log_has 'Killed signal|internal compiler error: Killed|cannot allocate memory|out of memory'; then
    echo "out of memory. Run this again with FULCRUM_JOBS=1."
  elif step_log_has 'interrupted by user'; then
    echo "interrupted; run this again to continue."
  elif step_log_has '^FAILED: |CMake Error|: error: '; then
    echo "fix the error above and run this again; finished parts are not rebuilt."
  else
    echo "see the lines above; a second run continues where this one stopped."
  fi
}
