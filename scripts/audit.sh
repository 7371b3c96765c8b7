#!/usr/bin/env bash
# Known weaknesses of what domkl[agent,cli] installs, and the list of it as a CycloneDX SBOM: audit.sh DIRECTORY
set -euo pipefail
out="${1:-dist}"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
mkdir -p "$out"
"${PYTHON:-python3}" -m venv "$place/what" "$place/tools"
"$place/what/bin/python" -m pip install -q --disable-pip-version-check ".[agent,cli]"
"$place/what/bin/python" -m pip uninstall -q -y pip setuptools
"$place/tools/bin/python" -m pip install -q --disable-pip-version-check pip-audit==2.10.1 cyclonedx-bom==7.5.0
"$place/tools/bin/cyclonedx-py" environment "$place/what/bin/python" --pyproject pyproject.toml \
    --output-format JSON --output-file "$out/domkl.cdx.json"
"$place/tools/bin/pip-audit" --path "$place"/what/lib/python*/site-packages --skip-editable
