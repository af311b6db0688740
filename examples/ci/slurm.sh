#!/usr/bin/env bash
# Index a directory that all nodes see, in as many parts as the array has tasks:
#   sbatch --array=1-16 slurm.sh /archive/scenes /archive/manifests
# in an environment that is active and has `pip install jnrrdz`.
# A task that failed is run again by `sbatch --array=7 --export=ALL,PARTS=16 slurm.sh ...`: what is done is left.
#SBATCH --job-name=jnrrdz
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=02:00:00
set -euo pipefail

sources=$1
manifests=$2
part=$SLURM_ARRAY_TASK_ID
parts=${PARTS:-$SLURM_ARRAY_TASK_COUNT}

jnrrdz batch "$sources/" -o "$manifests/{path}.json" --shard "$part/$parts" --resume \
  --processes "${SLURM_CPUS_PER_TASK:-1}" --report "report-$part.jsonl"
