#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what --emit prints (the golden cases emit_*) against the frameworks' own parsers and checks.

A framework that cannot be imported is skipped, by name. Checked by hand with these versions, unpacked
into folders of PYTHONPATH: Megatron-LM core_v0.16.1 (the repository: the package megatron-core has no
megatron.training), torchtitan 0.2.2, deepspeed 0.19.8, maxtext 0.2.5; with tyro, pydantic, omegaconf,
PyYAML, packaging, numpy, psutil, hjson and py-cpuinfo installed. Flags of Megatron-DeepSpeed are looked
up in its megatron/arguments.py (commit f4157be), where MEGATRON_DEEPSPEED names its checkout.

Other packages that a framework imports (torch, jax, ...) and that are not installed get a stand-in:
parsers take nothing from them but names and number formats.
"""
import abc
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import io
import json
import math
import os
import pathlib
import re
import sys
import tempfile
import types
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness import Skip, case, main  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
FRAMEWORKS = ("megatron", "torchtitan", "deepspeed", "maxtext")


# --- stand-ins for packages that are not installed ---------------------------------------------------------------------------

class StandInMeta(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class StandInBase(metaclass=StandInMeta):
    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass


class StandIn:
    """Any object of a package: called, used as a decorator, subscripted or inherited from."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __mro_entries__(self, bases):
        first = next(base for base in bases if isinstance(base, StandIn))
        return (StandInBase,) if first is self and not any(isinstance(base, type) for base in bases) else ()

    def __or__(self, other):
        return object
    __ror__ = __or__

    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __lt__(self, other):
        return False
    __gt__ = __ge__ = __le__ = __lt__


