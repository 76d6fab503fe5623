#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny checkpoints and golden numbers in this folder; see README.md.

Needs torch, transformers and safetensors (made with 2.15.0, 5.23.0, 0.6); Orrery itself does not.

Usage: make.py [FAMILY...]
"""
import json
import pathlib
import sys

import torch
import transformers as tf
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
NEW_TOKENS = 12
torch.manual_seed(0)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

SMALL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, vocab_size=160,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
WAVES = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
             high_freq_factor=4.0, original_max_position_embeddings=64)
LLAMA4 = SMALL | dict(
    num_hidden_layers=4, head_dim=16, intermediate_size=48, intermediate_size_mlp=96,
    num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
    attention_chunk_size=8, no_rope_layer_interval=4, attn_temperature_tuning=True, floor_scale=8,
    attn_scale=0.1, use_qk_norm=True,
    rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=16.0, low_freq_factor=1.0,
                         high_freq_factor=1.0, original_max_position_embeddings=32))
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
              image_size=56, patch_size=14, pixel_shuffle_ratio=0.5, vision_output_dim=48,
              projector_input_dim=48, projector_output_dim=48)
IMAGE_TOKEN = 150

FAMILIES = {
    # name: class, config, how weights are kept, bytes of a shard
    "llama2": (tf.LlamaForCausalLM,
               tf.LlamaConfig(**SMALL | dict(num_key_value_heads=4, rms_norm_eps=1e-5)),
               torch.float32, "200KB"),
    "llama3": (tf.LlamaForCausalLM,
               tf.LlamaConfig(**SMALL, rms_norm_eps=1e-5, rope_parameters=WAVES),
               torch.bfloat16, "1GB"),
    "llama4": (tf.Llama4ForCausalLM, tf.Llama4TextConfig(**LLAMA4), torch.bfloat16, "1GB"),
    "llama4_vision": (tf.Llama4ForConditionalGeneration,
                      tf.Llama4Config(text_config=LLAMA4 | dict(interleave_moe_layer_step=1,
                                                                num_hidden_layers=2),
                                      vision_config=VISION, image_token_index=IMAGE_TOKEN,
                                      boi_token_index=151, eoi_token_index=152),
                      torch.bfloat16, "1GB"),
    "mixtral": (tf.MixtralForCausalLM,
                tf.MixtralConfig(**SMALL | dict(intermediate_size=48), num_local_experts=4,
                                 num_experts_per_tok=2, rope_parameters=dict(
                                     rope_type="default", rope_theta=1e6)),
                torch.bfloat16, "1GB"),
    "qwen2": (tf.Qwen2ForCausalLM,
              tf.Qwen2Config(**SMALL, tie_word_embeddings=True), torch.float16, "1GB"),
    "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config(**SMALL, head_dim=24), torch.bfloat16, "1GB"),
    "qwen3_moe": (tf.Qwen3MoeForCausalLM,
                  tf.Qwen3MoeConfig(**SMALL, head_dim=16, moe_intermediate_size=32, num_experts=6,
                                    num_experts_per_tok=2, norm_topk_prob=True),
                  torch.bfloat16, "1GB"),
    "gpt2": (tf.GPT2LMHeadModel,
             tf.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=64, vocab_size=160,
                           resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                           bos_token_id=None, eos_token_id=None),
             torch.bfloat16, "1GB"),
}
# By model type: parameters of two dims or more whose gradients are kept.
TRAINED = {"llama": ("q_proj.weight", "lm_head.weight", "embed_tokens.weight"),
           "mixtral": ("q_proj.weight", "gate.weight", "0.mlp.experts.down_proj"),
           "gpt2": ("0.mlp.c_fc.weight", "0.attn.c_attn.weight")}


def random_weights(model, dtype, seed):
    """Weights large enough that every part of the model matters, and exact in what they are kept in."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=draw)
            if p.dim() == 1 and ("norm" in name or "ln_" in name) and name.endswith("weight"):
                values = 1 + 0.2 * values
            elif p.dim() == 1:
                values = 0.2 * values
            elif "embed_tokens" in name or "wte" in name:
                values = 0.7 * values
            elif "wpe" in name or "positional" in name:
                values = 0.3 * values
            else:
                fan_in = p.shape[-2] if p.dim() == 3 or ("c_" in name) else p.shape[-1]
                values = 1.3 * values / fan_in ** 0.5
            p.copy_(values.to(dtype).to(torch.float32))


def prompts_of(vocab, images):
    draw = torch.Generator().manual_seed(7)
    lists = [torch.randint(0, min(vocab, 140), (n,), generator=draw).tolist() for n in (5, 20, 40)]
    if images:
        lists = [[3, 151] + [IMAGE_TOKEN] * 8 + [152, 17, 44, 9], lists[1]]
    return lists


