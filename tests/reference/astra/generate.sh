#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Traces of STG, ASTRA-sim's generator: generate.sh PYTHON STG_FOLDER OUTPUT
set -eu
python=$1 stg=$2 out=$3
export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python
i=0
# dp tp sp pp layers micro-batch sharded tpsp model
while read -r dp tp sp pp layers micro sharded tpsp model; do
    i=$((i + 1))
    name=$(printf '%02d_d%st%ss%sp%s' $i "$dp" "$tp" "$sp" "$pp")
    mkdir -p "$out/$name"
    (cd "$stg" && "$python" main.py --output_dir "$out/$name" --output_name w --dp "$dp" --tp "$tp" \
        --sp "$sp" --pp "$pp" --num_stacks "$layers" --dmodel 512 --dff 1024 --batch 32 --seq 128 \
        --head 8 --kvhead 8 --dvocal 1024 --micro_batch "$micro" --weight_sharded "$sharded" \
        --tpsp "$tpsp" --model_type "$model") >"$out/$name/log" 2>&1 || { echo "$name failed"; rm -r "${out:?}/$name"; }
done <<END
2 2 1 2 2 16 0 1 dense
8 1 1 1 1 -1 0 1 dense
1 8 1 1 1 -1 0 1 dense
1 1 8 1 1 -1 0 1 dense
1 1 1 8 8 8 0 1 dense
4 2 1 1 1 -1 0 1 dense
2 4 1 1 1 -1 0 1 dense
4 2 1 1 1 -1 1 1 dense
2 4 1 1 1 -1 1 1 dense
2 4 1 1 1 -1 0 0 dense
4 2 1 1 2 -1 1 0 dense
4 1 1 2 2 8 0 1 dense
1 4 1 2 2 16 0 1 dense
2 1 2 2 2 16 0 1 dense
1 2 2 2 2 16 0 1 dense
2 2 2 1 1 -1 0 1 dense
2 2 2 1 1 -1 1 1 dense
2 2 1 2 2 8 1 1 dense
2 2 1 2 2 16 0 0 dense
2 1 1 4 4 16 0 1 dense
1 2 1 4 4 16 0 1 dense
4 4 1 1 1 -1 0 1 dense
2 4 1 2 2 16 0 1 dense
4 2 1 2 2 8 0 1 dense
2 2 2 2 2 16 0 1 dense
2 2 1 4 4 16 0 1 dense
4 4 1 1 1 -1 1 0 dense
4 4 1 2 2 16 0 1 dense
4 2 2 2 2 16 0 1 dense
2 2 2 1 1 -1 0 1 gpt
2 2 1 2 2 16 0 1 gpt
4 2 1 1 1 -1 0 0 gpt
2 4 1 1 1 -1 1 1 gpt
2 2 1 2 3 16 0 1 dense
8 2 1 1 1 -1 1 1 dense
2 8 1 1 1 -1 0 1 dense
END