class StandInModule(types.ModuleType):
    __path__ = []
    __version__ = "2.9.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, StandIn())
        return getattr(self, name)


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: of packages that no other one has found."""
    PACKAGES = {"torch", "transformer_engine", "triton", "apex", "einops", "jax", "jaxlib", "flax", "tensorstore", "torchao",
                "orbax", "huggingface_hub", "google", "tensorflow", "absl", "six", "transformers", "sentencepiece", "tiktoken",
                "regex", "modelopt", "wandb", "tqdm", "msgpack", "einops", "etils", "chex", "optax", "jaxtyping", "tokenizers",
                "jinja2", "pathwaysutils", "ml_collections"}

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandInModule(spec.name)

    def exec_module(self, module):
        pass


class NumberFormat:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "torch." + self.name


def stand_in():
    sys.meta_path.append(StandInFinder())
    torch, cuda = importlib.import_module("torch"), importlib.import_module("torch.cuda")
    if not isinstance(torch, StandInModule):
        return
    torch.cuda = cuda
    torch.dtype = NumberFormat
    for name in ("float32", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool", "float8_e4m3fn"):
        setattr(torch, name, NumberFormat(name))
    torch.float, torch.half = torch.float32, torch.float16
    torch.is_grad_enabled = lambda: True
    cuda.get_device_capability = lambda *device: (9, 0)


# --- what --emit printed -----------------------------------------------------------------------------------------------------

def emitted(framework):
    """Name of each case, and its standard output."""
    found = False
    for folder in sorted(GOLDEN.glob(f"emit_{framework}_*")):
        text = (folder / "want").read_text()
        yield folder.name, re.search(r"^--- stdout\n(.*?)(?=^--- |\Z)", text, re.S | re.M).group(1)
        found = True
    assert found, f"no case emit_{framework}_*"


def imported(name):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return importlib.import_module(name)
        except ImportError as why:
            raise Skip(f"{name} cannot be imported: {why}") from None


# --- the frameworks ----------------------------------------------------------------------------------------------------------

@case
def megatron_takes_its_flags():
    arguments = imported("megatron.training.arguments")
    for name, text in emitted("megatron"):
        flags = [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
        parser = arguments.add_megatron_arguments(arguments.argparse.ArgumentParser(allow_abbrev=False))
        with contextlib.redirect_stdout(io.StringIO()):
            args = parser.parse_args(flags)
            args.rank, args.local_rank, args.world_size = 0, 0, int(re.search(r"on (\d+) ranks", text).group(1))
            arguments.validate_args(args, {})
            config = arguments.core_transformer_config_from_args(args)
        assert config.num_layers == args.num_layers, name
        dp = args.world_size // (args.tensor_model_parallel_size * args.pipeline_model_parallel_size *
                                 args.context_parallel_size)
        assert args.global_batch_size % (args.micro_batch_size * dp) == 0, name


@case
def torchtitan_takes_its_configuration():
    manager = imported("torchtitan.config.manager")
    for name, text in emitted("torchtitan"):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            config = manager.ConfigManager().parse_args(["--job.config_file", file.name])
        plan, ranks = config.parallelism, int(re.search(r"on (\d+) ranks", text).group(1))
        assert ranks == (plan.data_parallel_replicate_degree * plan.data_parallel_shard_degree *
                         plan.context_parallel_degree * plan.tensor_parallel_degree * plan.pipeline_parallel_degree), name
        models = pathlib.Path(manager.__file__).parent.parent / "models" / config.model.name / "__init__.py"
        labeled = "# no option: model=" not in text
        assert not labeled or f'"{config.model.flavor}"' in models.read_text(), name


@case
def deepspeed_takes_its_configuration():
    config, zero = imported("deepspeed.runtime.config"), imported("deepspeed.runtime.zero.config")
    for name, text in emitted("deepspeed"):
        made = json.loads(text)
        read = zero.DeepSpeedZeroConfig(**made["zero_optimization"])
        assert read.stage == made["zero_optimization"]["stage"], name
        assert config.get_train_batch_size(made) == made["train_batch_size"], name
        known = {value for module in (config, imported("deepspeed.runtime.constants")) for value in vars(module).values()
                 if isinstance(value, str)}
        missing = set(made) - known - {"megatron_deepspeed", "not_expressed", "zero_optimization"}
        assert not missing, f"{name}: {missing}"
        config.get_communication_data_type(made)


@case
def megatron_deepspeed_takes_its_flags():
    if "MEGATRON_DEEPSPEED" not in os.environ:
        raise Skip("MEGATRON_DEEPSPEED names no checkout")
    known = (pathlib.Path(os.environ["MEGATRON_DEEPSPEED"]) / "megatron" / "arguments.py").read_text()
    for name, text in emitted("deepspeed"):
        for flag in json.loads(text)["megatron_deepspeed"]:
            assert f"'{flag}'" in known, f"{name}: {flag}"


@case
def maxtext_takes_its_configuration():
    yaml, kinds = imported("yaml"), imported("maxtext.configs.types")
    base = yaml.safe_load((pathlib.Path(kinds.__file__).parent / "base.yml").read_text())
    for name, text in emitted("maxtext"):
        made = yaml.safe_load(text)
        assert not set(made) - set(base), f"{name}: {set(made) - set(base)}"
        ranks = int(re.search(r"on (\d+) devices", text).group(1))
        inside, across = (math.prod(value for key, value in made.items() if key.startswith(axes)) for axes in ("ici_", "dcn_"))
        assert inside * across == ranks, f"{name}: {inside} x {across} of {ranks}"
        # As maxtext.configs.pyconfig does, "None" is no value; devices are those of a topology instead of this machine's.
        given = {key: value for key, value in base.items() if value != "None"} | made
        config = kinds.MaxTextConfig(**given | {"run_name": name, "base_output_directory": "/tmp", "internal_compile": True,
                                                "internal_compile_num_devices": ranks, "num_slices": across})
        batch = config.per_device_batch_size * ranks * config.gradient_accumulation_steps
        assert batch == config.global_batch_size_to_train_on, name


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    stand_in()
    main()
