#!/usr/bin/env bash
# Two campaigns on the same pool, one with the default strategy and one that selects at random, with simulated annotators:
# one accurate, one with errors, one that crashes. Draws both learning curves as they grow.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
fulcrum=${FULCRUM:-$root/build/release/bin/fulcrum}
labels=${FULCRUM_DEMO_LABELS:-200}
# shellcheck source=deploy/demo_page.sh
. "$root/deploy/demo_page.sh"
keep=0
case ${1:-} in
  '') ;;
  --keep) keep=1 ;;
  *)
    echo "Unknown argument '$1'; the demo takes --keep, which leaves the daemon running for the browser." >&2
    exit 2
    ;;
esac
if [[ ! -x $fulcrum ]]; then
  echo "Program $fulcrum not found. Run './dev demo', which builds it first." >&2
  exit 1
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-demo.XXXXXX")
daemon=
children=()
finish() {
  ((${#children[@]} == 0)) || kill "${children[@]}" 2>/dev/null || true
  [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf -- "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd -- "$folder"

# The pool and separate test examples: images of digits. The features are the pixels, the payload is the picture.
make_pool() {
  mkdir pools
  "$fulcrum" generate digits --rows 5000 --seed 1 --out pools/pool.csv
  "$fulcrum" generate digits --rows 1000 --seed 2 --out pools/test.csv
}

# campaign_file NAME [STRATEGY]: the campaigns differ only in their strategy.
campaign_file() {
  cat >"$1.yaml" <<YAML
name: $1
question: Which digit is this?
pool: {sources: [pool.csv], payload_column: image}
classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
selection: {batch: 10${2:+, strategy: $2}}
labeling: {lease_time: 3s}
stop:
  labels: $labels
  accuracy: {sources: [test.csv]}
seed: 1
YAML
}

# crashing_worker CAMPAIGN: crashes on one task in fifty and is restarted.
crashing_worker() {
  local seed=1
  until "$fulcrum" work --campaign "$1" --annotator carl --oracle pools/pool.csv --crash-rate 0.02 --delay 5ms \
    --seed $((seed++)) --batch 4 --quiet >/dev/null 2>&1; do :; done
}

start_workers() {
  "$fulcrum" work --campaign "$1" --annotator anna --oracle pools/pool.csv --delay 5ms --batch 4 --quiet &
  children+=($!)
  "$fulcrum" work --campaign "$1" --annotator ben --oracle pools/pool.csv --accuracy 0.95 --delay 5ms --batch 4 --quiet &
  children+=($!)
  crashing_worker "$1" &
  children+=($!)
}

start_daemon() {
  local port=$((20000 + RANDOM % 10000 * 4))
  export FULCRUM_SERVER=127.0.0.1:$port
  page=http://127.0.0.1:$((port + 2))
  "$fulcrum" serve --data data --pools pools --listen "$FULCRUM_SERVER" --metrics "127.0.0.1:$((port + 1))" \
    --web "127.0.0.1:$((port + 2))" --no-tokens 2>daemon.log &
  daemon=$!
  until "$fulcrum" campaign list >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { cat daemon.log >&2; exit 1; }
  done
}

start_campaign() {
  "$fulcrum" campaign create "$1.yaml" >/dev/null
  "$fulcrum" campaign start "$1" >/dev/null
  "$fulcrum" campaign watch "$1" --json >"$1.events" 2>/dev/null &
  children+=($!)
  watchers+=($!)
  start_workers "$1"
}

# On a terminal the curves are coloured and drawn over each other.
terminal=0
[[ ! -t 1 ]] || terminal=1

# curves [WHAT]: the curves so far, or their summary.
curves() {
  local marks='*,o'
  [[ $(locale charmap 2>/dev/null) != UTF-8 ]] || marks='●,○'
  awk -v names='default strategy,at random' -v marks="$marks" -v colors="$terminal" -v last="$labels" -v what="${1:-curves}" \
    -f "$root/deploy/demo_curves.awk" chosen.events chance.events
}

# Draws the curves until both campaigns are done: over each other on a terminal, once at the end otherwise.
follow_curves() {
  local picture lines=0
  while kill -0 "${watchers[@]}" 2>/dev/null; do
    if ((terminal)); then
      picture=$(curves)
      ((lines == 0)) || printf '\033[%dA\r\033[J' "$lines"
      printf '%s\n' "$picture"
      lines=$(wc -l <<<"$picture")
    fi
    sleep 0.3
  done
  wait "${watchers[@]}" || true
  ((lines == 0)) || printf '\033[%dA\r\033[J' "$lines"
  curves
}

printf '\n1. A pool of 5,000 images of digits without labels\n'
make_pool

printf '\n2. A daemon on loopback\n'
start_daemon
printf '   Watch the campaigns in a browser while this runs: %s\n' "$page"
((!keep)) || offer_digits

printf '\n3. Two campaigns of %d labels, ten per round. One selects by the default strategy, one at random. Three simulated\n' "$labels"
printf '   annotators each: anna makes no errors, ben mislabels 5%%, carl crashes on 2%% of tasks and loses those he holds.\n\n'
watchers=()
campaign_file chosen
campaign_file chance random
for campaign in chance chosen; do start_campaign "$campaign"; done
follow_curves

printf '\n4. What was saved, by the accuracy on 1,000 separate test images\n'
curves summary

"$fulcrum" campaign export chosen --out labels.csv >/dev/null
printf '\n5. Labels per annotator; none was lost or counted twice\n'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "annotator") column = i } NR > 1 { count[$column]++ }
  END { for (name in count) printf "   %-8s %d\n", name, count[name] }' labels.csv | sort
((!keep)) || keep_serving
