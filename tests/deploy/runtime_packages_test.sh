#!/usr/bin/env bash
# The image's last stage installs every library that the program asks for and that no earlier stage hands over.
set -euo pipefail

command -v dpkg-query >/dev/null || { echo "skipped: not a Debian system"; exit 77; }
dockerfile=$FULCRUM_SOURCE/deploy/docker/Dockerfile
listed=$(sed -n '/^FROM debian:12-slim/,/rm -rf/p' "$dockerfile" | grep -oE '\blib[a-z0-9.+-]+|zlib1g' | sort -u)
missing=""
for library in $(objdump -p "$FULCRUM" | awk '$1 == "NEEDED" { print $2 }'); do
  path=$(ldd "$FULCRUM" | awk -v name="$library" '$1 == name { print $3 }')
  case $library in
    libarrow* | libparquet*) continue ;;      # built by set-up, copied
    libmkl*) continue ;;                      # the image is built with OpenBLAS
    libc.so* | libm.so* | libstdc++* | libgcc_s* | ld-linux*) continue ;;  # in every Debian image, or needed by all others
  esac
  package=$(dpkg-query -S "$(readlink -f "$path")" | head -n 1 | cut -d: -f1)
  grep -qxF -- "$package" <<<"$listed" || missing+="$library is in the package $package"$'\n'
done
[[ -z $missing ]] || { printf 'The Dockerfile does not install:\n%s' "$missing"; exit 1; }
