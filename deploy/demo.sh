#!/usr/bin/env bash
# Runs a daemon with a pool of 20,000 examples, one campaign with the default strategy, one that selects at random, and
# simulated annotators for both: one accurate, one with errors, one that crashes.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
fulcrum=${FULCRUM:-$root/build/release/bin/fulcrum}
rounds=${FULCRUM_DEMO_ROUNDS:-4}
if [[ ! -x $fulcrum ]]; then
  echo "Program $fulcrum not found. Run './dev demo', which builds it first." >&2
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

# campaign_file NAME STRATEGY: the campaigns differ only in their strategy.
campaign_file() {
  cat >"$1.yaml" <<YAML
name: $1
question: Which of the two rings is this point from?
pool: {sources: [pool.csv]}
classes: ["-1", "1"]
selection: {strategy: $2, batch: 10}
labeling: {lease_time: 3s}
stop:
  rounds: $rounds
  accuracy: {sources: [test.csv]}
seed: 1
YAML
}

# crashing_worker CAMPAIGN: crashes on one task in twenty and is restarted.
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

# wait_for_daemon: returns when the daemon serves requests; fails if it has exited.
wait_for_daemon() {
  until "$fulcrum" campaign list >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { cat daemon.log >&2; exit 1; }
  done
}

accuracy_of() { "$fulcrum" campaign get "$1" --json | sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p' | tail -n 1; }

mkdir pools
printf '\n1. An unlabeled pool of 20,000 examples: two overlapping classes (ringnorm), 20 features\n'
"$fulcrum" generate ringnorm --mean-factor 2 --rows 20000 --seed 1 --out pools/pool.csv
"$fulcrum" generate ringnorm --mean-factor 2 --rows 4000 --seed 2 --out pools/test.csv

printf '\n2. A daemon on loopback\n'
port=$((20000 + RANDOM % 20000))
export FULCRUM_SERVER=127.0.0.1:$port
"$fulcrum" serve --data data --pools pools --listen "$FULCRUM_SERVER" --no-tokens 2>daemon.log &
daemon=$!
wait_for_daemon
printf '   listening on %s\n' "$FULCRUM_SERVER"

printf '\n3. Two campaigns of %d rounds with 10 labels per round, each with three simulated annotators:\n' "$rounds"
printf '   anna makes no errors, ben mislabels 10%%, carl crashes on 5%% of tasks and loses those he holds\n\n'
campaign_file chosen adaptive-herding
campaign_file chance random
for campaign in chance chosen; do
  "$fulcrum" campaign create "$campaign.yaml" >/dev/null
  "$fulcrum" campaign start "$campaign" >/dev/null
  start_workers "$campaign"
done
"$fulcrum" campaign watch chosen
"$fulcrum" campaign watch chance >/dev/null

printf '\n4. Accuracy on 4,000 separate test examples, after %d labels each\n' $((rounds * 10))
printf '   chosen (adaptive-herding)   %s\n   at random                   %s\n' "$(accuracy_of chosen)" "$(accuracy_of chance)"

"$fulcrum" campaign export chosen --out labels.csv >/dev/null
printf '\n5. Labels per annotator\n'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "annotator") column = i } NR > 1 { count[$column]++ }
  END { for (name in count) printf "   %-8s %d\n", name, count[name] }' labels.csv | sort
