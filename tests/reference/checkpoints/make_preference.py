#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes llama3/preference.json: three steps of direct preference optimisation; see README.md.

Needs torch, transformers (made with 2.15.0, 5.23.0); run it after make.py llama3.
"""
import json
import pathlib

import torch
import transformers as tf

HERE = pathlib.Path(__file__).parent
PAIRS, TOKENS, PROMPT = 2, 12, 4
BETA, NLL, RATE = 0.1, 0.2, 5e-3
torch.manual_seed(11)
torch.set_num_threads(1)


def load():
    model = tf.LlamaForCausalLM.from_pretrained(HERE / "llama3", dtype=torch.float32,
                                                attn_implementation="eager")
    return model.eval()


def log_p(model, tokens, targets, counts):
    """Of the answers, shape (rows)."""
    logits = model(tokens).logits
    picked = torch.log_softmax(logits, -1).gather(2, targets[..., None])[..., 0]
    return (picked * counts).sum(1)


def main():
    prompts = torch.randint(0, 160, (PAIRS, PROMPT))
    answers = torch.randint(0, 160, (2 * PAIRS, TOKENS + 1 - PROMPT))
    rows = torch.cat([prompts.repeat_interleave(2, 0), answers], 1)  # chosen, rejected, chosen, ...
    tokens, targets = rows[:, :-1], rows[:, 1:]
    counts = torch.zeros(2 * PAIRS, TOKENS)
    for i, n in enumerate((8, 6, 9, 9)):
        counts[i, PROMPT - 1:PROMPT - 1 + n] = 1
    model, reference = load(), load()
    with torch.no_grad():
        of_reference = log_p(reference, tokens, targets, counts)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() < 2]
    adamw = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                               {"params": plain, "weight_decay": 0.0}],
                              lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    steps = []
    for step in range(1, 4):
        adamw.zero_grad()
        p = log_p(model, tokens, targets, counts)
        gain = p - of_reference
        margin = BETA * (gain[0::2] - gain[1::2])
        loss = -torch.nn.functional.logsigmoid(margin) - NLL * p[0::2] / counts[0::2].sum(1)
        loss.mean().backward()
        norm = torch.sqrt(sum((q.grad ** 2).sum() for q in model.parameters()))
        steps.append({"step": step, "loss": loss.mean().item(), "gradient_norm": norm.item(),
                      "accuracy": (margin > 0).float().mean().item()})
        adamw.step()
    about = {"beta": BETA, "nll": NLL, "rate": RATE, "tokens": tokens.tolist(),
             "targets": targets.tolist(), "counts": counts.int().tolist(),
             "reference": of_reference.tolist(), "steps": steps}
    (HERE / "llama3" / "preference.json").write_text(json.dumps(about) + "\n")
    print(steps)


if __name__ == "__main__":
    main()
