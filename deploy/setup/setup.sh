# shellcheck shell=bash
# ./dev setup: finds what is missing and installs it.

work_folder=""
archive_state=""

# Fast enough to run before every build: two calls of dpkg-query and a check of the cache.
setup_is_done() {
  local -a wanted
  mapfile -t wanted < <(wanted_packages)
  [[ -z $(missing_packages "${wanted[@]}") ]] && mkl_ready && arrow_ready
}

# Prevents concurrent set-ups from building Arrow twice: the second one waits.
hold_setup_lock() {
  exec {setup_lock}>"$(cache_directory)/setup.lock"
  flock -n "$setup_lock" || {
    say "  another set-up is running; waiting for it"
    flock "$setup_lock"
  }
}

remove_work() {
  [[ -z $work_folder ]] || rm -rf -- "$work_folder"
  remove_archive "$archive_state"
  work_folder="" archive_state=""
}

check_system() {
  command -v apt-get >/dev/null || die "apt-get not found ($(system_value PRETTY_NAME)): set-up supports only Debian packages." \
    "The required packages are listed in deploy/setup/packages.sh."
  case $(system_value ID)-$(system_value VERSION_ID) in
    debian-12 | debian-13) ;;
    *) say "  Note: this is $(system_value PRETTY_NAME); set-up knows Debian 12 and 13. Continuing with their packages." ;;
  esac
}

setup_packages() {
  local -a wanted missing
  mapfile -t wanted < <(wanted_packages)
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if ((${#missing[@]} == 0)) && mkl_ready; then return 0; fi
  require_root "${missing[@]}" "$(mkl_ready || echo libmkl-dev)"
  require_space "$(needed_mib "${#missing[@]}")" /usr "the packages"
  step "package lists" refresh_lists
  ((${#missing[@]} == 0)) || step "packages (${#missing[@]} of ${#wanted[@]} missing)" install_packages "${missing[@]}"
}

# needed_mib COUNT: MKL takes most of the space; a few missing packages take little.
needed_mib() {
  local mib=100
  (($1 <= 5)) || mib=$packages_mib
  mkl_ready || mib=$((mib + mkl_mib))
  echo "$mib"
}

setup_mkl() {
  mkl_ready && return 0
  archive_state=$(new_archive)
  step "MKL (from the component non-free)" install_mkl "$archive_state"
  remove_archive "$archive_state"
  archive_state=""
}

setup_arrow() {
  arrow_ready && return 0
  if arrow_is_packaged; then
    require_root libarrow-dev libparquet-dev
    step "Arrow and Parquet packages" install_packages libarrow-dev libparquet-dev
  else
    build_arrow_prefix
  fi
}

build_arrow_prefix() {
  local prefix cache
  cache=$(cache_directory)
  require_space "$arrow_mib" "$cache" "building Arrow"
  # A fixed name, so that ccache recognizes the files of an interrupted build.
  # The lock prevents concurrent use.
  work_folder=$cache/arrow-work
  rm -rf -- "$work_folder"
  archive_state=$(new_archive)
  step "Arrow: source from Debian $arrow_suite" fetch_arrow "$archive_state" "$work_folder"
  prefix=$(arrow_prefix_for "$work_folder")
  step "Arrow: configure" configure_arrow "$work_folder" "$prefix"
  step "Arrow: build ($(job_count) jobs)" build_arrow "$work_folder"
  step "Arrow: install" install_arrow "$work_folder" "$prefix"
  remove_work
  say "  Arrow is installed in $prefix"
}

run_setup() {
  local start
  start=$(now_ms)
  check_blas_choice
  if setup_is_done; then
    setup_ms=$(($(now_ms) - start))
    return 0
  fi
  open_log setup
  say "Set-up (log: $log_file)"
  check_system
  hold_setup_lock
  setup_packages
  setup_mkl
  setup_arrow
  exec {setup_lock}>&-
  setup_ms=$(($(now_ms) - start))
}

setup_command() {
  run_setup
  if [[ -z $log_file ]]; then
    say "Everything is already installed ($(format_ms "$setup_ms"))."
  else
    print_row "set-up" "$(format_ms "$setup_ms")"
  fi
}
