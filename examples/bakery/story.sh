#!/bin/sh
# A data scientist has a CSV as an office saves it: semicolons, decimal commas, dates, shops and weather by name.
# Three commands: predictions with bounds and a saved model, what tomorrow brings, and which inputs matter.
set -eu
here=$(dirname "$0")

domkl run --data "$here/sales.csv" --target Sold --out results
domkl predict results/model.domkl --data "$here/tomorrow.csv" --out tomorrow.csv
domkl explain results/model.domkl --data "$here/tomorrow.csv"
