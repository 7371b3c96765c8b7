#!/bin/sh
# Three sensors publish flat JSON on topics of their own, at a broker that asks for a password.
# Two commands: files for three devices, and the three that learn together. Predictions are on predictions/<name>,
# a page of each device on http://127.0.0.1:9464/ and the next two ports.
#
#   story.sh [BROKER [PORT [SECONDS]]]     with the password in BROKER_PASSWORD, or asked for
set -eu

domkl init --broker "${1:-127.0.0.1:1883}" --user weather --topic 'sensors/+/env' --target temp --port "${2:-9464}"
domkl up agents ${3:+--seconds "$3"}
