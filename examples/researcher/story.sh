#!/bin/sh
# A researcher has an algorithm (mine.py) and a dataset, and wants both in a comparison: one command, a LaTeX table.
set -eu
cd "$(dirname "$0")"

domkl compare --data ../bakery/sales.csv --target Sold --rounds 200 \
    --add "mine:LastDays(days=14)" --format latex --out "${1:-table.tex}"
