#!/usr/bin/env bash
# systemd itself reads the unit: no unknown setting, a command that exists, and an exposure that stays low.
set -euo pipefail

command -v systemd-analyze >/dev/null || { echo "skipped: there is no systemd-analyze here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
unit=$folder/fulcrum.service
# The program is where it was built, not where it will be installed.
sed "s|^ExecStart=/usr/bin/fulcrum|ExecStart=$FULCRUM|" "$FULCRUM_SOURCE/deploy/systemd/fulcrum.service" >"$unit"
grep -q "^ExecStart=$FULCRUM serve" "$unit"

complaints=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -F "fulcrum.service" || true)
if [[ -n $complaints ]]; then
  printf 'systemd-analyze verify:\n%s\n' "$complaints"
  exit 1
fi
# In tenths: 1.5 of 10 is "OK" to systemd, an ordinary service has 9.6.
systemd-analyze security --offline=true --no-pager --threshold=15 "$unit"
