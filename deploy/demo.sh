#!/usr/bin/env bash
# From nothing to a running daemon: a pool of 20,000 examples, a campaign that picks what is worth labeling, a second
# one that picks at random, and imitated people who label for both: one careful, one who errs, one who crashes.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
fulcrum=${FULCRUM:-$root/build/release/bin/fulcrum}
rounds=${FULCRUM_DEMO_ROUNDS:-20}
if [[ ! -x $fulcrum ]]; then
  echo "There is no program $fulcrum: run './dev demo', which builds it first." >&2
  exit 1
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-demo.XXXXXX")
daemon=
workers=()
finish() {
  ((${#workers[@]} == 0)) || kill "${workers[@]}" 2>/dev/null || true
  [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf -- "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd -- "$folder"

# campaign_file NAME STRATEGY: two campaigns that differ in nothing but how they choose.
campaign_file() {
  cat >"$1.yaml" <<YAML
name: $1
question: Which of the two rings is this point from?
pool: {sources: [pool.csv]}
classes: ["-1", "1"]
selection: {strategy: $2, batch: 10, tau: 0.1}
labeling: {lease_time: 3s}
stop:
  rounds: $rounds
  accuracy: {sources: [test.csv]}
seed: 1
YAML
}

# crashing_worker CAMPAIGN: dies over one task in twenty, and is started again, as people do.
crashing_worker() {
  local seed=1
  until "$fulcrum" work --campaign "$1" --annotator carl --oracle pools/pool.csv --crash-rate 0.05 --delay 5ms \
    --seed $((seed++)) --batch 4 --quiet >/dev/null 2>&1; do :; done
}

start_workers() {
  "$fulcrum" work --campaign "$1" --annotator anna --oracle pools/pool.csv --delay 5ms --batch 4 --quiet &
  workers+=($!)
  "$fulcrum" work --campaign "$1" --annotator ben --oracle pools/pool.csv --accuracy 0.9 --delay 5ms --batch 4 --quiet &
  workers+=($!)
  crashing_worker "$1" &
  workers+=($!)
}

# wait_for_daemon: until it answers, or has ended.
wait_for_daemon() {
  until "$fulcrum" campaign list >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { cat daemon.log >&2; exit 1; }
  done
}

accuracy_of() { "$fulcrum" campaign get "$1" --json | sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p' | tail -n 1; }

mkdir pools
printf '\n1. A pool of 20,000 examples without labels: two classes that overlap (ringnorm), 20 features\n'
"$fulcrum" generate ringnorm --mean-factor 2 --rows 20000 --seed 1 --out pools/pool.csv
"$fulcrum" generate ringnorm --mean-factor 2 --rows 4000 --seed 2 --out pools/test.csv

printf '\n2. A daemon, on this machine only\n'
port=$((20000 + RANDOM % 20000))
export FULCRUM_SERVER=127.0.0.1:$port
"$fulcrum" serve --data data --pools pools --listen "$FULCRUM_SERVER" --no-tokens 2>daemon.log &
daemon=$!
wait_for_daemon
printf '   listening on %s\n' "$FULCRUM_SERVER"

printf '\n3. Two campaigns of %d rounds, 10 labels a round; three imitated people label for each:\n' "$rounds"
printf '   anna is right, ben is wrong once in ten, carl crashes once in twenty and loses what he held\n\n'
campaign_file leverage dbalevs
campaign_file chance random
for campaign in chance leverage; do
  "$fulcrum" campaign create "$campaign.yaml" >/dev/null
  "$fulcrum" campaign start "$campaign" >/dev/null
  start_workers "$campaign"
done
"$fulcrum" campaign watch leverage
"$fulcrum" campaign watch chance >/dev/null

printf '\n4. Accuracy on 4,000 examples nobody labeled, after %d labels each\n' $((rounds * 10))
printf '   by leverage (dbalevs)   %s\n   at random               %s\n' "$(accuracy_of leverage)" "$(accuracy_of chance)"

"$fulcrum" campaign export leverage --out labels.csv >/dev/null
printf '\n5. Who gave the labels\n'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "annotator") column = i } NR > 1 { count[$column]++ }
  END { for (name in count) printf "   %-8s %d\n", name, count[name] }' labels.csv | sort
