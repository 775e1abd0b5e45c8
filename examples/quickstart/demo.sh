#!/bin/sh
# The main job on three small clusters: validate, plan, apply to a copy of the snapshot, plan again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R "$here/snapshot" "$copy/snapshot"
cd "$here"

step() { printf '\n$ %s\n' "$*"; }

step reconciler validate policies
reconciler validate policies

step reconciler plan policies --snapshot snapshot --now 2026-11-20T22:00:00Z
reconciler plan policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z

step reconciler apply policies --snapshot snapshot --now 2026-11-20T22:00:00Z --auto-approve --quiet
reconciler apply policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z --auto-approve --quiet

step reconciler plan policies --snapshot snapshot --now 2026-11-20T22:00:00Z --detailed-exitcode
reconciler plan policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z --detailed-exitcode
