#!/usr/bin/env bash
# Runs a command of ./dev in a bare Debian 13 made by debootstrap, from the same archive as this machine's:
#   deploy/package/debian13.sh test       all tests
#   deploy/package/debian13.sh package    the packages, copied to build/packages-debian13
# As root. The chroot is in $FULCRUM_CACHE/debian13 and is kept, with its Arrow and its compiled files; delete it to begin
# again. It takes the committed state of the repository.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${FULCRUM_CACHE:-$HOME/.cache/fulcrum}
chroot=$cache/debian13
command=${1:-test}
((EUID == 0)) || { echo "debian13.sh: needs root, for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "debian13.sh: debootstrap is not installed; run './dev setup'" >&2; exit 1; }

# The address of this machine's Debian archive, which has all releases.
# shellcheck disable=SC2016 # apt expands the $(...)
archive_address() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
    awk -v codename="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" '$2 == codename { print $1; exit }'
}

make_chroot() {
  local address
  address=$(archive_address)
  [[ -n $address ]] || { echo "debian13.sh: no apt source of this machine is a Debian archive" >&2; exit 1; }
  rm -rf -- "$chroot.part"
  debootstrap --variant=minbase --include=ca-certificates,git trixie "$chroot.part" "$address"
  mv -T -- "$chroot.part" "$chroot"
}

unmount() {
  for place in dev/shm dev/pts dev proc sys; do umount "$chroot/$place" 2>/dev/null || true; done
}

[[ -d $chroot ]] || make_chroot
trap unmount EXIT
cp /etc/resolv.conf "$chroot/etc/resolv.conf"
mount -t proc proc "$chroot/proc"
mount -t sysfs sysfs "$chroot/sys"
mount --bind /dev "$chroot/dev"
# For terminals and browsers of the tests; --bind does not bring what is mounted below /dev.
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$chroot/dev/pts"
mount -t tmpfs tmpfs "$chroot/dev/shm"
# Git removes files that were removed, and files that did not change keep their time, so that they are not compiled again.
[[ -d $chroot/src/.git ]] || git init -q "$chroot/src"
git -C "$chroot/src" fetch -q "$root" HEAD
git -C "$chroot/src" reset -q --hard FETCH_HEAD
chroot "$chroot" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  ${FULCRUM_BLAS:+FULCRUM_BLAS="$FULCRUM_BLAS"} ${FULCRUM_JOBS:+FULCRUM_JOBS="$FULCRUM_JOBS"} \
  bash -c 'cd /src && exec ./dev "$@"' dev "$command" "${@:2}"
if [[ $command == package ]]; then
  install -d "$root/build/packages-debian13"
  cp "$chroot/src/build/packages"/* "$root/build/packages-debian13/"
  ls -l "$root/build/packages-debian13"
fi
