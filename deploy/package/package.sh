# shellcheck shell=bash
# ./dev package: everything that users install, in build/packages: a Debian package, a relocatable tarball, the Python
# package, a bill of materials, release notes and checksums. The version is that of project() in CMakeLists.txt, and the notes
# are its section of CHANGELOG.md.

readonly package_output=build/packages

project_version() { sed -n 's/^project(fulcrum VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt; }

# The Debian release is a part of the version, so that an upgrade of the system also upgrades the package.
debian_version() { echo "$(project_version)-1~$(system_value ID)$(system_value VERSION_ID)"; }

# library_paths FILE: prints the libraries that FILE needs, as paths.
library_paths() { ldd "$1" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }'; }

# Prints the libraries that the package brings along, because Debian has no package for them: those below the cache of
# the set-up (Arrow), and MKL, which is in the component non-free and may be distributed further.
private_libraries() {
  library_paths "$1" | grep -F "$(cache_directory)/" || true
  mkl_libraries
}

mkl_libraries() {
  local directory
  [[ $(blas_choice) == MKL ]] || return 0
  directory=$(sed -n 's/^FULCRUM_MKL_LP64:FILEPATH=\(.*\)\/[^/]*$/\1/p' build/release/CMakeCache.txt)
  # The processor's own kernels are loaded by name at run time. AVX2 is the oldest that the program runs on; "def" is
  # what MKL falls back to.
  printf "$directory/libmkl_%s.so\n" core sequential intel_lp64 def avx2 avx512 vml_def vml_avx2 vml_avx512 |
    while read -r library; do [[ ! -e $library ]] || echo "$library"; done
}

# stage_program FOLDER: the program, its private libraries, manual, completion and documents below FOLDER.
stage_program() {
  local folder=$1 library
  rm -rf -- "$folder"
  DESTDIR=$(realpath -m "$folder/destdir") cmake --install build/release --prefix /usr --component fulcrum --strip
  mv "$folder/destdir/usr"/* "$folder/"
  rm -r "$folder/destdir"
  install -d "$folder/lib/fulcrum" "$folder/share/doc/fulcrum"
  while read -r library; do
    # Under the name that the loader asks for.
    install -m 644 "$(readlink -f "$library")" "$folder/lib/fulcrum/${library##*/}"
  done < <(private_libraries build/release/bin/fulcrum)
  /usr/bin/python3 deploy/package/command_manual.py "$folder/bin/fulcrum" "$folder/share" "$(project_version)"
  install -m 644 README.md CHANGELOG.md "$folder/share/doc/fulcrum/"
  cp -r docs "$folder/share/doc/fulcrum/"
  find "$folder/share/doc/fulcrum" -name '*.py' -delete
  copyright_file >"$folder/share/doc/fulcrum/copyright"
  install -d "$folder/share/fulcrum"
  cp -r experiments "$folder/share/fulcrum/"
  find "$folder" -type d -exec chmod 755 {} +
}

# The licenses of the program and of what is brought along.
copyright_file() {
  cat <<'TEXT'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fulcrum

Files: *
Copyright: The Fulcrum authors
License: Apache-2.0

Files: lib/fulcrum/libarrow* lib/fulcrum/libparquet*
Copyright: The Apache Software Foundation
License: Apache-2.0

License: Apache-2.0
TEXT
  sed 's/^$/./; s/^/ /' LICENSE
  [[ $(blas_choice) == MKL && -f /usr/share/doc/libmkl-core/copyright ]] || return 0
  printf '\nThe files lib/fulcrum/libmkl* are Intel Math Kernel Library, distributed under the following terms.\n\n'
  cat /usr/share/doc/libmkl-core/copyright
}

# debian_dependencies FOLDER: the packages of the libraries that the staged program needs and does not bring along.
debian_dependencies() {
  local folder=$1 scratch
  local -a libraries
  scratch=$(mktemp -d)
  mkdir "$scratch/debian"
  printf 'Source: fulcrum\n\nPackage: fulcrum\nArchitecture: any\n' >"$scratch/debian/control"
  folder=$(realpath "$folder")
  mapfile -t libraries < <(find "$folder/lib/fulcrum" -name '*.so*' ! -name 'libmkl*')
  # MKL has its own dependencies in lib/fulcrum and no others than libc.
  (cd "$scratch" && dpkg-shlibdeps --warnings=0 --ignore-missing-info -O -l"$folder/lib/fulcrum" \
    "$folder/bin/fulcrum" "${libraries[@]}") |
    sed -n 's/^shlibs:Depends=//p'
  rm -r "$scratch"
}

