#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small tokenizers of this folder, and what their own libraries make of random strings.

Usage: make.py FOLDER; needs sentencepiece, tokenizers and tiktoken (0.2.3, 0.23.3, 0.14.0 were used).

strings.txt has a string a line, in hex. NAME.ids has a line for each: how many tokens, and the FNV-1a hash
(64 bits) of their ids as little-endian int32; of the first strings the ids too.
"""
import base64
import io
import json
import pathlib
import random
import sys
import unicodedata

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = """
The execution graph of a rank holds its operators, what they depend on, and the lane each runs in.
We'll measure it again; they've said it's 3.14159 times faster, but I'm not sure they'd repeat it.
In 2024 the cluster had 16,384 devices, 466 interruptions in 54 days, and 90 % effective training time.
int main(void) { for (int i = 0; i < 128; i++) sum += values[i] * 0.5f; return sum != 0 ? 1 : 0; }
def forward(self, x):\n    return self.down(silu(self.gate(x)) * self.up(x))\n
Der Rechner läuft schnell, wenn die Straße trocken ist; größere Häuser müssen länger kühlen.
L'été dernier, nous avons mesuré la vitesse du réseau à Besançon, où il fait très chaud.
El niño comió una manzana en la montaña; mañana volverá a la ciudad con su señora.
Быстрая лиса перепрыгивает через ленивую собаку, а потом идёт домой по длинной дороге.
Η γρήγορη αλεπού πηδάει πάνω από τον τεμπέλη σκύλο και πηγαίνει στο σπίτι.
今天天气很好，我们去公园散步，然后回家吃饭。模型的参数有四千零五十亿个。
東京の天気は晴れです。私たちは電車に乗って、海へ行きました。カタカナも書きます。
오늘은 날씨가 좋아서 우리는 공원에 갔습니다. 모델을 훈련하는 데 시간이 걸립니다.
السلام عليكم، كيف حالك اليوم؟ الطقس جميل جدا في المدينة.
नमस्ते, आज मौसम बहुत अच्छा है और हम बाज़ार जा रहे हैं।
Emoji: 😀 🚀 ❤️ 👩‍👩‍👧‍👦 🇩🇪 and arrows → ⇒ ≤ ≥ ± × ÷ ∑ ∫ √ π.
https://example.org/path/to/file.txt?query=1&other=2#part  user@example.org  C:\\Windows\\System32
AllReduce AllGather reduceScatter HTTPServer XMLParser camelCaseWords SCREAMING_SNAKE_CASE kebab-case
    indented text\twith tabs\t\tand   several    spaces     in   a row\n\n\nand empty lines\r\nof two kinds
