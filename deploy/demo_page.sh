# shellcheck shell=bash
# The part of the demo for people: a campaign of digit images to label in the browser. Sourced by demo.sh, which sets
# fulcrum and page and has started the daemon in the current folder.

# offer_digits: creates the campaign and starts it, without simulated annotators.
offer_digits() {
  cat >digits.yaml <<'YAML'
name: digits
question: |-
  Which digit is this?
  **Guidelines**
  - Answer what was *meant*, not what it looks most like.
  - If it cannot be told, skip it as a bad item.
pool: {sources: [pool.csv], payload_column: image}
classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
selection: {batch: 10}
labeling: {lease_time: 10m}
stop:
  labels: 200
  accuracy: {sources: [test.csv]}
seed: 1
YAML
  "$fulcrum" campaign create digits.yaml >/dev/null
  "$fulcrum" campaign start digits >/dev/null
}

# keep_serving: until Ctrl-C, or until the daemon ends.
keep_serving() {
  printf '\n6. Your turn: label digits, and watch the accuracy grow\n'
  printf '   label           %s/#/label/digits\n' "$page"
  printf '   watch           %s/#/campaign/digits\n' "$page"
  printf '   all campaigns   %s\n\n' "$page"
  printf 'Ctrl-C ends the demo and removes its files.\n'
  wait "$daemon"
}
