#!/usr/bin/env bash
# Checks that the runtime stage of the image installs every required library that is not copied from the build stage.
set -euo pipefail

command -v dpkg-query >/dev/null || { echo "skipped: not a Debian system"; exit 77; }
dockerfile=$FULCRUM_SOURCE/deploy/docker/Dockerfile
listed=$(sed -n '/^FROM debian:12-slim/,/rm -rf/p' "$dockerfile" | grep -oE '\blib[a-z0-9.+-]+|zlib1g' | sort -u)
needed=$(readelf -d "$FULCRUM" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
# Arrow is copied from the build stage; the image uses OpenBLAS instead of MKL; the others are in every image.
foreign='^(libarrow|libparquet|libmkl|libc\.so|libm\.so|libstdc\+\+|libgcc_s|ld-linux)'
places=$(ldd "$FULCRUM" | awk '$3 ~ "^/" { print $1, $3 }')
missing=""
while read -r library; do
  path=$(readlink -f "$(awk -v name="$library" '$1 == name { print $2 }' <<<"$places")")
  # /lib is a link to /usr/lib, and dpkg may list a file under either path.
  package=$({ dpkg-query -S "$path" || dpkg-query -S "${path#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1)
  grep -qxF -- "$package" <<<"$listed" || missing+="$library is in the package $package"$'\n'
done < <(grep -vE "$foreign" <<<"$needed")
[[ -z $missing ]] || { printf 'The Dockerfile does not install:\n%s' "$missing"; exit 1; }
