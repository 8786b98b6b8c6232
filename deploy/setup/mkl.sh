# shellcheck shell=bash
# MKL (BLAS and LAPACK). Debian has it in the component non-free, which is usually not enabled.

blas_choice() { echo "${FULCRUM_BLAS:-MKL}"; }

check_blas_choice() {
  case $(blas_choice) in
    MKL | OpenBLAS) ;;
    *) die "FULCRUM_BLAS is '$FULCRUM_BLAS'; it must be MKL (the default) or OpenBLAS." ;;
  esac
  if [[ $(blas_choice) == MKL && $(uname -m) != x86_64 ]]; then
    die "MKL is only available for x86_64; this machine is $(uname -m)." "Use OpenBLAS: FULCRUM_BLAS=OpenBLAS ./dev setup"
  fi
}

# An existing oneMKL installation is newer than Debian's package, and CMake prefers it.
has_vendor_mkl() {
  local place
  for place in "${MKLROOT:-/nonexistent}" /opt/intel/oneapi/mkl/latest; do
    [[ ! -f $place/lib/cmake/mkl/MKLConfig.cmake ]] || return 0
  done
  return 1
}

# libmkl-dev depends on all required libraries; checking for it is sufficient.
mkl_ready() { [[ $(blas_choice) != MKL ]] || has_vendor_mkl || is_installed libmkl-dev; }

# libmkl-rt asks whether to become the system BLAS; noninteractively the default is no.
install_mkl() {
  local state=$1
  if has_candidate libmkl-dev; then
    install_packages libmkl-dev
    return
  fi
  copy_machine_sources "$state/sources"
  archive_source "$state/sources" deb "$(system_codename)" non-free
  archive_apt "$state" update
  apt_get -c "$state/apt.conf" install --no-install-recommends libmkl-dev
}
