# shellcheck shell=bash
# ./dev build, test, bench and demo: configure if needed, build, and run.

# Prints the names of the visible presets. Does not use cmake, which may not be installed yet.
preset_names() {
  grep -oE '"[^"]*"|[][{}]|true' CMakePresets.json | awk '
    /^[[{]$/ { depth++; if (depth == 3) { name = ""; hidden = 0 } }
    depth == 1 && /^"/ { section = $0 }
    depth == 3 && section == "\"configurePresets\"" && previous == "\"name\"" { name = $0 }
    depth == 3 && previous == "\"hidden\"" { hidden = $0 == "true" }
    /^[]}]$/ { if (depth == 3 && name != "" && !hidden) print name; if (depth == 3) name = ""; depth-- }
    { previous = $0 }' | tr -d '"'
}

# check_preset NAME [OTHER]: OTHER is an argument that the command accepts besides the presets.
check_preset() {
  local preset=$1 names
  shift
  names=$(preset_names)
  grep -qxF -- "$preset" <<<"$names" && return 0
  die "Unknown preset '$preset'." "Valid arguments: ${names//$'\n'/, }${1:+, $1}"
}

# A build tree is configured again if these arguments change. CMake tracks changes of its own files.
configure_arguments() {
  local prefix
  prefix=$(arrow_prefix)
  echo "-DFULCRUM_BLAS=$(blas_choice)"
  [[ ${FULCRUM_MPI:-OFF} != ON ]] || echo "-DFULCRUM_MPI=ON"
  if [[ -n $prefix ]]; then
    printf '%s\n' "-DCMAKE_PREFIX_PATH=$prefix" "-DArrow_DIR=$prefix/lib/cmake/Arrow" "-DParquet_DIR=$prefix/lib/cmake/Parquet"
  fi
}

configure() {
  local preset=$1
  shift
  # Discard cached paths that were found with other arguments. (cmake --fresh would delete object files too.)
  [[ ! -f build/$preset/configured ]] || rm -f "build/$preset/CMakeCache.txt"
  cmake --preset "$preset" "$@"
}

configure_if_needed() {
  local preset=$1 record=build/$1/configured key
  local -a arguments
  mapfile -t arguments < <(configure_arguments)
  key=$(printf '%s\n' "${arguments[@]}" "$(sha256sum <CMakePresets.json)")
  if [[ -f build/$preset/build.ninja && -f $record && $(<"$record") == "$key" ]]; then
    print_row "configure" "not needed"
    return 0
  fi
  step "configure" configure "$preset" "${arguments[@]}"
  printf '%s\n' "$key" >"$record"
}

show_warnings() {
  local warnings
  warnings=$(step_log | grep -a ' warning: ' | sort -u || true)
  [[ -n $warnings ]] || return 0
  printf '\nWarnings:\n%s\n\n' "$(head -n 20 <<<"$warnings")"
}

# Serializes concurrent builds of the same preset.
hold_build_lock() {
  mkdir -p build
  exec {build_lock}>"build/.$1.lock"
  flock -n "$build_lock" || {
    say "  another build of '$1' is running; waiting for it"
    flock "$build_lock"
  }
}

# prepare_build PRESET TARGET...: set-up, configure and build, one line each. Only what the targets need is compiled.
prepare_build() {
  local preset=$1
  shift
  chosen_preset=$preset
  run_setup
  [[ -d build/$preset ]] || require_space "$build_mib" "$root/build" "the build"
  open_log "build-$preset"
  say "Build of preset '$preset' (log: $log_file)"
  print_row "set-up" "$(format_ms "$setup_ms")"
  hold_build_lock "$preset"
  configure_if_needed "$preset"
  step "build" cmake --build "build/$preset" --target "$@" --parallel "$(job_count)"
  show_warnings
  exec {build_lock}>&-
}

# Builds only the program. Tests and benchmarks are built by the commands that run them.
build_command() {
  local preset=${1:-release} target=fulcrum
  check_preset "$preset"
  [[ $preset != fuzz ]] || target=fuzz_targets
  prepare_build "$preset" "$target"
}