def pixels_of(config):
    draw = torch.Generator().manual_seed(11)
    side = config.vision_config.image_size
    return torch.randn(2, 3, side, side, generator=draw).to(torch.bfloat16).to(torch.float32)


def logits_of(model, tokens, pixels):
    extra = {}
    if pixels is not None and IMAGE_TOKEN in tokens:
        extra["pixel_values"] = pixels
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False, **extra).logits[0].float()


def greedy(model, tokens, pixels):
    """Continuation, and the smallest lead of a chosen token over the next best."""
    tokens, new, lead = list(tokens), [], float("inf")
    for _ in range(NEW_TOKENS):
        best = logits_of(model, tokens, pixels)[-1].topk(2)
        lead = min(lead, (best.values[0] - best.values[1]).item())
        new.append(best.indices[0].item())
        tokens.append(new[-1])
    return new, lead


def write_golden(model, folder, pixels):
    config = model.config.get_text_config()
    golden, tensors = {"prompts": []}, {}
    for i, tokens in enumerate(prompts_of(config.vocab_size, pixels is not None)):
        new, lead = greedy(model, tokens, pixels)
        tensors[f"logits.{i}"] = logits_of(model, tokens, pixels).contiguous()
        golden["prompts"].append({"tokens": tokens, "greedy": new, "least_lead": round(lead, 5)})
    if pixels is not None:
        tensors["pixels"] = pixels
        with torch.no_grad():
            hidden = model.vision_model(pixels).last_hidden_state
            tensors["vision"] = hidden.contiguous()
            tensors["pictures"] = model.multi_modal_projector(
                hidden.reshape(-1, hidden.shape[-1])).contiguous()
        golden["image_token"] = IMAGE_TOKEN
    save_file(tensors, folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


ADAMW = dict(lr=5e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def write_training(model, folder):
    """Three AdamW steps on the same two samples: loss and gradients before each step."""
    draw = torch.Generator().manual_seed(13)
    batch = torch.randint(0, model.config.vocab_size, (2, 25), generator=draw)
    tokens, targets = batch[:, :-1], batch[:, 1:]
    model.train()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": plain, "weight_decay": 0.0}], foreach=False, **ADAMW)
    kept = {n: n.replace("mlp.gate.weight", "block_sparse_moe.gate.weight")
            for n, p in model.named_parameters()
            if p.dim() < 2 or n.endswith(TRAINED[model.config.model_type])}
    steps, tensors = [], {}
    for step in range(1, 4):
        optimizer.zero_grad()
        logits = model(input_ids=tokens, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        norm = torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters())).item()
        steps.append({"step": step, "loss": loss.item(), "gradient_norm": norm})
        for name, p in model.named_parameters():
            if name in kept and (step == 1 or p.dim() < 2):
                tensors[f"gradient.{step}.{kept[name]}"] = p.grad.detach().clone()
        optimizer.step()
    for name, p in model.named_parameters():
        if name in kept and p.numel() < 5000:
            tensors[f"after.3.{kept[name]}"] = p.detach().clone()
    about = {"tokens": tokens.tolist(), "targets": targets.tolist(), "steps": steps,
             "adamw": ADAMW | {"decayed": "parameters of two dims or more"}}
    save_file(tensors, folder / "train.safetensors")
    (folder / "train.json").write_text(json.dumps(about) + "\n")


def make(name):
    cls, config, dtype, shard = FAMILIES[name]
    config._attn_implementation = "eager"
    torch.manual_seed(1)
    model = cls(config).eval()
    random_weights(model, dtype, seed=100 + sum(map(ord, name)))
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write_golden(model, folder, pixels_of(config) if name == "llama4_vision" else None)
    kept = cls(config)
    kept.load_state_dict(model.state_dict())
    for p in kept.parameters():  # not .to(): tables of rotations are complex buffers
        p.data = p.data.to(dtype)
    kept.config.dtype = dtype
    kept.save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if name in ("llama3", "mixtral", "gpt2"):
        write_training(model, folder)
    for file in folder.iterdir():
        file.chmod(0o644)
    print(name, sum(f.stat().st_size for f in folder.iterdir()), flush=True)


class Dlrm(torch.nn.Module):
    """Naumov et al., arXiv 1906.00091; cross layers: Wang et al., arXiv 2008.13535, eq. 2."""

    def __init__(self, dense, dim, rows, bottom, top, cross_layers, cross_rank):
        super().__init__()
        vectors = len(rows) + 1
        self.tables = torch.nn.ParameterList(torch.nn.Parameter(torch.empty(r, dim)) for r in rows)
        self.bottom = self.mlp([dense] + bottom)
        self.cross_u = torch.nn.ModuleList(
            torch.nn.Linear(vectors * dim, cross_rank, bias=False) for _ in range(cross_layers))
        self.cross_v = torch.nn.ModuleList(
            torch.nn.Linear(cross_rank, vectors * dim) for _ in range(cross_layers))
        columns = vectors * dim if cross_layers else dim + vectors * (vectors - 1) // 2
        self.top = self.mlp([columns] + top)

    @staticmethod
    def mlp(widths):
        return torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, dense, ids):
        x = dense
        for layer in self.bottom:
            x = torch.relu(layer(x))
        bags = [table[ids_of].sum(1) for table, ids_of in zip(self.tables, ids)]
        if self.cross_u:
            x0 = x = torch.cat([x] + bags, 1)
            for u, v in zip(self.cross_u, self.cross_v):
                x = x0 * v(u(x)) + x
        else:
            all_of = torch.stack([x] + bags, 1)
            pairs = all_of @ all_of.transpose(1, 2)
            row, column = torch.tril_indices(all_of.shape[1], all_of.shape[1], -1)
            x = torch.cat([x, pairs[:, row, column]], 1)
        for i, layer in enumerate(self.top):
            x = layer(x)
            if i + 1 < len(self.top):
                x = torch.relu(x)
        return x[:, 0]


