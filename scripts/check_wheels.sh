#!/usr/bin/env bash
# Do all that an agent needs come as wheels for 64-bit ARM Linux? Resolves, downloads and installs nothing.
set -euo pipefail
for python in 3.10 3.11 3.12 3.13; do
    "${PYTHON:-python3}" -m pip install --quiet --dry-run --ignore-installed --no-deps --target /nonexistent \
        --only-binary=:all: --implementation cp --python-version "$python" \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
        numpy msgspec eclipse-zenoh paho-mqtt safetensors prometheus-client cryptography cffi
    echo "aarch64, Python $python: numpy, msgspec, eclipse-zenoh, paho-mqtt, safetensors, prometheus-client," \
        "cryptography, cffi resolve"
done
