#!/usr/bin/env python3
"""Record a job of JAX on several processes of this host: data-parallel steps of a small model.

Each rank writes rankN.xplane.pb.gz, what jax.profiler recorded of three steps.

    record_jax.py --out examples/traces/jax_gloo_w2
"""
import argparse
import glob
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

STEPS = 3


def train(rank, ranks, address, folder):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, ranks, rank)
    mesh = Mesh(jax.devices(), ("data",))

    def array(shape, *axes):
        sharding = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.make_array_from_callback(shape, sharding, lambda at: np.ones(shape, np.float32)[at])

    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(loss)(w, x))
    w, x = array((64, 64)), array((16, 64), "data", None)
    for _ in range(STEPS):
        w = step(w, x).block_until_ready()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.enable_hlo_proto = False
    jax.profiler.start_trace(folder, profiler_options=options)
    for i in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=i):
            w = step(w, x).block_until_ready()
    jax.profiler.stop_trace()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--ranks", default=2, type=int)
    parser.add_argument("--address", default="127.0.0.1:29571")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return train(args.rank, args.ranks, args.address, str(args.out))
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        runs = [subprocess.Popen([sys.executable, __file__, "--out", f"{scratch}/{r}", "--ranks", str(args.ranks),
                                  "--address", args.address, "--rank", str(r)]) for r in range(args.ranks)]
        if any([run.wait() for run in runs]):
            sys.exit("a rank failed")
        for r in range(args.ranks):
            found, = glob.glob(f"{scratch}/{r}/plugins/profile/*/*.xplane.pb")
            content = pathlib.Path(found).read_bytes()
            (args.out / f"rank{r}.xplane.pb.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    return None


if __name__ == "__main__":
    main()