# More failures than this are not an accident.
readonly most_repeated=5

# test_command [PRESET] [recovery|package], in any order: which build, and which tests of it.
# The summary of ctest is the last output and has the total time of the tests.
test_command() {
  local preset=release tests=usual argument
  for argument in "$@"; do
    case $argument in
      recovery | package) tests=$argument ;;
      *)
        check_preset "$argument" "recovery, package"
        preset=$argument
        ;;
    esac
  done
  local -a selection=(--label-exclude '^(recovery-long|package)$')
  [[ $tests != recovery ]] || selection=(--label-regex '^recovery-long$')
  [[ $tests != package ]] || selection=(--label-regex '^package$')
  if [[ $tests == package ]]; then
    [[ $preset == release ]] || die "Packages are built from the preset 'release' only."
    load_packaging
    package_command
  else
    # The tests of the Python package need the extension module; those of the sanitizers are about the program.
    if [[ $preset == release && $tests == usual ]]; then
      prepare_build release tests fulcrum_core_module
      complete_core
    else
      prepare_build "$preset" tests
    fi
  fi
  # Many tests wait for processes and timers, so one more runs than there are cores.
  run_tests "$preset" --parallel $(($(nproc) + 1)) "${selection[@]}"
}

# Tests share the processors with each other, so a few that failed are named and run once more, one at a time. A test that
# passes only then is unstable, which is a defect of its own. What fails twice fails.
run_tests() {
  local preset=$1 failed=build/$1/Testing/Temporary/LastTestsFailed.log status=0
  shift
  local -a run=(ctest --test-dir "build/$preset" --output-on-failure --no-label-summary --no-tests=error)
  rm -f "$failed"
  "${run[@]}" "$@" || status=$?
  ((status != 0)) || return 0
  [[ -s $failed && $(wc -l <"$failed") -le $most_repeated ]] || return "$status"
  printf '\nFailed, and run once more; unstable if they pass now:\n%s\n\n' "$(cut -d: -f2- "$failed")"
  "${run[@]}" --rerun-failed
}

# An argument without a leading dash is a filter: ./dev bench gemm.
bench_arguments() {
  local argument
  for argument in "$@"; do
    case $argument in
      -*) echo "$argument" ;;
      *) echo "--benchmark_filter=$argument" ;;
    esac
  done
}

# All of them run; the status is that of one that missed a target.
bench_command() {
  local program found=0 status=0
  local -a arguments
  mapfile -t arguments < <(bench_arguments "$@")
  prepare_build release benchmarks
  for program in build/release/bin/bench_*; do
    [[ -x $program ]] || continue
    found=1
    printf '\n%s\n' "${program##*/}"
    "$program" "${arguments[@]}" || status=$?
  done
  ((found)) || die "No benchmarks found: build/release/bin/bench_* does not exist."
  return "$status"
}

# ./dev compare speed: the time of a query, next to that of other packages. It needs the extension module.
compare_command() {
  local script=deploy/compare.py
  if [[ ${1:-} == tools ]]; then
    script=deploy/compare_tools.py
    shift
  fi
  if [[ ${1:-} == speed ]]; then
    shift
    prepare_build release fulcrum fulcrum_core_module
    complete_core
    PYTHONPATH="$root/${core_folder%/*}" "${FULCRUM_COMPARE_PYTHON:-/usr/bin/python3}" deploy/compare_speed.py "$@"
    return
  fi
  prepare_build release fulcrum
  python3 "$script" "$@"
}

# The package `fulcrum` with its extension module, which the target fulcrum_core_module writes there.
readonly core_folder=build/release/python_core/fulcrum

# Puts the other modules of the package and the descriptors of the API next to the extension module.
complete_core() {
  cp clients/python/fulcrum/*.py clients/python/fulcrum/py.typed "$core_folder"
  protoc -Iproto --include_imports --descriptor_set_out="$core_folder/api.binpb" proto/*/*/*.proto
}

demo_command() {
  prepare_build release fulcrum
  deploy/demo.sh "$@"
}
