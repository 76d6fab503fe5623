"""Small models that really train, one class each. record.py runs and profiles them.

Shapes: B batch per rank, T tokens, D width, V vocabulary, E experts, K experts per token, W ranks.
All data is generated, so nothing is downloaded and every run sees the same batches.
"""

import dataclasses

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import record_function


@dataclasses.dataclass
class Context:
    rank: int
    world: int
    device: torch.device

    def generator(self):
        return torch.Generator().manual_seed(1000 + self.rank)


class Workload:
    """A subclass sets optimizers and batches, and defines loss()."""

    profile_memory = False
    cuda_only = False
    n_batches = 8

    def __init__(self, ctx):
        self.ctx = ctx

    def ddp(self, model, bucket_mb):
        """Buckets smaller than the default, so that small models have several too."""
        return DDP(model.to(self.ctx.device), bucket_cap_mb=bucket_mb)

    def keep(self, make_batch):
        """Generate the data set up front: making it inside a step would be recorded as work."""
        batches = [make_batch() for _ in range(self.n_batches)]
        if self.ctx.device.type == "cuda":
            batches = [[t.pin_memory() for t in batch] for batch in batches]
        self.batches = batches

    def step(self, i):
        batch = [t.to(self.ctx.device, non_blocking=True) for t in self.batches[i % self.n_batches]]
        with record_function("## forward ##"):
            loss = self.loss(*batch)
        with record_function("## backward ##"):
            loss.backward()
        with record_function("## optimizer ##"):
            for optimizer in self.optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return loss.detach()


def stack(*widths):
    """Linear layers with ReLU between them."""
    layers = []
    for n_in, n_out in zip(widths, widths[1:]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Mlp(Workload):
    """Classification of points that a random linear teacher labelled. DDP."""

    profile_memory = True

    def __init__(self, ctx):
        super().__init__(ctx)
        self.model = self.ddp(stack(256, 1024, 1024, 10), bucket_mb=2)
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)]
        teacher = torch.randn(256, 10, generator=torch.Generator().manual_seed(1))
        gen = ctx.generator()

        def make_batch():
            x = torch.randn(256, 256, generator=gen)  # (B, 256)
            return x, (x @ teacher).argmax(dim=1)

        self.keep(make_batch)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)


def markov_text(n_seq, n_tokens, vocab, gen):
    """Sequences (n_seq, n_tokens) in which each token has four likely successors."""
    successors = torch.randint(vocab, (vocab, 4), generator=torch.Generator().manual_seed(2))
    text = torch.randint(vocab, (n_seq, n_tokens), generator=gen)
    choice = torch.randint(4, (n_seq, n_tokens), generator=gen)
    for t in range(1, n_tokens):
        text[:, t] = successors[text[:, t - 1], choice[:, t]]
    return text


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):  # (B, T, D)
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, T, D/heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GptModel(nn.Module):
    def __init__(self, vocab, n_tokens, width, heads, n_layers):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Parameter(0.02 * torch.randn(n_tokens, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):  # (B, T) -> (B, T, V)
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position)))


