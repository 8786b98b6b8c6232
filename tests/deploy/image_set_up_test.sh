#!/usr/bin/env bash
# The files that the Dockerfile copies before the set-up are enough for it: `./dev` starts with these alone, and they have
# everything that it sources and the set-up reads. (Building the image needs Docker and an hour.)
set -euo pipefail
cd -- "${FULCRUM_SOURCE:-$(dirname -- "${BASH_SOURCE[0]}")/../..}"

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
copied=0
while read -r word rest; do
  case $word in
    COPY)
      read -ra places <<<"$rest"
      target=$folder/${places[-1]}
      unset 'places[-1]'
      for place in "${places[@]}"; do
        # As COPY does: the content of a folder, a file into a folder.
        mkdir -p "$target"
        if [[ -d $place ]]; then cp -r "$place/." "$target"; else cp "$place" "$target"; fi
        copied=$((copied + 1))
      done
      ;;
    RUN)
      [[ $rest == "./dev setup"* ]] || continue
      break
      ;;
  esac
done <deploy/docker/Dockerfile
[[ ${rest:-} == "./dev setup"* && $copied -gt 0 ]] || {
  echo "the Dockerfile has no './dev setup' after a COPY" >&2
  exit 1
}
cd -- "$folder"
./dev help >/dev/null
# The names of the presets are read from a file; a message about an unknown one lists them.
message=$(./dev build no-such-preset 2>&1) && { echo "a preset that does not exist was accepted" >&2; exit 1; }
grep -q release <<<"$message" || { echo "the presets cannot be read: $message" >&2; exit 1; }
# Every function that the set-up calls is defined: the check of a finished set-up runs most of them.
bash -c 'set -euo pipefail; root=$PWD; for part in steps machine packages archive mkl arrow setup; do
  . "deploy/setup/$part.sh"; done; check_blas_choice; setup_is_done || true'
echo "$copied files and folders are enough for the set-up"
