#!/usr/bin/env bash
# The command of an AWS Batch array job whose image is that of Containerfile; its role gives the credentials.
# PARTS is the array's size; indices count from 0, parts from 1.
set -euo pipefail

jnrrdz batch "$SOURCES" -o "$MANIFESTS/{path}.json" --shard "$((AWS_BATCH_JOB_ARRAY_INDEX + 1))/$PARTS" --resume