class Gpt(Workload):
    """A decoder-only transformer learns the next token. DDP."""

    def __init__(self, ctx):
        super().__init__(ctx)
        model = GptModel(vocab=256, n_tokens=64, width=128, heads=4, n_layers=2)
        self.model = self.ddp(model, bucket_mb=1)
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=2e-3, fused=True)]
        gen = ctx.generator()
        self.keep(lambda: (markov_text(8, 65, 256, gen),))

    def loss(self, text):
        logits = self.model(text[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


class AllToAll(torch.autograd.Function):
    """Rows to ranks: send[r] rows go to rank r, receive[r] come from it. Backward swaps the two."""

    @staticmethod
    def forward(ctx, x, send, receive, group):
        ctx.args = receive, send, group
        out = x.new_empty(sum(receive), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), receive, send, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return AllToAll.apply(grad, *ctx.args), None, None, None


class MoeLayer(nn.Module):
    """Top-K routing over E experts, E/W of them on this rank. No capacity limit: splits vary."""

    def __init__(self, width, n_experts, top_k, world, group):
        super().__init__()
        self.n_experts, self.top_k, self.world, self.group = n_experts, top_k, world, group
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, n_experts, bias=False)
        n_local = n_experts // world
        self.experts = nn.ModuleList(stack(width, 4 * width, width) for _ in range(n_local))

    def forward(self, x):  # (N, D)
        h = self.norm(x)
        prob = self.gate(h).softmax(dim=-1)  # (N, E)
        weight, expert = prob.topk(self.top_k, dim=-1)  # (N, K)
        order = expert.flatten().argsort(stable=True)
        token = order // self.top_k
        sent = torch.bincount(expert.flatten(), minlength=self.n_experts)  # (E)
        received = torch.empty_like(sent)  # (W * E/W): rows from each rank for each local expert
        dist.all_to_all_single(received, sent, group=self.group)

        send = sent.view(self.world, -1).sum(dim=1).tolist()
        receive = received.view(self.world, -1).sum(dim=1).tolist()
        rows = AllToAll.apply(h[token], send, receive, self.group)
        rows = AllToAll.apply(self.run_experts(rows, received), receive, send, self.group)

        share = sent / sent.sum()
        balance = self.n_experts * (share * prob.mean(dim=0)).sum()
        y = x.index_add(0, token, rows * weight.flatten()[order, None])
        return y, balance

    def run_experts(self, rows, received):
        """Rows lie by (source rank, expert); the experts want them by expert."""
        local = torch.arange(len(self.experts), device=rows.device).repeat(self.world)
        order = local.repeat_interleave(received).argsort(stable=True)
        parts = rows[order].split(received.view(self.world, -1).sum(dim=0).tolist())
        out = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        return out[order.argsort()]


class MoeModel(nn.Module):
    def __init__(self, vocab, width, n_layers, **moe):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(MoeLayer(width, **moe) for _ in range(n_layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):  # (N) -> (N, V)
        x, balance = self.token(tokens), 0.0
        for layer in self.layers:
            x, layer_balance = layer(x)
            balance = balance + layer_balance
        return self.head(x), balance


class Moe(Workload):
    """Mixture of experts on the same text. Experts are spread over the ranks, the rest is DDP."""

    def __init__(self, ctx):
        super().__init__(ctx)
        group = dist.new_group(group_desc="expert_parallel")
        model = MoeModel(256, 128, 2, n_experts=8, top_k=2, world=ctx.world, group=group)
        experts = {n: p for n, p in model.named_parameters() if ".experts." in n}
        DDP._set_params_and_buffers_to_ignore_for_model(model, list(experts))
        self.model = self.ddp(model, bucket_mb=1)
        dense = [p for n, p in model.named_parameters() if n not in experts]
        # An expert's gradient is a sum over ranks, DDP's is a mean: hence lr / world.
        self.optimizers = [
            torch.optim.SGD(dense, lr=0.5, momentum=0.9, fused=True),
            torch.optim.SGD(experts.values(), lr=0.5 / ctx.world, momentum=0.9, fused=True),
        ]
        gen = ctx.generator()
        self.keep(lambda: (markov_text(8, 65, 256, gen),))

    def loss(self, text):
        logits, balance = self.model(text[:, :-1].flatten())
        return F.cross_entropy(logits, text[:, 1:].flatten()) + 0.01 * balance


class DlrmDense(nn.Module):
    """Bottom MLP, pairwise dot products with the pooled embeddings, top MLP."""

    def __init__(self, n_dense, n_tables, width):
        super().__init__()
        self.bottom = stack(n_dense, 512, 256, width)
        n_pairs = n_tables * (n_tables + 1) // 2
        self.top = stack(width + n_pairs, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(n_tables + 1, n_tables + 1, -1))

    def forward(self, dense, pooled):  # (B, n_dense), (B, n_tables, D)
        x = self.bottom(dense)
        features = torch.cat([x.unsqueeze(1), pooled], dim=1)
        dots = features @ features.transpose(1, 2)
        return self.top(torch.cat([x, dots[:, self.pairs[0], self.pairs[1]]], dim=1)).squeeze(1)


class Dlrm(Workload):
    """Click prediction. Embedding tables are spread over the ranks, the MLPs are DDP."""

    n_batches = 40  # repeated ones would soon be known by heart
    rows, width, n_dense, batch = 20000, 32, 13, 512
    pooling = (1, 1, 2, 4, 8, 16, 4, 1)  # pooling factor of each table

    def __init__(self, ctx):
        super().__init__(ctx)
        self.group = dist.new_group(group_desc="embedding_parallel")
        self.n_local = len(self.pooling) // ctx.world
        by_rank = [self.pooling[r * self.n_local :][: self.n_local] for r in range(ctx.world)]
        self.local_pooling = by_rank[ctx.rank]
        self.send = [self.batch * sum(p) for p in by_rank]
        self.receive = [self.send[ctx.rank]] * ctx.world
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(self.rows, self.width, mode="sum", sparse=True)
            for _ in range(self.n_local)
        ).to(ctx.device)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.1)
        dense = DlrmDense(self.n_dense, len(self.pooling), self.width)
        self.model = self.ddp(dense, bucket_mb=0.5)
        self.optimizers = [
            torch.optim.AdamW(self.model.parameters(), lr=2e-3, fused=True),
            torch.optim.SGD(self.tables.parameters(), lr=10.0 / ctx.world),  # as in Moe
        ]
        self.keep(self.click_maker(ctx.generator()))

    def click_maker(self, gen):
        """Indices are skewed, as clicks are; each row and dense value moves the odds of a click."""
        fixed = torch.Generator().manual_seed(3)
        row_effect = torch.randn(len(self.pooling), self.rows, generator=fixed)
        dense_effect = torch.randn(self.n_dense, generator=fixed)

        def make_batch():
            dense = torch.randn(self.batch, self.n_dense, generator=gen)
            logit, bags = dense @ dense_effect, []
            for effect, pooling in zip(row_effect, self.pooling):
                u = torch.rand(self.batch, pooling, generator=gen)
                bag = (self.rows**u).long() - 1  # log-uniform: P(row) ~ 1 / (row + 1)
                logit = logit + effect[bag].mean(dim=1)
                bags.append(bag.flatten())
            clicks = torch.rand(self.batch, generator=gen) < logit.sigmoid()
            return dense, torch.cat(bags), clicks.float()

        return make_batch

    def lookup(self, indices):
        """Each rank sends indices to the tables' owners and gets back its samples' pooled rows."""
        world, batch = self.ctx.world, self.batch
        mine = AllToAll.apply(indices, self.send, self.receive, self.group).view(world, -1)
        parts = mine.split([batch * p for p in self.local_pooling], dim=1)
        bags = [part.reshape(-1, p) for part, p in zip(parts, self.local_pooling)]  # (W*B, p)
        pooled = torch.stack([table(bag) for table, bag in zip(self.tables, bags)])
        pooled = pooled.view(self.n_local, world, batch, self.width).transpose(0, 1)
        even = [self.n_local] * world
        pooled = AllToAll.apply(pooled.reshape(-1, batch, self.width), even, even, self.group)
        return pooled.transpose(0, 1)  # (B, n_tables, D)

    def loss(self, dense, indices, clicks):
        return F.binary_cross_entropy_with_logits(self.model(dense, self.lookup(indices)), clicks)


