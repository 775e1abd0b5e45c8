#!/bin/sh
# The main job on three small clusters: validate, test, plan, apply to a copy of the snapshot, plan again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R "$here/snapshot" "$copy/snapshot"
cd "$here"

step() { printf '\n$ %s\n' "$*"; }

step reconciler validate policies
reconciler validate policies

step reconciler test policies
reconciler test policies

mkdir "$copy/changed"
cp -R snapshot policies "$copy/changed"
step "sed -i 's/Mon 07:00/Mon 09:00/' policies/idling.yaml" '&& reconciler test policies'
sed 's/Mon 07:00/Mon 09:00/' policies/idling.yaml >"$copy/changed/policies/idling.yaml"
(cd "$copy/changed" && reconciler test policies) || echo "exit code $?: a case fails, in a copy of the policies"

step reconciler plan policies --snapshot snapshot --now 2026-11-20T22:00:00Z
reconciler plan policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z

step reconciler apply policies --snapshot snapshot --now 2026-11-20T22:00:00Z --auto-approve --quiet
reconciler apply policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z --auto-approve --quiet

step reconciler plan policies --snapshot snapshot --now 2026-11-20T22:00:00Z --detailed-exitcode
reconciler plan policies --snapshot "$copy/snapshot" --now 2026-11-20T22:00:00Z --detailed-exitcode
