#!/usr/bin/env bash
# Runs the demo with few labels: it ends, draws both curves, and reports what was saved. With --keep it then serves the page
# and a campaign of digits until it is ended, and leaves nothing behind.
set -euo pipefail

shown=$(FULCRUM_DEMO_LABELS=40 "$FULCRUM_SOURCE/deploy/demo.sh")
printf '%s\n' "$shown"
grep -qE 'http://127\.0\.0\.1:[0-9]+' <<<"$shown"
grep -qE '^ +100% \|' <<<"$shown"
grep -qE 'default strategy +40 labels, [0-9.]+% of the test examples' <<<"$shown"
grep -qE 'at random +40 labels, [0-9.]+% of the test examples' <<<"$shown"
grep -qE '[0-9]+ percent after [0-9]+ labels' <<<"$shown"
grep -qE '^ +anna +[0-9]+$' <<<"$shown"

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
mkfifo "$folder/shown"
TMPDIR=$folder FULCRUM_DEMO_LABELS=40 "$FULCRUM_SOURCE/deploy/demo.sh" --keep >"$folder/shown" &
demo=$!
exec 3<"$folder/shown"
page=
while IFS= read -r line <&3; do
  if [[ $line =~ all\ campaigns\ +(http://127\.0\.0\.1:[0-9]+) ]]; then
    page=${BASH_REMATCH[1]}
    break
  fi
done
[[ -n $page ]] || { echo "the demo with --keep does not say where the page is"; exit 1; }
post() { python3 -c 'import sys, urllib.request as r
print(r.urlopen(r.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})).read().decode())' "$@"; }
python3 -c 'import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1]).read().decode())' "$page/" | grep -q '/app.js'
answer=$(post "$page/fulcrum.v1.LabelingService/AcquireTasks" \
  '{"campaign": "digits", "annotator": "anna", "requestId": "demo", "maxTasks": 1, "wait": "20s"}')
grep -q '"question":"Which digit is this' <<<"$answer"
grep -q '"payload":"' <<<"$answer"
kill -TERM "$demo"
cat <&3 >/dev/null
code=0
wait "$demo" || code=$?
((code == 130)) || { echo "the demo with --keep ends with code $code"; exit 1; }
! compgen -G "$folder/fulcrum-demo.*" >/dev/null || { echo "the demo leaves files behind"; exit 1; }