class Graph(Mlp):
    """The MLP with its whole step, all-reduces included, captured in a CUDA graph."""

    cuda_only = True
    profile_memory = False

    def __init__(self, ctx):
        super().__init__(ctx)
        self.x, self.y = [t.to(ctx.device) for t in self.batches[0]]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.eager_step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.eager_step()

    def ddp(self, model, bucket_mb):
        """No DDP: eager_step() averages the gradients itself."""
        model = model.to(self.ctx.device)
        for p in model.parameters():
            dist.broadcast(p.detach(), src=0)
        return model

    def eager_step(self):
        optimizer = self.optimizers[0]
        optimizer.zero_grad()
        loss = self.loss(self.x, self.y)
        loss.backward()
        for p in self.model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
        return loss.detach()

    def step(self, i):
        x, y = self.batches[i % self.n_batches]
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.graph.replay()
        return self.out.clone()


class Pipeline(Workload):
    """Pipeline-parallel MLP, a stage on each rank: all forward passes, then all backward (GPipe).

    Activations (B/M, D) go to the next stage and their gradients back, for each of M micro-batches.
    """

    BATCH, WIDTH, CLASSES, MICRO_BATCHES = 256, 512, 10, 4

    def __init__(self, ctx):
        super().__init__(ctx)
        self.first, self.last = ctx.rank == 0, ctx.rank == ctx.world - 1
        d = self.WIDTH
        layers = [nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d), nn.ReLU()]
        if self.last:
            layers.append(nn.Linear(d, self.CLASSES))
        self.stage = nn.Sequential(*layers).to(ctx.device)
        self.optimizers = [torch.optim.SGD(self.stage.parameters(), lr=1.0)]
        generator = torch.Generator().manual_seed(1000)  # the same data on the first and last stage

        def make_batch():
            x = torch.randn(self.BATCH, d, generator=generator)
            return x, x[:, : self.CLASSES].argmax(1)

        self.keep(make_batch)

    def loss(self, x, target):
        return F.cross_entropy(self.stage(x), target) / self.MICRO_BATCHES

    def forward(self, x, target):
        if not self.first:
            dist.recv(x, self.ctx.rank - 1)
            x.requires_grad_()
        y = self.loss(x, target) if self.last else self.stage(x)
        if not self.last:
            dist.send(y.detach(), self.ctx.rank + 1)
        return x, y

    def backward(self, x, y):
        gradient = None
        if not self.last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, self.ctx.rank + 1)
        y.backward(gradient)
        if not self.first:
            dist.send(x.grad, self.ctx.rank - 1)

    def step(self, i):
        x, target = [t.to(self.ctx.device) for t in self.batches[i % self.n_batches]]
        if not self.first:
            x = torch.empty_like(x)
        parts = zip(x.chunk(self.MICRO_BATCHES), target.chunk(self.MICRO_BATCHES))
        with record_function("## forward ##"):
            passes = [self.forward(*(part.clone() for part in both)) for both in parts]
        with record_function("## backward ##"):
            for both in passes:
                self.backward(*both)
        with record_function("## optimizer ##"):
            self.optimizers[0].step()
            self.optimizers[0].zero_grad()
        loss = sum(y.detach() for _, y in passes) if self.last else torch.zeros(())
        return loss * self.ctx.world  # the mean over ranks is the loss of the last


