#!/bin/sh
# Compare our baselines' scores with kvpress's own, in an environment of its own:
#
#     benchmarks/kvpress_check.sh [FOLDER]
#
# FOLDER (build/kvpress by default) gets the environment, which is made once.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/kvpress}
if [ ! -x "$folder/bin/python" ]; then
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet "torch==2.13.*" "kvpress>=0.5,<0.6" "transformers<5.3"
fi
"$folder/bin/python" benchmarks/kvpress_check.py record "$folder/scores.pt"
.venv/bin/python benchmarks/kvpress_check.py compare "$folder/scores.pt"