0 1 2 3 4 5 6 7 8 9 10 11 12 100 200 1000 2000 1234567890 ١٢٣ ४५६ Ⅷ ½ ²
""" * 3

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
N_STRINGS, N_SHOWN, VOCAB = 2000, 25, 700
SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def characters():
    """Code points that every Unicode since 14 knows, a few of each category more often than by count."""
    by_category = {}
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs", "Co"):
            by_category.setdefault(category, []).append(chr(code))
    return by_category


def random_string(rng, by_category, words):
    contractions = ["'s", "'S", "'t", "'RE", "'ve", "'m", "'Ll", "'d", "'ſ", "'", "''", "'x"]
    spaces = [" ", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u2003", "\u3000", "\x85", "\v", " \n ", "\u2028"]
    parts = []
    for _ in range(rng.randrange(14)):
        kind = rng.randrange(9)
        if kind < 3:
            word = rng.choice(words)
            parts.append(rng.choice([word, " " + word, word.upper(), word.capitalize()]))
        elif kind == 3:
            parts.append(rng.choice(spaces))
        elif kind == 4:
            parts.append(rng.choice(contractions))
        elif kind == 5:
            parts.append(str(rng.randrange(10 ** rng.randrange(1, 9))))
        elif kind == 6:
            parts.append(rng.choice(".,;:!?/\\-_()[]{}<>@#$%&*+=~`\"|^"))
        else:
            category = rng.choice(sorted(by_category))
            parts.append("".join(rng.choice(by_category[category]) for _ in range(rng.randrange(1, 4))))
    return "".join(parts)


def fnv(ids):
    value = 0xCBF29CE484222325
    for id_ in ids:
        for byte in int(id_).to_bytes(4, "little", signed=True):
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def write_ids(folder, name, strings, encode):
    lines = []
    for i, text in enumerate(strings):
        ids = encode(text)
        shown = "".join(f" {id_}" for id_ in ids) if i < N_SHOWN else ""
        lines.append(f"{len(ids)} {fnv(ids):016x}{shown}\n")
    (folder / f"{name}.ids").write_text("".join(lines))


def train_sentencepiece(folder, name, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines()), model_writer=model, vocab_size=VOCAB + 256, model_type="bpe",
        normalization_rule_name="identity", character_coverage=0.98, minloglevel=2, **options)
    (folder / f"{name}.model").write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def byte_level(pattern, normalizer=None, use_regex=False, prefix=False, ignore_merges=False):
    t = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)
    if normalizer is not None:
        t.normalizer = normalizer
    t.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated", False), level])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator([CORPUS], trainers.BpeTrainer(
        vocab_size=VOCAB, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in SPECIALS])
    t.add_tokens([AddedToken("<user>", normalized=False), AddedToken("<user>more", normalized=False)])
    return t


def of_characters(legacy, scheme="first", split=True):
    t = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        t.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme, split=split)
    words = [c for c in CORPUS.split("\n")]
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trained.train_from_iterator(words, trainers.BpeTrainer(
        vocab_size=VOCAB + 256, show_progress=False, special_tokens=specials, limit_alphabet=120))
    model = json.loads(trained.to_str())["model"]
    state = json.loads(t.to_str())
    state["model"].update(vocab=model["vocab"], merges=model["merges"])
    t = tokenizers.Tokenizer.from_str(json.dumps(state))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def save_json(folder, name, t, strings):
    state = json.loads(t.to_str())
    (folder / f"{name}.json").write_text(json.dumps(state, ensure_ascii=False, separators=(",", ":")))
    write_ids(folder, name, strings, lambda s: t.encode(s, add_special_tokens=False).ids)


def save_tiktoken(folder, name, pattern, strings):
    t = byte_level(pattern)
    decode = {c: b for b, c in byte_letters().items()}
    words = [w for w, _ in sorted(t.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])]
    tokens = [bytes(decode[c] for c in w) for w in words]
    # single bytes first, as in published files; merged tokens stay in their order
    tokens = sorted(tokens, key=lambda token: len(token) > 1)
    ranks = {token: i for i, token in enumerate(tokens)}
    (folder / f"{name}.tiktoken").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    write_ids(folder, name, strings, encoding.encode_ordinary)


def byte_letters():
    """GPT-2's letters for bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


def main():
    folder = pathlib.Path(sys.argv[1])
    rng, by_category = random.Random(20), characters()
    words = sorted(set(CORPUS.split()))
    strings = ["", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "<user>", "a<user>more b<user>c"]
    strings += [random_string(rng, by_category, words) for _ in range(N_STRINGS - len(strings))]
    (folder / "strings.txt").write_text("".join(s.encode().hex() + "\n" for s in strings))

    spm = train_sentencepiece(folder, "llama2", byte_fallback=True, split_digits=True,
                              remove_extra_whitespaces=False, user_defined_symbols=["<user>", "<user>more"])
    write_ids(folder, "llama2", strings, spm.encode)
    spm = train_sentencepiece(folder, "folding", remove_extra_whitespaces=True)
    write_ids(folder, "folding", strings, spm.encode)
    save_tiktoken(folder, "llama3", LLAMA3, strings)
    save_tiktoken(folder, "o200k", O200K, strings)
    save_json(folder, "json_llama3", byte_level(LLAMA3, ignore_merges=True), strings)
    save_json(folder, "json_o200k", byte_level(O200K), strings)
    save_json(folder, "json_qwen2", byte_level(QWEN2, normalizer=normalizers.NFC()), strings)
    save_json(folder, "json_gpt2", byte_level(None, use_regex=True, prefix=True), strings)
    save_json(folder, "json_metaspace", of_characters(False), strings)
    save_json(folder, "json_unsplit", of_characters(False, "always", False), strings)
    save_json(folder, "json_legacy", of_characters(True), strings)


main()