class Cnn(Workload):
    """A small convolutional network. One process, no DDP."""

    def __init__(self, ctx):
        super().__init__(ctx)
        layers, widths = [], (3, 16, 32, 64)
        for n_in, n_out in zip(widths, widths[1:]):
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        self.model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)]
        gen = ctx.generator()
        self.keep(lambda: (torch.randn(16, 3, 32, 32, generator=gen), torch.arange(16) % 10))

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)


class SmallOps(Workload):
    """Six narrow layers and Adam, a parameter at a time: little but the cost of operators."""

    def __init__(self, ctx):
        super().__init__(ctx)
        self.model = stack(64, *[32] * 6, 10)
        self.optimizers = [torch.optim.Adam(self.model.parameters(), lr=1e-3, foreach=False)]
        gen = ctx.generator()
        self.keep(lambda: (torch.randn(16, 64, generator=gen), torch.arange(16) % 10))

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)


class Matmul(Cnn):
    """Two layers so wide that products are nearly all the time."""

    def __init__(self, ctx):
        Workload.__init__(self, ctx)
        self.model = stack(512, 1024, 1024, 10)
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.05)]
        gen = ctx.generator()
        self.keep(lambda: (torch.randn(256, 512, generator=gen), torch.arange(256) % 10))


class Rnn(Workload):
    """A cell of a GRU, unrolled in Python: an operator at a time waits for the one before."""

    def __init__(self, ctx):
        super().__init__(ctx)
        self.cell, self.head = nn.GRUCell(32, 64), nn.Linear(64, 10)
        parameters = [*self.cell.parameters(), *self.head.parameters()]
        self.optimizers = [torch.optim.SGD(parameters, lr=0.05)]
        gen = ctx.generator()
        self.keep(lambda: (torch.randn(4, 8, 32, generator=gen), torch.arange(8) % 10))

    def loss(self, x, y):  # (T, B, D)
        h = torch.zeros(x.shape[1], 64)
        for row in x:
            h = self.cell(row, h)
        return F.cross_entropy(self.head(h), y)


WORKLOADS = {
    "mlp_ddp": Mlp,
    "gpt_ddp": Gpt,
    "moe": Moe,
    "dlrm": Dlrm,
    "pipeline": Pipeline,
    "cuda_graph": Graph,
}

# Of one process, without a process group: pairs.py records them, too.
LOCAL = {"cnn": Cnn, "small_ops": SmallOps, "matmul": Matmul, "rnn": Rnn}
