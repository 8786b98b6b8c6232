#!/usr/bin/env bash
# The main job on a small data set: from four labels, which ten examples of 5,000 are worth labeling next?
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
fulcrum=${FULCRUM:-$root/build/release/bin/fulcrum}
if [[ ! -x $fulcrum ]]; then
  echo "There is no program $fulcrum: run './dev demo', which builds it first." >&2
  exit 1
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/fulcrum-demo.XXXXXX")
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

# first_labels POOL COUNT: id,label of the first COUNT rows of each class. An id is a row's number from 0.
first_labels() {
  awk -F, -v count="$2" '
    BEGIN { print "id,label" }
    NR > 1 && seen[$1]++ < count { print NR - 2 "," $1 }' "$1"
}

# show_table CSV: its columns, one under the other, with as many digits as a person reads.
show_table() {
  awk -F, '{
    for (i = 1; i <= NF; i++) printf "%10s", $i ~ /[.][0-9][0-9][0-9][0-9][0-9]/ ? sprintf("%.4f", $i) : $i
    print ""
  }' "$1"
}

printf '\n1. A pool of 5,000 examples: two classes that overlap (ringnorm), 20 features\n'
"$fulcrum" generate ringnorm --rows 5000 --seed 1 --out pool.csv

printf '\n2. Four of them have labels, two of each class\n'
first_labels pool.csv 2 >labels.csv
show_table labels.csv

printf '\n3. Fulcrum picks the ten that are worth labeling next (DBALEVS)\n'
start=${EPOCHREALTIME/[.,]/}
"$fulcrum" select --pool pool.csv --labels labels.csv --strategy dbalevs --batch 10 \
  --kernel rbf --sigma 1 --tau 0.5 --alpha 0.5 --out batch.csv --report report.json
milliseconds=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
show_table batch.csv
printf '\nThat took %d.%d s.\n' $((milliseconds / 1000)) $((milliseconds % 1000 / 100))
