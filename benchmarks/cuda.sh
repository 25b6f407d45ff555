#!/bin/sh
# Run the tests that need a GPU, compare the kernel over packed tokens with plain torch, then time a
# model of an 8B Llama's shape with random weights:
#
#     benchmarks/cuda.sh [FOLDER]
#
# FOLDER (runs/cuda by default) gets the benchmark's results. Nothing is downloaded, no weights are
# needed, and the whole takes under 8 minutes on one GPU with 40 GiB. CONFIG, SEEN and BUDGET choose
# another shape, BIN another environment than the repository's.
#
# Exit codes: 0 all passed, or there is no GPU and nothing was run; otherwise that of what failed.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-runs/cuda}
bin=${BIN:-.venv/bin}
config=${CONFIG:-benchmarks/configs/llama-8b.json}
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

has_cuda=$("$bin/python" -c "import torch; print(int(torch.cuda.is_available()))")
if [ "$has_cuda" != 1 ]; then
    echo "torch sees no CUDA device: the tests and the benchmark for GPUs were skipped." >&2
    exit 0
fi

mkdir -p "$folder"
# Only the files with such tests: to read all others takes longer than these tests do.
files=$(grep -rl --include='test_*.py' 'mark\.cuda' tests)
timeout 150 "$bin/python" -m pytest -m cuda -q $files
timeout 60 "$bin/python" benchmarks/packed_attention.py --device cuda --dtype bfloat16 \
    > "$folder/packed_attention.txt" ||
    { code=$?; cat "$folder/packed_attention.txt"; exit "$code"; }
cat "$folder/packed_attention.txt"
timeout 240 "$bin/memdecay" bench speed \
    --random-weights "$config" --device cuda --dtype bfloat16 \
    --policies full,memdecay+no-fading,memdecay \
    --seen "${SEEN:-1024,4096,8192,16384}" --budget "${BUDGET:-1024}" --out "$folder"
