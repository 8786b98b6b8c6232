#!/usr/bin/env bash
# Starts the program with every fulcrum.yaml of deploy/, with paths replaced by temporary folders.
set -euo pipefail

command -v openssl >/dev/null || { echo "skipped: openssl is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout "$folder/tls.key" -out "$folder/tls.crt" 2>/dev/null
for config in "$FULCRUM_SOURCE"/deploy/*/fulcrum.yaml; do
  mkdir -p "$folder/data/pools" "$folder/pools"
  sed -E "s|/var/lib/fulcrum|$folder/data|; s|/srv/pools|$folder/pools|; s|/etc/fulcrum/[a-z/]*tls\.key|$folder/tls.key|; \
    s|/etc/fulcrum/[a-z/]*tls\.(pem\|crt)|$folder/tls.crt|; s|:741[012]|:0|" "$config" >"$folder/fulcrum.yaml"
  mkfifo "$folder/log"
  "$FULCRUM" serve --config "$folder/fulcrum.yaml" 2>"$folder/log" &
  daemon=$!
  exec 3<"$folder/log"
  grep -q -m 1 'listening' <&3 || { echo "$config: the daemon does not start"; wait "$daemon" || true; exit 1; }
  kill -TERM "$daemon"
  cat <&3 >/dev/null
  wait "$daemon" || { echo "$config: the daemon failed with exit code $?"; exit 1; }
  rm "$folder/log"
done
