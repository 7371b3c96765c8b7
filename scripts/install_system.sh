#!/bin/sh
# System packages that some tests need: a broker (mosquitto), a database (postgresql), a scraper (prometheus), tools that
# break networks (iproute2, nftables, vde2) or clocks (libfaketime), a browser (chromium, chromium-driver), and a compiler
# and an emulator of small devices. Safe to run again. Where it cannot install, it says what is skipped and ends well.
set -eu

packages="mosquitto postgresql prometheus iproute2 nftables vde2 libfaketime chromium chromium-driver gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
policy=/usr/sbin/policy-rc.d

is_installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q "ok installed"
}

skip() {
    echo "skipped: $1; tests that need$missing will be skipped"
    exit 0
}

missing=""
for package in $packages; do
    if command -v dpkg-query >/dev/null 2>&1 && is_installed "$package"; then
        continue
    fi
    missing="$missing $package"
done

if [ -z "$missing" ]; then
    echo "all there: $packages"
    exit 0
fi
command -v apt-get >/dev/null 2>&1 || skip "no apt-get"
[ "$(id -u)" -eq 0 ] || skip "not root"

# Debian starts a broker and a database when they are installed. policy-rc.d forbids that, for the length of this script.
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q || skip "apt-get update failed"
# shellcheck disable=SC2086  # a list of words
apt-get install -q -y --no-install-recommends $missing || skip "apt-get install failed"

# Should a server that was just installed run all the same, stop it: the tests start their own.
for server in mosquitto prometheus; do
    case "$missing" in
    *$server*)
        if [ -d /run/systemd/system ]; then
            systemctl disable --now "$server.service" >/dev/null 2>&1 || true
        elif [ -x "/etc/init.d/$server" ]; then
            "/etc/init.d/$server" stop >/dev/null 2>&1 || true
        fi
        ;;
    esac
done
echo "installed:$missing"