DLRM_RATE, DLRM_EPS, DLRM_SAMPLES = 0.1, 1e-8, 8
DLRM = {"dense": 13, "dim": 8, "rows": [50, 7, 200], "lookups": [3, 1, 5], "bottom": [16, 8],
        "top": [16, 1], "cross_layers": 0, "cross_rank": 0}


def dlrm_steps(shape, adagrad, tensors, prefix):
    """Three steps: dense layers with SGD; tables with SGD, or with row-wise Adagrad: the mean square
    of a row's gradient is added to its state, then w -= rate g / (sqrt(state) + eps)."""
    torch.manual_seed(5)
    model = Dlrm(**{k: v for k, v in shape.items() if k != "lookups"})
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape) * (0.1 if p.dim() == 1 else p.shape[-1] ** -0.5))
    begin = {n: p.detach().clone() for n, p in model.named_parameters()}
    dense = torch.randn(DLRM_SAMPLES, shape["dense"])
    ids = [torch.randint(0, r, (DLRM_SAMPLES, n)) for r, n in zip(shape["rows"], shape["lookups"])]
    labels = torch.randint(0, 2, (DLRM_SAMPLES,)).float()
    state = [torch.zeros(r) for r in shape["rows"]]
    losses = []
    for step in range(1, 4):
        model.zero_grad()
        logits = model(dense, ids)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        losses.append(loss.item())
        for n, p in model.named_parameters():
            if step == 1 and not adagrad:
                tensors[f"{prefix}.gradient.1.{n}"] = p.grad.detach().clone()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if adagrad and n.startswith("tables"):
                    s = state[int(n.split(".")[1])]
                    s += (p.grad ** 2).mean(1)
                    p -= DLRM_RATE * p.grad / (s.sqrt() + DLRM_EPS)[:, None]
                else:
                    p -= DLRM_RATE * p.grad
    suffix = "adagrad" if adagrad else "sgd"
    for n, p in model.named_parameters():
        if not adagrad:
            tensors[f"{prefix}.{n}"] = begin[n]
        tensors[f"{prefix}.after.3.{suffix}.{n}"] = p.detach().clone()
    if adagrad:
        for i, s in enumerate(state):
            tensors[f"{prefix}.after.3.state.{i}"] = s
    tensors[f"{prefix}.dense"], tensors[f"{prefix}.labels"] = dense, labels
    return {"losses": losses, "ids": [i.tolist() for i in ids]}


def make_dlrm(_):
    folder = HERE / "dlrm"
    folder.mkdir(exist_ok=True)
    tensors, about = {}, {"rate": DLRM_RATE, "eps": DLRM_EPS, "samples": DLRM_SAMPLES}
    for prefix, shape in (("dot", DLRM), ("cross", DLRM | {"cross_layers": 2, "cross_rank": 4})):
        sgd = dlrm_steps(shape, False, tensors, prefix)
        adagrad = dlrm_steps(shape, True, tensors, prefix)
        assert sgd["ids"] == adagrad["ids"]
        about[prefix] = {"shape": shape, "ids": sgd["ids"], "losses_sgd": sgd["losses"],
                         "losses_adagrad": adagrad["losses"]}
    save_file(tensors, folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(about) + "\n")
    (folder / "golden.safetensors").chmod(0o644)
    print("dlrm", sum(f.stat().st_size for f in folder.iterdir()), flush=True)


def main():
    for name in sys.argv[1:] or list(FAMILIES) + ["dlrm"]:
        make_dlrm(name) if name == "dlrm" else make(name)


if __name__ == "__main__":
    main()
