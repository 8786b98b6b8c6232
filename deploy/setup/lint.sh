# shellcheck shell=bash
# ./dev lint: checks format, clang-tidy, the shell scripts, and the types of the Python package if mypy is installed. All checks run even if one fails.

# lint_files PATTERN... -- FILE...: prints the files among FILE that match a pattern; without FILE, all tracked files
# that match.
lint_files() {
  local -a patterns=()
  while [[ $1 != -- ]]; do
    patterns+=("$1")
    shift
  done
  shift
  if (($# == 0)); then
    git ls-files -- "${patterns[@]}"
  else
    local file pattern
    for file in "$@"; do
      for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053
        [[ ${file##*/} != $pattern && $file != "$pattern" ]] || echo "$file"
      done
    done
  fi
}

# check TITLE COMMAND FILE...: prints the output of the command, then a line with its time.
check() {
  local title=$1 start verdict
  shift
  if (($# < 2)); then
    print_row "$title" "no files"
    return 0
  fi
  start=$(now_ms)
  if "$@"; then verdict=$(format_ms $(($(now_ms) - start))); else verdict=FAILED lint_failed=1; fi
  print_row "$title ($(($# - 1)) files)" "$verdict"
}

check_format() { clang-format --dry-run --Werror -- "$@"; }

# clang-tidy prints output even on success, so it is shown only on failure. Unknown GCC flags are ignored.
# shellcheck disable=SC2016 # the inner shell expands
check_tidy() {
  printf '%s\0' "$@" | xargs -0 -n 1 -P "$(job_count)" bash -c '
    output=$(clang-tidy -p build/lint --quiet --warnings-as-errors="*" \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument "$1" 2>&1) || {
      printf "%s\n" "$output"
      exit 1
    }' tidy
}

# The scripts sourced by ./dev share its variables, so they are checked together with it.
check_shell() { shellcheck --external-sources --check-sourced -- "$@"; }

# The strict settings are in pyproject.toml.
check_types() { mypy --config-file clients/python/pyproject.toml "$@"; }

# clang-tidy needs the generated headers, and the command of every source: sources that are compiled together have none, and
# the precompiled headers of GCC cannot be read. So it has a build tree of its own, build/lint.
prepare_lint() {
  local -a arguments
  run_setup
  open_log lint
  hold_build_lock lint
  mapfile -t arguments < <(configure_arguments)
  step "configure" cmake -S . -B build/lint -G Ninja -DCMAKE_BUILD_TYPE=Release -DFULCRUM_LINT=ON \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${arguments[@]}"
  step "generated headers" cmake --build build/lint --target fulcrum_proto fulcrum_onnx_proto fulcrum_round_job_proto --parallel "$(job_count)"
  exec {build_lock}>&-
}

lint_command() {
  local -a sources units scripts typed
  lint_failed=0
  prepare_lint
  mapfile -t sources < <(lint_files '*.cc' '*.h' -- "$@")
  mapfile -t units < <(lint_files '*.cc' -- "$@")
  mapfile -t scripts < <(lint_files '*.sh' '*.sbatch' dev .ci/run deploy/package/debian/postinst deploy/package/debian/prerm deploy/package/debian/postrm \
    -- "$@" | grep -v -e '^deploy/setup/' -e '^deploy/package/package\.sh$' -e '^deploy/demo_page\.sh$')
  mapfile -t typed < <(lint_files 'clients/python/fulcrum/*.py' -- "$@")
  say "Lint"
  check "clang-format" check_format "${sources[@]}"
  check "shellcheck" check_shell "${scripts[@]}"
  check "clang-tidy" check_tidy "${units[@]}"
  if command -v mypy >/dev/null; then
    check "mypy" check_types "${typed[@]}"
  fi
  return "$lint_failed"
}
