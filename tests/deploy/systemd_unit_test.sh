#!/usr/bin/env bash
# Checks the unit with systemd-analyze: no unknown settings, an existing command, and a low exposure level.
set -euo pipefail

command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
unit=$folder/fulcrum.service
# Use the program in the build tree instead of the installed one.
sed "s|^ExecStart=/usr/bin/fulcrum|ExecStart=$FULCRUM|" "$FULCRUM_SOURCE/deploy/systemd/fulcrum.service" >"$unit"
grep -q "^ExecStart=$FULCRUM serve" "$unit"

complaints=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -F "fulcrum.service" || true)
if [[ -n $complaints ]]; then
  printf 'systemd-analyze verify:\n%s\n' "$complaints"
  exit 1
fi
# The threshold is in tenths: 1.5 of 10 is "OK" for systemd; a service without hardening has 9.6.
systemd-analyze security --offline=true --no-pager --threshold=15 "$unit"