debian_package() {
  local stage=$1 folder file depends
  # In an assignment of its own: within the words of a command its failure would not end the script.
  depends=$(debian_dependencies "$stage")
  folder=$(realpath -m build/package-work/debian)
  file=fulcrum_$(debian_version)_$(dpkg --print-architecture).deb
  rm -rf -- "$folder"
  install -d "$folder/DEBIAN" "$folder/usr"
  cp -a "$stage"/. "$folder/usr/"
  install -D -m 644 deploy/systemd/fulcrum.service "$folder/lib/systemd/system/fulcrum.service"
  install -D -m 644 deploy/systemd/fulcrum.yaml "$folder/etc/fulcrum/fulcrum.yaml"
  install -m 644 deploy/package/debian/README.Debian "$folder/usr/share/doc/fulcrum/"
  install -d "$folder/usr/share/doc/fulcrum/monitoring"
  install -m 644 deploy/monitoring/* "$folder/usr/share/doc/fulcrum/monitoring/"
  gzip -9n "$folder/usr/share/doc/fulcrum/CHANGELOG.md"
  echo /etc/fulcrum/fulcrum.yaml >"$folder/DEBIAN/conffiles"
  install -m 755 deploy/package/debian/postinst deploy/package/debian/prerm deploy/package/debian/postrm "$folder/DEBIAN/"
  sed -e "s/@VERSION@/$(debian_version)/; s/@ARCHITECTURE@/$(dpkg --print-architecture)/" \
    -e "s/@DEPENDS@/$depends, passwd/" \
    -e "s/@SIZE@/$(du -sk "$folder" | cut -f1)/" deploy/package/debian/control >"$folder/DEBIAN/control"
  (cd "$folder" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Zzstd -z9 --build "$folder" "$package_output/$file" >/dev/null
}

# A folder that runs from any place: bin/fulcrum finds ../lib/fulcrum, for itself and for the libraries there (its RPATH is
# inherited). It also has the libraries that a Debian package would depend on; libc and the loader are the machine's.
tarball() {
  local stage=$1 name folder library
  name=fulcrum-$(project_version)-linux-$(uname -m)
  folder=build/package-work/$name
  rm -rf -- "$folder"
  cp -a "$stage" "$folder"
  while read -r library; do
    [[ -e $folder/lib/fulcrum/${library##*/} ]] || install -m 644 "$(readlink -f "$library")" "$folder/lib/fulcrum/${library##*/}"
  done < <(library_paths "$stage/bin/fulcrum" | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so')
  install -m 644 LICENSE "$folder/"
  install -D -m 644 deploy/systemd/fulcrum.service deploy/systemd/fulcrum.yaml -t "$folder/share/fulcrum/systemd"
  tar --owner=0 --group=0 --sort=name -C build/package-work -cf - "$name" | xz -1 -T0 >"$package_output/$name.tar.xz"
}

# collect_libraries MODULE FOLDER: copies the shared libraries that the module needs, except those of every system, and MKL,
# which is loaded when it is first used: the loader finds it by the RPATH of the module.
collect_libraries() {
  local path
  mkdir -p "$2"
  mkl_libraries | while read -r path; do cp -L "$path" "$2"; done
  while read -r path; do
    case ${path##*/} in
      libc.so* | libm.so* | libstdc++.so* | libgcc_s.so* | libpthread.so* | libdl.so* | librt.so* | ld-linux*) ;;
      *) cp -L "$path" "$2" ;;
    esac
  done < <(library_paths "$1")
}

# A source package, a wheel for every Python and system, and one with the extension module and its libraries. The Python of
# the distribution has the tools, see packages.sh.
python_packages() {
  local work=$package_output/work
  local -a module
  rm -rf "$work"
  cp -r clients/python "$work"
  rm -rf "$work/build" "$work"/*.egg-info
  cp "$core_folder/api.binpb" "$work/fulcrum"
  (cd "$work" && /usr/bin/python3 setup.py -q sdist -d .. && /usr/bin/python3 setup.py -q bdist_wheel -d ..)
  rm -rf "$work/build"
  module=("$core_folder"/_core*.so)
  cp "${module[@]}" "$work/fulcrum"
  collect_libraries "${module[0]}" "$work/fulcrum/lib"
  (cd "$work" && /usr/bin/python3 setup.py -q bdist_wheel -d ..)
  rm -rf "$work"
}

# changelog_section NAME: the lines of a release in CHANGELOG.md, without its heading.
changelog_section() {
  awk -v heading="## [$1]" 'index($0, "## [") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md
}

# The notes of the version, and until it has its own, those of what is not released yet.
release_notes() {
  local notes version
  version=$(project_version)
  notes=$(changelog_section "$version")
  [[ -n $notes ]] || notes=$(changelog_section Unreleased)
  [[ -n $notes ]] || {
    echo "CHANGELOG.md has neither a section [$version] nor [Unreleased]" >&2
    return 1
  }
  printf '# Fulcrum %s\n%s\n' "$version" "$notes" >"$package_output/fulcrum-$version-notes.md"
}

checksums() {
  local sums
  sums=$(cd "$package_output" && find . -maxdepth 1 -type f -printf '%f\0' | sort -z | xargs -0 sha256sum)
  printf '%s\n' "$sums" >"$package_output/SHA256SUMS"
}

package_command() {
  local stage=build/package-work/stage
  prepare_build release fulcrum fulcrum_core_module
  complete_core
  open_log package
  say "Packages of version $(project_version) (log: $log_file)"
  rm -rf -- "$package_output"
  mkdir -p "$package_output"
  step "program, libraries, manual" stage_program "$stage"
  step "Debian package" debian_package "$stage"
  step "tarball" tarball "$stage"
  step "Python package" python_packages
  step "bill of materials" /usr/bin/python3 deploy/package/bill_of_materials.py "$stage" "$(project_version)" \
    "$package_output/fulcrum-$(project_version).spdx.json"
  step "release notes" release_notes
  step "checksums" checksums
  rm -rf build/package-work
  ls -l "$package_output"
}
