#!/bin/sh
# axe-core, which checks the live page for readers with disabilities: only a test uses it. From npm's registry to
# build/axe.min.js, if its checksum is right. Safe to run again; where it cannot, it says so and ends well.
set -eu

version=4.14.0
digest=20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878
cd "$(dirname "$0")/.."
target=build/axe.min.js

is_right() {
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$digest" ]
}

if is_right "$target"; then
    echo "there already: $target"
    exit 0
fi
command -v npm >/dev/null 2>&1 || { echo "skipped: no npm; the test with axe-core will be skipped"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$folder" && npm pack --silent "axe-core@$version" >/dev/null && tar xzf axe-core-*.tgz) || {
    echo "skipped: npm pack failed; the test with axe-core will be skipped"
    exit 0
}
is_right "$folder/package/axe.min.js" || { echo "axe-core $version has another checksum than expected" >&2; exit 1; }
mkdir -p build
mv "$folder/package/axe.min.js" "$target"
echo "installed: $target (axe-core $version, MPL-2.0)"
