"""Train a small GPT fast, in one file that is meant to be read.

    python snippets/prepare_data.py --source sotu --out data/sotu
    python snippets/train_gpt.py --preset tiny                     # two CPU cores, minutes
    python snippets/train_gpt.py --preset speedrun --data DIR      # one GPU

Importing this file has no effect: no CUDA, no environment, no files. What acts starts in main().

Contents (section: blocks)
    Start:      dynamo-limits, grad-accumulation, config
    Data:       load-shard, document-packing, data-stream, bigram-hash
    Primitives: rms-norm, rotary
    Attention:  attention-weights, qk-norm, attention-window
    MLP:        relu2-mlp
    Model:      parameter-banks, layer-plan, smear-gate, bigram-embed, residual-scalars, gpt-forward
    Loss:       softcap
    Optimizer:  polar-express, parameter-table, optimizer-state, adam-update, optimizer-step
    Schedule:   stage-table, lr-schedule, muon-momentum
    Run:        model-build, model-compile, kernel-warmup, profiler, train-loop, validation, run-log

Shapes are part of the names: x_TD is a tensor of T rows and D columns.
    T  tokens of one micro-batch        D  model width          H  heads        K  size of one head
    V  padded vocabulary                L  layers               N  matrices stacked for Muon
    R  rows and C columns of a matrix   S  slots for the starts of documents
A window is counted in tokens and includes the token itself. Times are in milliseconds.

Idea after idea comes from the public speedrun, KellerJordan/modded-nanogpt, and its contributors;
papers are named at the block that uses them. The code here is written anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import gc
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

TORCH_SUPPORTED = ("2.11", "2.13")
"""First and last torch release that this file is tested with; main() refuses others."""


# --------------------------------------------------------------------------------------------------
# Start: every number that can be turned, and what is set before anything runs
# --------------------------------------------------------------------------------------------------


class UserError(Exception):
    """Something that the person at the terminal can put right; main() prints it as one line."""


SWITCHES = (
    "qk-norm", "smear-gate", "bigram-embed", "residual-scalars", "softcap", "polar-express",
    "stage-table", "muon-momentum", "model-compile", "kernel-warmup",
)  # fmt: skip
"""Blocks that `--without` can turn off, so that a run can measure what each is worth."""


# --8<-- [start:config]
# One frozen record holds all that can be tuned; the defaults are the speedrun's. Frozen, because a
# compiled function keeps the values it was traced with: a field changed later would change nothing.
# Credit: the public speedrun trainer, for the sizes and rates.
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Sizes, rates and schedule of one run. A preset is one of these."""

    layers: int = 11
    """Transformer layers; each has attention and an MLP."""
    width: int = 768
    """Size of the residual stream, D."""
    heads: int = 6
    """Attention heads, H; each takes width / heads columns."""
    vocab: int = 50_257
    """GPT-2's tokens, the end-of-text token included."""
    vocab_padded: int = 50_304
    """V: the next multiple of 128, a size that matrix kernels tile evenly. No target is ever one of
    the extra columns, so they only learn to be unlikely."""
    bigram_rows: int = 251_520
    """Rows of the table of hashed token pairs; the last row stands for "no token before"."""
    smear_dims: int = 12
    """How many columns of a token's embedding decide how much of the previous one is let in."""
    layer_pattern: str = "SSSLSSSSSSL"
    """One letter a layer: S sees the short window, L the long one."""
    micro_tokens: int = 16_384
    """Tokens of one forward and backward pass, T. The same in all stages: one shape to compile."""
    max_document: int = 2_048
    """Longer documents are cut into pieces of this many tokens, which can't see one another."""
    max_documents: int = 128
    """Slots for documents in a micro-batch, S - 1. A fixed number, again for one shape."""
    steps: int = 1_547
    """Optimizer steps of the whole run; the schedule stretches over them."""
    stages: tuple[Stage, ...] = field(default_factory=lambda: STAGES["speedrun"])
    """The curriculum: rows of the stage table, whose shares sum to one."""
    muon_lr: float = 0.023
    """Learning rate of the matrices."""
    adam_lr: float = 0.008
    """Learning rate of everything else, before the multiplier in the parameter table."""
    adam_eps: float = 1e-14
    """Floor under Adam's divisor. Small, because the loss is a mean over T tokens, so that the
    gradient of a rare row is tiny: a usual floor of 1e-8 could freeze it."""
    cooldown: float = 0.55
    """Share of the run, at its end, over which the learning rates fall."""
    final_lr: float = 0.1
    """What the learning rates fall to, as a multiple of the base rates."""
    momentum: tuple[float, float] = (0.85, 0.95)
    """Muon's momentum: where it starts and returns to, and what it is in between."""
    momentum_rise: int = 300
    """Steps over which Muon's momentum rises."""
    momentum_fall: int = 50
    """Steps, at the end, over which it falls again."""
    val_every: int = 250
    """Steps between two validations; the last step is always followed by one. 0: only that one."""
    val_tokens: int = 10_485_760
    """Tokens to validate on, or as many as the validation shards hold."""
    without: frozenset[str] = frozenset()
    """Ids of the blocks that are switched off."""

    def __post_init__(self) -> None:
        """Refuses settings that contradict each other, with the setting's name."""
        if unknown := sorted(self.without - set(SWITCHES)):
            raise UserError(f"no switch {unknown[0]!r}; {nearest(unknown[0], SWITCHES)}")
        if len(self.layer_pattern) != self.layers or set(self.layer_pattern) - set("SL"):
            raise UserError(
                f"layer_pattern {self.layer_pattern!r} must have {self.layers} letters, S or L"
            )
        if self.width % self.heads or self.width // self.heads % 4:
            raise UserError(f"width {self.width} must be heads x a multiple of 4, {self.heads=}")

    def on(self, block: str) -> bool:
        """Whether a block is in use; a block that has no switch is a mistake in this file."""
        assert block in SWITCHES, block
        return block not in self.without


# --8<-- [end:config]


def nearest(name: str, known: Sequence[str]) -> str:
    """The end of an error message: what the name may have been meant to be."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(known)}"


# --8<-- [start:dynamo-limits]
# Dynamo stops at 8 compiled variants of a function, and under fullgraph=True one more is an error.
# The model needs one for every pair of windows, for training and for validation: four stages make
# just 8. The optimizer's functions need one for every shape of weight. All are wanted, so the limit
# is raised well above them.
# Called by main(), not at import: it is a setting of the whole process.
def set_dynamo_limits() -> None:
    """Allows as many compiled variants of one function as a run of all stages needs."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64


# --8<-- [end:dynamo-limits]


# --8<-- [start:grad-accumulation]
# One optimizer step sees the mean gradient of several micro-batches: backward() adds into .grad.
# So the tokens of a step can grow over the run while the compiled shape stays T. Each loss is a
# mean over T tokens, hence the division: n passes over T tokens then equal one over n * T.
# Nothing here waits for the GPU. The loss comes back as a tensor, and reading it is up to the log.
def train_step(
    model: nn.Module,
    optimizer: MuonAndAdam,
    stream: Iterator[Batch],
    config: Config,
    step: int,
) -> Tensor:
    """One step of training; returns the mean loss before it, a 0-d fp32 tensor on the device."""
    stage = stage_at(config, step)
    losses = []
    for _ in range(stage.micro_batches):
        loss = model(*next(stream), stage.windows)
        (loss / stage.micro_batches).backward()
        losses.append(loss.detach())
    optimizer.step(step)
    optimizer.zero_grad()
    return torch.stack(losses).mean()


# --8<-- [end:grad-accumulation]


# --------------------------------------------------------------------------------------------------
# Data: from a file of token numbers to the tensors of one micro-batch
# --------------------------------------------------------------------------------------------------

BOS = 50_256  # GPT-2's <|endoftext|>, written before every document
SHARD_MAGIC = 20_240_520
SHARD_VERSION = 1
SHARD_HEADER = 256  # int32 words: magic, version, count of tokens, zeros
SHARD_ADVICE = "make it again with snippets/prepare_data.py"

BIGRAM_FACTORS = (36_313, 27_191)  # odd, and small enough that no product leaves int32


class Batch(NamedTuple):
    """One micro-batch. Shapes never change, so the model is compiled for one of them only."""

    inputs_T: Tensor  # int32, token numbers
    targets_T: Tensor  # int64, the token after each
    bigram_T: Tensor  # int32, rows of the bigram table
    cu_seqlens_S: Tensor  # int32, where documents start; the unused slots at the end hold T


def shard_files(folder: Path, split: str) -> list[Path]:
    """The shards of one split ("train" or "val"), by name. Raises UserError if there are none."""
    advice = "python snippets/prepare_data.py --source sotu --out data/sotu makes a small set"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of shards; {advice}")
    files = sorted(folder.glob(f"*_{split}_*.bin"))
    if not files:
        raise UserError(f"{folder}: holds no *_{split}_*.bin shard; {advice}")
    return files


# --8<-- [start:load-shard]
# A shard is a header of 256 int32 words, then one uint16 a token: half the bytes of int32, and
# GPT-2's 50,257 tokens fit. A file cut short or of another kind would train on noise without any
# error, so all that can be checked is checked before the first token is used.
# Credit: the format of karpathy/llm.c.
def load_shard(path: Path) -> np.ndarray:
    """The tokens of a shard, uint16. Raises UserError naming the file and what is wrong with it."""
    try:
        with path.open("rb") as file:
            header = np.fromfile(file, dtype="<i4", count=SHARD_HEADER)
            tokens = np.fromfile(file, dtype="<u2")
    except OSError as error:
        raise UserError(f"{path}: can't be read ({error.strerror}); check the path") from None
    if len(header) < SHARD_HEADER:
        found = f"{path.stat().st_size} bytes are too few for a header of {4 * SHARD_HEADER}"
        raise UserError(f"{path}: {found}; {SHARD_ADVICE}")
    magic, version, count = (int(word) for word in header[:3])
    if magic != SHARD_MAGIC:
        found = f"starts with {magic}, not with {SHARD_MAGIC}"
        raise UserError(f"{path}: {found}, so it is no token shard; {SHARD_ADVICE}")
    if version != SHARD_VERSION:
        raise UserError(f"{path}: has version {version}, not {SHARD_VERSION}; {SHARD_ADVICE}")
    if count != len(tokens) or path.stat().st_size % 2:
        found = f"header promises {count:,} tokens, file holds {len(tokens):,}"
        raise UserError(f"{path}: {found}; {SHARD_ADVICE}")
    if count and (largest := int(tokens.max())) > BOS:
        raise UserError(f"{path}: holds token {largest}, GPT-2's end at {BOS}; {SHARD_ADVICE}")
    return tokens


# --8<-- [end:load-shard]


# --8<-- [start:document-packing]
# Documents lie end to end, with no padding: every position trains. Attention then must not look
# from one into another, and the kernel wants the places where they start (cu_seqlens). A document
# starts at its BOS; what stands before the first BOS continues one cut off by the micro-batch's
# edge. Slots not needed hold T, documents of no tokens, so that the tensor's shape never changes.
# Credit: the public speedrun trainer; unlike it, we keep what lies beyond a cut as a new piece.
def pack_documents(inputs_T: np.ndarray, config: Config) -> np.ndarray:
    """Starts of the documents in a micro-batch, int32 (S,), in order and padded with T."""
    total = len(inputs_T)
    edges = np.unique(np.concatenate(([0], np.flatnonzero(inputs_T == BOS), [total])))
    pieces = [np.arange(a, b, config.max_document) for a, b in pairwise(edges)]
    starts = np.concatenate(pieces)
    if len(starts) > config.max_documents:
        raise UserError(
            f"{len(starts)} documents in {total:,} tokens, and Config.max_documents is "
            f"{config.max_documents}; join short documents before preparing them, or raise it"
        )
    cu_seqlens_S = np.full(config.max_documents + 1, total, dtype=np.int32)
    cu_seqlens_S[: len(starts)] = starts
    return cu_seqlens_S


# --8<-- [end:document-packing]


# --8<-- [start:data-stream]
# An endless iterator over the shards: T tokens at a time, and one more, since the target of the
# last token is the next one. It can say where it stands and go back there, which is what lets the
# warm-up use real batches and still leave training to start at the first token.
class TokenStream:
    """Iterates over micro-batches on the device, shard after shard, and then from the first again.

    Attributes:
        position: (number of the shard, first token of the next micro-batch).
    """

    def __init__(self, files: Sequence[Path], config: Config, device: torch.device) -> None:
        self.files, self.config, self.device = list(files), config, device
        self.position = (0, 0)
        self._loaded: tuple[int, np.ndarray] | None = None
        self._tokens(0)  # a shard that can't be used is reported now, not in the middle of a run

    def _tokens(self, shard: int) -> np.ndarray:
        if self._loaded is None or self._loaded[0] != shard:
            tokens = load_shard(self.files[shard])
            if len(tokens) <= self.config.micro_tokens:
                need = f"one micro-batch needs {self.config.micro_tokens + 1:,}"
                found = f"{self.files[shard]}: holds {len(tokens):,} tokens and {need}"
                raise UserError(f"{found}; prepare more text, or use a smaller preset")
            self._loaded = (shard, tokens)
        return self._loaded[1]

    def __iter__(self) -> TokenStream:
        return self

    def __next__(self) -> Batch:
        shard, start = self.position
        if start + self.config.micro_tokens >= len(self._tokens(shard)):
            shard, start = (shard + 1) % len(self.files), 0
        end = start + self.config.micro_tokens
        batch = make_batch(self._tokens(shard)[start : end + 1], self.config, self.device)
        self.position = (shard, end)
        return batch


def data_stream(files: Sequence[Path], config: Config, device: torch.device) -> TokenStream:
    """An endless stream of micro-batches from the shards, in order. Raises UserError on a bad one.

    The first shard is read now. On CUDA, batches are queued for copying from pinned memory.
    """
    return TokenStream(files, config, device)


def make_batch(tokens: np.ndarray, config: Config, device: torch.device) -> Batch:
    """T + 1 tokens as a micro-batch on the device."""
    inputs_T = tokens[:-1].astype(np.int32)
    arrays = (
        inputs_T,
        tokens[1:].astype(np.int64),
        bigram_hash(inputs_T, config.bigram_rows),
        pack_documents(inputs_T, config),
    )
    host = map(torch.from_numpy, arrays)
    if device.type != "cuda":
        return Batch(*host)
    # From pinned memory the copy needs no wait: the CPU runs ahead and prepares the next batch.
    return Batch(*(tensor.pin_memory().to(device, non_blocking=True) for tensor in host))


# --8<-- [end:data-stream]


# --8<-- [start:bigram-hash]
# Every pair (token before, token) gets a row of a table by hashing: two multiplications, an XOR and
# a remainder. Pairs that collide share a row, and most of the 2.5 billion pairs never occur. The
# first position has no token before it and gets the last row to itself. Like the smearing below it
# looks across document starts: what a BOS sees before it is harmless.
# Credit: the bigram hash embedding of the public speedrun trainer.
def bigram_hash(inputs_T: np.ndarray, rows: int) -> np.ndarray:
    """The row of the bigram table for every position, int32 in [0, rows)."""
    factor_now, factor_before = BIGRAM_FACTORS
    tokens = inputs_T.astype(np.int32)
    mixed = (factor_now * tokens[1:]) ^ (factor_before * tokens[:-1])
    bigram_T = np.full(len(tokens), rows - 1, dtype=np.int32)
    bigram_T[1:] = mixed % (rows - 1)
    return bigram_T


# --8<-- [end:bigram-hash]


# --------------------------------------------------------------------------------------------------
# Primitives: the two small functions that every layer is built from
# --------------------------------------------------------------------------------------------------


# --8<-- [start:rms-norm]
# Each row is divided by its root mean square. No mean is subtracted and nothing is learned: the
# weights that follow could undo both. Compiled, it is merged with the operations before it.
# Credit: Zhang and Sennrich 2019.
def rms_norm(x: Tensor) -> Tensor:
    """x scaled along its last axis to a root mean square of one; same shape and dtype."""
    return F.rms_norm(x, (x.size(-1),), eps=1e-6)


# --8<-- [end:rms-norm]


# --8<-- [start:rotary]
# Column i of a head is paired with column i + K/2 and the pair is turned by an angle that grows
# with the position, so a product of q and k depends on how far apart they stand. Half of the pairs
# turn, at speeds from 1 down to 1/1024 radians a token; the other half stands still and can match
# content at any distance. The position counts from the start of the micro-batch, not of the
# document: only differences matter, and attention never leaves the document.
# The tables stay in fp32: in bf16 an angle of thousands of radians would be off by whole turns.
# Credit: Su et al. 2021; the standing half: YouJiacheng in the public speedrun.
def rotary_tables(tokens: int, head_size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, fp32 (T, K/2); the second half of their columns stands still."""
    speeds = (1 / 1024) ** torch.linspace(0, 1, head_size // 4)
    speeds = torch.cat([speeds, torch.zeros(head_size // 4)])
    angles_TK = torch.outer(torch.arange(tokens, dtype=torch.float32), speeds)
    return angles_TK.cos(), angles_TK.sin()


def rotate(x_THK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    """Every head turned by its position's angles; same shape and dtype as x_THK."""
    a, b = x_THK.chunk(2, dim=-1)
    cos, sin = cos_TK.unsqueeze(1), sin_TK.unsqueeze(1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).type_as(x_THK)


# --8<-- [end:rotary]


# --------------------------------------------------------------------------------------------------
# Attention: how a token looks back, how far, and never into another document
# --------------------------------------------------------------------------------------------------


# --8<-- [start:attention-window]
# A token sees itself and the window - 1 tokens before it, of its own document only. Both functions
# below compute that. The first is the fast one: a FlashAttention kernel that takes documents end to
# end, never stores a T x T matrix and skips blocks outside the window, so its work grows with T
# times the window, not with T squared. Its window counts the tokens to the left, without the token
# itself. A window is a Python int: a new one is a new constant in the kernel call, so it costs a
# recompile.
# Credit: FlashAttention-2, Dao 2023; windows: Beltagy et al. 2020.
def varlen_attention(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    cu_seqlens_S: Tensor,
    window: int,
    max_document: int,
    scale: float,
) -> Tensor:
    """Attention output (T, H, K). CUDA and bf16 only; cu_seqlens_S is int32."""
    return varlen_attn(
        q_THK,
        k_THK,
        v_THK,
        cu_seqlens_S,
        cu_seqlens_S,
        max_document,
        max_document,
        scale=scale,
        window_size=(window - 1, 0),
    )


def attention_mask(cu_seqlens_S: Tensor, tokens: int, window: int) -> Tensor:
    """Which key (column) a query (row) may see, bool (T, T)."""
    place = torch.arange(tokens, device=cu_seqlens_S.device)
    document = (place[:, None] >= cu_seqlens_S[None, :]).sum(dim=1)
    back = place[:, None] - place[None, :]
    return (document[:, None] == document[None, :]) & (back >= 0) & (back < window)


def reference_attention(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    cu_seqlens_S: Tensor,
    window: int,
    max_document: int,
    scale: float,
) -> Tensor:
    """The same on any device, with the whole mask in memory; max_document is not needed."""
    mask = attention_mask(cu_seqlens_S, q_THK.size(0), window)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q_THK, k_THK, v_THK))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return out.squeeze(0).transpose(0, 1)


# --8<-- [end:attention-window]


class Attention(nn.Module):
    """What the layers share: sizes and rotary tables. Their weights come from the bank."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.head_size = config.heads, config.width // config.heads
        self.max_document = config.max_document
        self.use_qk_norm = config.on("qk-norm")
        # With q and k normalised a product reaches K * scale, some 13: sharp enough, never runaway.
        self.scale = 0.1 if self.use_qk_norm else self.head_size**-0.5
        cos_TK, sin_TK = rotary_tables(config.micro_tokens, self.head_size)
        self.register_buffer("cos_TK", cos_TK, persistent=False)
        self.register_buffer("sin_TK", sin_TK, persistent=False)

    # --8<-- [start:attention-weights]
    # One slice of the bank holds a layer's four D x D matrices, Q, K and V first: one product gives
    # all three, a larger piece of work than three small ones. Two learned scalars stretch the
    # weights, not the activations: there are far fewer weights than activations to pass over.
    # Credit: the public speedrun trainer.
    def forward(
        self, x_TD: Tensor, weight_4DD: Tensor, scalars_2: Tensor, cu_seqlens_S: Tensor, window: int
    ) -> Tensor:
        """What attention adds to the residual stream, (T, D)."""
        tokens, width = x_TD.shape
        scale_qkv, scale_out = scalars_2.unbind(0)
        # split, not two slices: its backward writes one gradient, slices would add up two padded.
        weight_qkv, weight_out = weight_4DD.split([3 * width, width])
        qkv = F.linear(x_TD, scale_qkv * weight_qkv)
        q_THK, k_THK, v_THK = qkv.view(tokens, 3, self.heads, self.head_size).unbind(1)
        q_THK, k_THK = self.place(q_THK), self.place(k_THK)
        attend = varlen_attention if x_TD.is_cuda else reference_attention
        y_THK = attend(q_THK, k_THK, v_THK, cu_seqlens_S, window, self.max_document, self.scale)
        return F.linear(y_THK.reshape(tokens, width), scale_out * weight_out)

    # --8<-- [end:attention-weights]

    # --8<-- [start:qk-norm]
    # Queries and keys are normalised head by head before they are turned, so the products that go
    # into the softmax are bounded whatever the weights grow to.
    # Credit: Henry et al. 2020.
    def place(self, x_THK: Tensor) -> Tensor:
        """Queries or keys, normalised (unless switched off) and turned by their position."""
        if self.use_qk_norm:
            x_THK = rms_norm(x_THK)
        return rotate(x_THK, self.cos_TK, self.sin_TK)

    # --8<-- [end:qk-norm]


# --------------------------------------------------------------------------------------------------
# MLP: what a token does with what it gathered
# --------------------------------------------------------------------------------------------------


# --8<-- [start:relu2-mlp]
# Up to four times the width, the square of ReLU, and down again. Squaring is one multiplication,
# where GELU needs an error function. Both matrices are stored as (4D, D), so one stack holds them
# all and Muon can work on them together.
# Credit: So et al. 2021 (Primer).
def relu2_mlp(x_TD: Tensor, up_RC: Tensor, down_RC: Tensor) -> Tensor:
    """What the MLP adds to the residual stream, (T, D)."""
    return F.relu(F.linear(x_TD, up_RC)).square() @ down_RC


# --8<-- [end:relu2-mlp]


# --------------------------------------------------------------------------------------------------
# Model: the whole network, which torch.compile turns into one graph
# --------------------------------------------------------------------------------------------------


# --8<-- [start:layer-plan]
# What differs from layer to layer is written down once, before training, in a list that forward()
# walks through. No layer number appears in the code, and the plan can be printed.
class LayerPlan(NamedTuple):
    """What one layer does differently."""

    window: str
    """"short" or "long"; how many tokens that is depends on the stage."""

    def tokens(self, windows: tuple[int, int]) -> int:
        """The layer's window in tokens, from the stage's pair (short, long)."""
        short, long = windows
        return long if self.window == "long" else short


def layer_plan(config: Config) -> list[LayerPlan]:
    """The plan of every layer, from the pattern in the config."""
    names = {"S": "short", "L": "long"}
    return [LayerPlan(window=names[letter]) for letter in config.layer_pattern]


# --8<-- [end:layer-plan]


class GPT(nn.Module):
    """The network. Its forward pass returns the mean loss, so all of it is one compiled graph."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.plan = config, layer_plan(config)
        self.attention = Attention(config)
        self.use_smear = config.on("smear-gate")
        self.use_bigram = config.on("bigram-embed")
        self.use_residual_scalars = config.on("residual-scalars")
        self.use_softcap = config.on("softcap")
        layers, width = config.layers, config.width

        # --8<-- [start:parameter-banks]
        # The matrices of all layers lie in two tensors. Muon takes such a stack as it is, with one
        # batched product where there would be dozens, and the compiler sees two weights, not six a
        # layer. The layer's part is taken by unbind, once: its backward is one write of the whole
        # stack, where indexing layer by layer would fill and add up a full-sized gradient for each.
        # Credit: the public speedrun trainer.
        self.attention_bank = nn.Parameter(torch.empty(layers, 4 * width, width))  # Q, K, V, O
        self.mlp_bank = nn.Parameter(torch.empty(layers, 2, 4 * width, width))  # up, down
        # --8<-- [end:parameter-banks]

        self.embed_weight = nn.Parameter(torch.empty(config.vocab_padded, width))
        self.head_weight = nn.Parameter(torch.empty(config.vocab_padded, width))
        self.attention_scalars = nn.Parameter(torch.empty(layers, 2))
        if self.use_smear:
            self.smear_gate = nn.Parameter(torch.empty(config.smear_dims))
            self.smear_scalar = nn.Parameter(torch.empty(()))
        if self.use_bigram:
            self.bigram_weight = nn.Parameter(torch.empty(config.bigram_rows, width))
            self.bigram_scalars = nn.Parameter(torch.empty(layers))
        if self.use_residual_scalars:
            self.residual_scalars = nn.Parameter(torch.empty(layers, 2))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Sets every weight. What writes into the residual stream last starts at zero."""
        bound = 3**0.5 * 0.5 * self.config.width**-0.5  # uniform, deviation half of 1/sqrt(D)
        self.attention_bank.uniform_(-bound, bound, generator=generator)
        self.mlp_bank.uniform_(-bound, bound, generator=generator)
        self.mlp_bank[:, 1].zero_()
        self.embed_weight.normal_(std=0.005, generator=generator)
        self.head_weight.normal_(std=0.005, generator=generator)
        self.attention_scalars.copy_(torch.tensor([0.5, 1.0]))
        if self.use_smear:
            self.smear_gate.zero_()
            self.smear_scalar.zero_()
        if self.use_bigram:
            self.bigram_weight.zero_()
            self.bigram_scalars.fill_(0.1)
        if self.use_residual_scalars:
            self.residual_scalars.copy_(torch.tensor([1.1, 0.0]))

    def embed(self, inputs_T: Tensor) -> Tensor:
        """What enters the first layer, normalised, (T, D)."""
        x_TD = F.embedding(inputs_T, self.embed_weight)
        return rms_norm(self.smear(x_TD) if self.use_smear else x_TD)

    # --8<-- [start:smear-gate]
    # Each token takes in some of the token before it, as much as a gate says that looks at a few
    # columns only. It hands every layer a pair of tokens, for which attention would need a head
    # that looks back by one. It starts shut: the scalar is zero.
    # Credit: the public speedrun trainer.
    def smear(self, x_TD: Tensor) -> Tensor:
        """x_TD with a gated share of each previous row added; the first row stays."""
        gate = torch.sigmoid(x_TD[1:, : len(self.smear_gate)] @ self.smear_gate.type_as(x_TD))
        smeared = x_TD[1:] + self.smear_scalar * gate[:, None] * x_TD[:-1]
        return torch.cat([x_TD[:1], smeared])

    # --8<-- [end:smear-gate]

    # --8<-- [start:bigram-embed]
    # A second embedding, of the hashed pair of tokens, is added before every layer with a weight of
    # the layer's own. It knows what follows a pair from memory, so the layers need not learn it.
    # The table is the biggest weight by far; a forward pass reads one row of it a token.
    # Credit: the public speedrun trainer.
    def bigram(self, bigram_T: Tensor) -> Tensor | None:
        """The rows of the hashed pairs, (T, D), or None when switched off."""
        return F.embedding(bigram_T, self.bigram_weight) if self.use_bigram else None

    # --8<-- [end:bigram-embed]

    # --8<-- [start:residual-scalars]
    # Before each layer the stream is scaled by one learned number, and the embedding it started
    # from is added back, scaled by another. Deep layers so keep sight of the token itself.
    # The numbers are fp32: a step of the optimizer would vanish in bf16's eight bits.
    # Credit: the public speedrun trainer.
    def mix(self, layer: int, x_TD: Tensor, x0_TD: Tensor, bigram_TD: Tensor | None) -> Tensor:
        """The layer's input: the stream, its start and the bigram rows, (T, D)."""
        if self.use_residual_scalars:
            keep, back = self.residual_scalars[layer].unbind(0)
            x_TD = keep * x_TD + back * x0_TD
        if bigram_TD is not None:
            x_TD = x_TD + self.bigram_scalars[layer] * bigram_TD
        return x_TD

    # --8<-- [end:residual-scalars]

    # --8<-- [start:gpt-forward]
    # The loop runs once for each layer while the compiler traces, so the graph holds all of them in
    # a row and no loop. The windows are Python ints and become constants of that graph.
    def forward(
        self,
        inputs_T: Tensor,
        targets_T: Tensor,
        bigram_T: Tensor,
        cu_seqlens_S: Tensor,
        windows: tuple[int, int],
    ) -> Tensor:
        """Mean loss over the micro-batch, fp32 0-d; windows is (short, long) in tokens."""
        x_TD = x0_TD = self.embed(inputs_T)
        bigram_TD = self.bigram(bigram_T)
        attention, scalars = self.attention_bank.unbind(0), self.attention_scalars.unbind(0)
        mlp = self.mlp_bank.unbind(0)
        for layer, plan in enumerate(self.plan):
            x_TD = self.mix(layer, x_TD, x0_TD, bigram_TD)
            weights, window = (attention[layer], scalars[layer]), plan.tokens(windows)
            x_TD = x_TD + self.attention(rms_norm(x_TD), *weights, cu_seqlens_S, window)
            x_TD = x_TD + relu2_mlp(rms_norm(x_TD), *mlp[layer].unbind(0))
        return self.loss(rms_norm(x_TD), targets_T)

    # --8<-- [end:gpt-forward]

    # ----------------------------------------------------------------------------------------------
    # Loss: from the last layer's rows to one number
    # ----------------------------------------------------------------------------------------------

    def loss(self, x_TD: Tensor, targets_T: Tensor) -> Tensor:
        """Mean cross-entropy of the next token, fp32 0-d."""
        # fp32 from here on. Compiled, the cast is meant to be merged into what reads the
        # logits, so that they are stored once, in the model's dtype.
        logits_TV = F.linear(x_TD, self.head_weight).float()
        return F.cross_entropy(softcap(logits_TV) if self.use_softcap else logits_TV, targets_T)


# --8<-- [start:softcap]
# The logits are squeezed into (0, 23) by a shifted sigmoid. No logit can run away, and the shift
# puts its steepest part at -5: early on, nearly all tokens are unlikely, and it is there that
# logits must move easily.
# Credit: Gemma Team 2024, with tanh; this form: the public speedrun trainer.
SOFTCAP_HEIGHT, SOFTCAP_SHIFT, SOFTCAP_WIDTH = 23.0, 5.0, 7.5


def softcap(logits: Tensor) -> Tensor:
    """Logits mapped into (0, 23), in the same order; same shape and dtype."""
    return SOFTCAP_HEIGHT * torch.sigmoid((logits + SOFTCAP_SHIFT) / SOFTCAP_WIDTH)


# --8<-- [end:softcap]


# --------------------------------------------------------------------------------------------------
# Optimizer: Muon for the matrices, Adam for the rest
# --------------------------------------------------------------------------------------------------

POLAR_SAFETY = 2e-2
POLAR_COEFFICIENTS = (
    (8.156554524902461, -22.483292925577953, 15.878769915207466),
    (4.042929935166726, -2.8089174659087055, 0.50001784510513),
    (3.891667802292667, -2.772484153217687, 0.5060648178503395),
    (3.2857536577556545, -2.3681294933425363, 0.46449024233003056),
    (2.346541325859639, -1.7097828382687088, 0.42323551169305307),
)
"""The polynomials a*x + b*x^3 + c*x^5 of polar_express, one a step.

Found by the method of Amsel et al. 2025 (arXiv:2505.16932): starting from singular values in
[0.001, 1], each step takes the odd quintic that stays closest to 1 over the interval where the
steps before it have put them (Remez's exchange algorithm). A lower edge below 2 % of the upper one
is taken as 2 % (the cushion, 2e-2), and all but the last are read at x / 1.02 (the safety, 2e-2),
so that bf16's rounding can't push a value out of the interval. A test computes them anew.
"""
NEWTON_SCHULZ_COEFFICIENTS = ((3.4445, -4.7750, 2.0315),) * 5
"""One polynomial five times: the first choice of Muon (Jordan et al. 2024), kept to compare."""


# --8<-- [start:polar-express]
# Muon replaces a gradient by the nearest matrix whose singular values are all 1: every direction is
# then learned at the same rate, also those that the gradient barely shows. An SVD would give it, at
# far more work. An odd polynomial in X, made of matrix products only, moves the singular values
# and leaves the vectors alone; five well-chosen ones in a row bring all but the smallest near 1.
# bf16 will do, since the next step corrects the last one's rounding. dynamic=False, so that the
# sizes are constants in the generated code; a batch of matrices costs one call.
# Credit: Amsel et al. 2025 (Polar Express); Muon: Jordan et al. 2024.
@torch.compile(dynamic=False, fullgraph=True)
def polar_express(gradient_NRC: Tensor) -> Tensor:
    """Each matrix with its singular values moved to about 1; (N, R, C), bf16 on CUDA else fp32."""
    return odd_polynomials(gradient_NRC, POLAR_COEFFICIENTS)


@torch.compile(dynamic=False, fullgraph=True)
def newton_schulz(gradient_NRC: Tensor) -> Tensor:
    """The plainer way that polar_express replaced; same arguments and result."""
    return odd_polynomials(gradient_NRC, NEWTON_SCHULZ_COEFFICIENTS)


def odd_polynomials(
    gradient_NRC: Tensor, coefficients: Sequence[tuple[float, float, float]]
) -> Tensor:
    """Applies a*X + b*X^3 + c*X^5 for each row of coefficients, where X^3 stands for X X' X."""
    X = gradient_NRC.to(torch.bfloat16 if gradient_NRC.is_cuda else torch.float32)
    tall = X.size(-2) > X.size(-1)
    X = X.mT if tall else X  # X X' is then the smaller of the two squares
    # The Frobenius norm is at least the largest singular value. Unscaled, the powers would explode.
    norm = X.float().norm(dim=(-2, -1), keepdim=True)
    X = (X / (norm * (1 + POLAR_SAFETY) + 1e-6)).type_as(X)
    for a, b, c in coefficients:
        A = X @ X.mT
        B = torch.baddbmm(A, A, A, beta=b, alpha=c)  # b*A + c*A*A in one pass over memory
        X = torch.baddbmm(X, B, X, beta=a)
    return X.mT if tall else X


# --8<-- [end:polar-express]


# --8<-- [start:parameter-table]
# One row a weight: a new weight without a row is an error, and a rate can't hide in an if.
# cut: Muon works on squares (Q, K, V and O one by one) or on the last two axes as they are.
# stored: dtype on CUDA. master: whether the optimizer keeps an fp32 copy beside a bf16 weight, for
# a small step added to a bf16 number is rounded away. The bigram table does without: its steps are
# large, and a copy of it would be the largest tensor of all.
# Credit: the public speedrun trainer, for the layout and most numbers.
class Rule(NamedTuple):
    """How one weight is stored and trained."""

    weight: str
    optimizer: str
    stored: torch.dtype
    master: bool
    lr_scale: float
    betas: tuple[float, float] = (0.0, 0.0)
    decay: float = 0.0
    cut: str = ""


# fmt: off
PARAMETER_TABLE = {rule.weight: rule for rule in (
    #    weight               optimizer stored          master lr_scale betas         decay  cut
    Rule("attention_bank",    "muon",   torch.bfloat16, True,   1.0,    decay=0.025,  cut="square"),
    Rule("mlp_bank",          "muon",   torch.bfloat16, True,   1.0,    decay=0.025,  cut="matrix"),
    Rule("embed_weight",      "adam",   torch.bfloat16, True,   1.0,    (0.50, 0.95)),
    Rule("head_weight",       "adam",   torch.bfloat16, True,   1.0,    (0.50, 0.95)),
    Rule("bigram_weight",     "adam",   torch.bfloat16, False, 75.0,    (0.75, 0.95)),
    Rule("attention_scalars", "adam",   torch.float32,  False,  5.0,    (0.90, 0.99)),
    Rule("residual_scalars",  "adam",   torch.float32,  False,  5.0,    (0.90, 0.99)),
    Rule("bigram_scalars",    "adam",   torch.float32,  False,  5.0,    (0.90, 0.99)),
    Rule("smear_gate",        "adam",   torch.float32,  False,  0.01,   (0.90, 0.99)),
    Rule("smear_scalar",      "adam",   torch.float32,  False,  5.0,    (0.90, 0.99)),
)}
# fmt: on
# --8<-- [end:parameter-table]


# --8<-- [start:adam-update]
# Adam does little arithmetic and reads much: the compiler fuses it into one pass over the weight
# and its two averages. What changes from step to step comes as 0-d CPU tensors; as Python floats
# they would be constants of the compiled code, and each step would compile anew.
# Credit: Kingma and Ba 2014.
@torch.compile(dynamic=False, fullgraph=True)
def adam_update(
    weight: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    lr: Tensor,
    corrections: tuple[Tensor, Tensor],
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Updates weight (fp32 or bf16), mean and square (fp32) in place.

    corrections are 1 - beta^t for the two averages, which start at zero.
    """
    gradient = gradient.float()
    mean.lerp_(gradient, 1 - betas[0])
    square.lerp_(gradient.square(), 1 - betas[1])
    update = (mean / corrections[0]) / ((square / corrections[1]).sqrt() + eps)
    weight.sub_(lr * update)


# --8<-- [end:adam-update]


@torch.compile(dynamic=False, fullgraph=True)
def nesterov_momentum(gradient: Tensor, average: Tensor, momentum: Tensor) -> Tensor:
    """Updates the running average (fp32) in place; returns it, moved once more to the gradient.

    The result has the gradient's dtype: orthogonalising needs no more digits than that.
    """
    exact = gradient.float()
    average.copy_(exact + momentum * (average - exact))
    return (exact + momentum * (average - exact)).type_as(gradient)


@torch.compile(dynamic=False, fullgraph=True)
def muon_update(weight: Tensor, update: Tensor, lr: Tensor, decay: float) -> None:
    """Decays the fp32 weight and subtracts the update, in place."""
    weight.sub_(lr * (update.float() + decay * weight))


class MuonAndAdam:
    """The optimizer of all weights, driven by the parameter table."""

    # --8<-- [start:optimizer-state]
    # Muon keeps one running average a weight, Adam two, all in fp32. Where the table asks for it
    # there is an fp32 master copy: the optimizer moves the master, and the bf16 weight that the
    # model multiplies with follows it. So gradients are stored and added up in bf16, at half the
    # memory traffic, and the forward pass casts no weight matrix.
    # lr, momentum and the corrections live in 0-d CPU tensors that are filled anew each step.
    def __init__(self, model: nn.Module, config: Config) -> None:
        self.config = config
        self.weights = {name.split(".")[-1]: weight for name, weight in model.named_parameters()}
        if missing := sorted(set(self.weights) - set(PARAMETER_TABLE)):
            raise KeyError(f"no row in PARAMETER_TABLE for {', '.join(missing)}")
        self.updates = 0
        self.state = {name: self._new_state(name, weight) for name, weight in self.weights.items()}
        self.scalars = {name: torch.zeros(()) for name in ("momentum", *self.weights)}
        self.corrections = {
            name: (torch.zeros(()), torch.zeros(()))
            for name in self.weights
            if PARAMETER_TABLE[name].optimizer == "adam"
        }
        self.orthogonalise = polar_express if config.on("polar-express") else newton_schulz

    def _new_state(self, name: str, weight: Tensor) -> dict[str, Tensor]:
        rule, data = PARAMETER_TABLE[name], weight.detach()
        state = {"mean": torch.zeros_like(data, dtype=torch.float32)}
        if rule.optimizer == "adam":
            state["square"] = torch.zeros_like(data, dtype=torch.float32)
        if rule.master and data.dtype != torch.float32:
            state["master"] = data.float()
        return state

    # --8<-- [end:optimizer-state]

    # --8<-- [start:optimizer-step]
    # Learning rates come from the schedule, then every weight is moved by its row of the table. All
    # calls are queued without waiting for the GPU. The masters are copied to the weights in the end
    # in one call for all of them.
    @torch.no_grad()
    def step(self, step: int) -> None:
        """Moves all weights by their gradients, at the rates of this step of the schedule."""
        self.updates += 1
        scale = lr_scale(self.config, step)
        self.scalars["momentum"].fill_(muon_momentum(self.config, step))
        for name, weight in self.weights.items():
            rule = PARAMETER_TABLE[name]
            move = self._muon if rule.optimizer == "muon" else self._adam
            move(name, rule, weight, scale)
        masters = [name for name in self.weights if "master" in self.state[name]]
        if masters:
            torch._foreach_copy_(
                [self.weights[name].detach() for name in masters],
                [self.state[name]["master"] for name in masters],
            )

    def _adam(self, name: str, rule: Rule, weight: Tensor, scale: float) -> None:
        state = self.state[name]
        lr = self.scalars[name].fill_(self.config.adam_lr * rule.lr_scale * scale)
        for correction, beta in zip(self.corrections[name], rule.betas, strict=True):
            correction.fill_(1 - beta**self.updates)
        adam_update(
            state.get("master", weight.detach()),
            weight.grad,
            state["mean"],
            state["square"],
            lr,
            self.corrections[name],
            rule.betas,
            self.config.adam_eps,
        )

    def _muon(self, name: str, rule: Rule, weight: Tensor, scale: float) -> None:
        state, columns = self.state[name], weight.size(-1)
        rows = columns if rule.cut == "square" else weight.size(-2)
        # A tall matrix has its C singular values spread over more numbers: it takes a longer step.
        lr = self.config.muon_lr * rule.lr_scale * scale * max(1, rows / columns) ** 0.5
        update = nesterov_momentum(weight.grad, state["mean"], self.scalars["momentum"])
        update_NRC = self.orthogonalise(update.view(-1, rows, columns))
        muon_update(
            state.get("master", weight.detach()),
            update_NRC.view_as(weight),
            self.scalars[name].fill_(lr),
            rule.decay,
        )

    # --8<-- [end:optimizer-step]

    def zero_grad(self) -> None:
        """Drops all gradients; the next backward pass writes new ones, with no zeros to add to."""
        for weight in self.weights.values():
            weight.grad = None

    def state_dict(self) -> dict:
        """All that a later step depends on; the tensors are in use, so clone what you keep."""
        return {"updates": self.updates, "state": self.state}

    @torch.no_grad()
    def load_state_dict(self, saved: dict) -> None:
        """Copies a saved state into the tensors in use. Raises KeyError if a weight is missing."""
        self.updates = saved["updates"]
        for name, state in self.state.items():
            for key, tensor in state.items():
                tensor.copy_(saved["state"][name][key])


# --------------------------------------------------------------------------------------------------
# Schedule: how the work and the rates change over the run
# --------------------------------------------------------------------------------------------------


# --8<-- [start:stage-table]
# The run is a curriculum: early on, few tokens a step and short windows, since there is little yet
# to be learned from afar and noisy gradients do; later more of both. Steps of more tokens take a
# higher learning rate. The last, short stage only widens the windows.
# A new pair of windows is a new graph: the step that meets it first would stop to compile. That is
# what the warm-up before the clock is for.
# Credit: window and batch schedules of the public speedrun trainer.
class Stage(NamedTuple):
    """One row of the curriculum."""

    share: float
    """Part of the run's steps."""
    micro_batches: int
    """Micro-batches summed into one step."""
    window_short: int
    """Window of the S layers, in tokens."""
    window_long: int
    """Window of the L layers, in tokens."""
    lr_scale: float
    """Multiplies all learning rates."""

    @property
    def windows(self) -> tuple[int, int]:
        """(short, long), as the model takes them."""
        return self.window_short, self.window_long


# fmt: off
STAGES = {
    "speedrun": (
        #     share  micro_batches  short  long  lr_scale
        Stage(0.325,             8,   128,  384,     1.00),
        Stage(0.325,            16,   384,  896,     1.52),
        Stage(0.325,            24,   640, 1408,     1.73),
        Stage(0.025,            24,   768, 1664,     1.73),
    ),
    "tiny": (
        #     share  micro_batches  short  long  lr_scale
        Stage(0.500,             1,    64,  128,     1.00),
        Stage(0.500,             2,   128,  256,     1.00),
    ),
}
# fmt: on


def stage_at(config: Config, step: int) -> Stage:
    """The stage of a step; without the stage table, always the one closest to the mean tokens."""
    if not config.on("stage-table"):
        mean = sum(stage.share * stage.micro_batches for stage in config.stages)
        return min(config.stages, key=lambda stage: abs(stage.micro_batches - mean))
    done = 0.0
    for stage in config.stages:
        done += stage.share
        if step < round(done * config.steps):
            return stage
    return config.stages[-1]


# --8<-- [end:stage-table]

PRESETS = {
    "speedrun": Config(),
    "tiny": Config(
        layers=2,
        width=128,
        heads=2,
        layer_pattern="SL",
        bigram_rows=10_000,
        micro_tokens=512,
        max_document=512,
        max_documents=32,
        steps=48,
        stages=STAGES["tiny"],
        momentum_rise=16,
        momentum_fall=5,
        val_every=24,
        val_tokens=4_096,
    ),
}
"""The configurations that --preset names."""


# --8<-- [start:lr-schedule]
# Flat at the stage's rate, then in a straight line down to a tenth of the base rate. No slow start:
# Muon's steps have a fixed size from the first one on, and Adam's averages are corrected.
def lr_scale(config: Config, step: int) -> float:
    """What multiplies all learning rates at a step."""
    flat = stage_at(config, step).lr_scale
    start = config.steps * (1 - config.cooldown)
    fallen = min(1.0, max(0.0, (step - start) / max(1.0, config.steps - start)))
    return flat * (1 - fallen) + config.final_lr * fallen


# --8<-- [end:lr-schedule]


# --8<-- [start:muon-momentum]
# Young gradients point elsewhere every few steps, so a long memory would mislead: the momentum
# rises over the first steps. It falls at the very end, where the rates are low and nothing is left
# to be averaged out.
# Credit: the public speedrun trainer.
def muon_momentum(config: Config, step: int) -> float:
    """Muon's momentum at a step."""
    low, high = config.momentum
    if not config.on("muon-momentum"):
        return high
    rise = min(1.0, step / config.momentum_rise)
    fall = min(1.0, max(0.0, (config.steps - step) / config.momentum_fall))
    return low + (high - low) * min(rise, fall)


# --8<-- [end:muon-momentum]


# --------------------------------------------------------------------------------------------------
# Run: build, compile, warm up, and the loop
# --------------------------------------------------------------------------------------------------


# --8<-- [start:model-build]
# Weights are drawn on the CPU, so that a seed means the same weights on every device, then stored
# as the parameter table says: bf16 on CUDA for all that is multiplied. The CPU keeps fp32, where
# references are compared.
def build_model(config: Config, device: torch.device, seed: int = 0, cls: type[GPT] = GPT) -> GPT:
    """A new model on the device; cls may be a subclass of GPT."""
    model = cls(config)
    model.initialise(torch.Generator().manual_seed(seed))
    if device.type == "cuda":
        for name, weight in model.named_parameters():
            weight.data = weight.data.to(device, PARAMETER_TABLE[name].stored)
    return model.to(device)


# --8<-- [end:model-build]


# --8<-- [start:model-compile]
# The whole model as one graph, forward and backward. dynamic=False: sizes, and ints such as the
# windows, become constants of the generated code; a new value compiles anew. fullgraph=True: what
# can't be traced is an error, where the default would split the graph and run Python in between.
# Nothing is compiled here yet. That happens at the first call.
def compile_model(model: nn.Module, config: Config) -> nn.Module:
    """The compiled model, sharing the weights; the same model if compiling is switched off."""
    if config.on("model-compile"):
        model = torch.compile(model, dynamic=False, fullgraph=True)
    return model


# --8<-- [end:model-compile]


# --8<-- [start:kernel-warmup]
# Compiling takes as long as many steps of training, so all graphs are made before the clock starts:
# each stage's windows, for training and for validation, and the optimizer's functions. Real batches
# go through all of it; then weights, optimizer and stream are put back, bit for bit, and the run
# starts as if nothing had happened.
# Credit: the public speedrun trainer.
def warm_up(
    model: nn.Module, optimizer: MuonAndAdam, stream: TokenStream, config: Config, steps: int
) -> dict[tuple[int, int], float]:
    """Runs every stage that the first `steps` steps meet; returns seconds for each pair of windows.

    Gradients are dropped. Weights, optimizer state and the stream's position are as before.
    """
    weights = [weight.detach().clone() for weight in model.parameters()]
    saved = clone_tree(optimizer.state_dict())
    position = stream.position
    first = {}
    for step in range(steps):
        first.setdefault(stage_at(config, step).windows, step)
    seconds = {}
    for windows, step in first.items():
        start = time.perf_counter()
        batch = next(stream)
        model(*batch, windows).backward()
        optimizer.step(step)
        with torch.no_grad():
            model(*batch, windows).item()  # reading a number waits for all that was queued
        seconds[windows] = time.perf_counter() - start
    optimizer.zero_grad()
    with torch.no_grad():
        for weight, before in zip(model.parameters(), weights, strict=True):
            weight.copy_(before)
    optimizer.load_state_dict(saved)
    stream.position = position
    return seconds


def clone_tree(tree: object) -> object:
    """A copy of nested dicts with every tensor in them cloned."""
    if isinstance(tree, dict):
        return {key: clone_tree(value) for key, value in tree.items()}
    return tree.clone() if isinstance(tree, Tensor) else tree


# --8<-- [end:kernel-warmup]


# --8<-- [start:validation]
# The mean loss over the same tokens each time, with the windows of the current stage. Without
# gradients the model is another graph, since nothing must be kept for a backward pass.
@torch.no_grad()
def validate(
    model: nn.Module,
    files: Sequence[Path],
    config: Config,
    device: torch.device,
    windows: tuple[int, int],
) -> float:
    """Mean loss over the first val_tokens tokens of the shards, or one pass over them if fewer."""
    stream = data_stream(files, config, device)
    losses: list[Tensor] = []
    while len(losses) * config.micro_tokens < config.val_tokens:
        batch = next(stream)
        if losses and stream.position == (0, config.micro_tokens):
            break  # the stream has started over
        losses.append(model(*batch, windows))
    return torch.stack(losses).mean().item()


# --8<-- [end:validation]


# --8<-- [start:profiler]
# A trace of a whole run would be too big to open. This schedule looks away for two steps, waits
# one, lets the profiler itself warm up in one and records three, once. Whether those three are free
# of compilation is no matter of the schedule: it is so because the warm-up came first.
PROFILE_SCHEDULE = {"skip_first": 2, "wait": 1, "warmup": 1, "active": 3, "repeat": 1}
PROFILE_STEPS = 7


def profiler(folder: Path | None) -> AbstractContextManager:
    """A profiler that writes folder/trace.json.gz, or a stand-in that does nothing."""
    if folder is None:
        return nullcontext()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(**PROFILE_SCHEDULE),
        on_trace_ready=lambda trace: trace.export_chrome_trace(str(folder / "trace.json.gz")),
    )


# --8<-- [end:profiler]


# --8<-- [start:run-log]
# One line a step, to the terminal and to a file. A loss is read one step late, when the next step
# is queued already, so the GPU never waits for the log. Reading the tensor itself would wait for
# all that is queued, the next step too: so the number is copied to the host in the queue, behind
# its step, and an event tells when it has arrived. The time of a step is that between two such
# events, on the GPU's own clock: the host sees them late, while it is busy queueing the next
# step. Time spent on validation is not counted.
class RunLog:
    """Prints and keeps the lines of a run, and how long its steps took."""

    def __init__(self, path: Path | None, config: Config, device: torch.device) -> None:
        self.file = path.open("w", encoding="utf-8") if path else None
        self.config, self.device = config, device
        self.milliseconds: dict[Stage, list[float]] = {}
        self.losses: list[float] = []
        self._queued: tuple[int, Tensor, torch.cuda.Event | float] | None = None
        self._clock: torch.cuda.Event | float = 0.0

    def line(self, text: str) -> None:
        """Writes one line now."""
        print(text, flush=True)
        try:
            if self.file:
                print(text, file=self.file, flush=True)
        except OSError as error:
            raise UserError(f"--out: can't be written ({error.strerror}); free space") from None

    def start_clock(self) -> None:
        """What is queued from here on is timed."""
        self._clock = self._now()

    def _now(self) -> torch.cuda.Event | float:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step(self, step: int, loss: Tensor) -> None:
        """Takes a step's loss, still being computed, and writes the line of the step before."""
        if loss.is_cuda:
            loss = torch.empty((), pin_memory=True).copy_(loss, non_blocking=True)
        queued = (step, loss, self._now())
        self.finish()
        self._queued = queued
        if self.device.type != "cuda":
            self.finish()  # a CPU has computed it already

    def finish(self) -> None:
        """Waits for the step in the queue and writes its line."""
        if self._queued is None:
            return
        step, loss, now = self._queued
        self._queued = None
        if isinstance(now, float):
            taken = 1e3 * (now - self._clock)
        else:
            now.synchronize()
            taken = self._clock.elapsed_time(now)
        self._clock = now
        value = loss.item()
        stage = stage_at(self.config, step)
        self.milliseconds.setdefault(stage, []).append(taken)
        self.losses.append(value)
        rate = stage.micro_batches * self.config.micro_tokens / taken * 1e3
        short, long = stage.windows
        self.line(
            f"step {step + 1}/{self.config.steps}  loss {value:.4f}  {taken:.1f} ms  "
            f"{rate:,.0f} tokens/s  windows {short}/{long}  "
            f"lr x{lr_scale(self.config, step):.3f}"
        )

    def summary(self) -> None:
        """Writes the median step of each stage, and the peak memory on CUDA."""
        for stage, taken in self.milliseconds.items():
            median = statistics.median(taken)
            tokens = stage.micro_batches * self.config.micro_tokens
            short, long = stage.windows
            self.line(
                f"windows {short}/{long}: {tokens:,} tokens a step, median {median:.1f} ms "
                f"of {len(taken)} steps, {tokens / median * 1e3:,.0f} tokens/s"
            )
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device) / 1e9
            self.line(f"peak memory {peak:.1f} GB of {torch.cuda.get_device_name(self.device)}")


# --8<-- [end:run-log]


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line. When it is wrong, argparse ends the process with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="train_gpt.py",
        description="Train a small GPT on shards of tokens made by prepare_data.py.",
        epilog="blocks for --without:\n  " + "\n  ".join(SWITCHES),
        formatter_class=argparse.RawDescriptionHelpFormatter,  # or ids are broken at their hyphens
    )
    add = parser.add_argument
    add("--preset", default="tiny", metavar="NAME", help="tiny (CPU) or speedrun (a GPU)")
    add("--data", type=Path, default=Path("data/sotu"), metavar="DIR", help="folder of shards")
    add("--steps", type=int, metavar="N", help="length of the run; the schedule is scaled to it")
    add("--stop", type=int, metavar="N", help="end after N steps and leave the schedule as it is")
    add("--without", default="", metavar="ID,ID", help="blocks to switch off, to see their worth")
    add("--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: cuda if any")
    add("--seed", type=int, default=0, metavar="N", help="seed of the initial weights")
    add("--out", type=Path, metavar="FILE", help="also write the log to this file")
    add("--profile", type=Path, metavar="DIR", help="write a trace of three steps to this folder")
    return parser.parse_args(argv)


def make_config(arguments: argparse.Namespace) -> Config:
    """The preset, changed as the command line says. Raises UserError on a name that isn't known."""
    if arguments.preset not in PRESETS:
        known = nearest(arguments.preset, tuple(PRESETS))
        raise UserError(f"--preset: no preset {arguments.preset!r}; {known}")
    changes: dict = {"without": frozenset(filter(None, arguments.without.split(",")))}
    for option in ("steps", "stop"):
        if (value := getattr(arguments, option)) is not None and value < 1:
            raise UserError(f"--{option} {value}: at least 1 is needed")
    if arguments.steps:
        changes["steps"] = arguments.steps
    config = dataclasses.replace(PRESETS[arguments.preset], **changes)
    if arguments.profile and min(config.steps, arguments.stop or config.steps) < PROFILE_STEPS:
        raise UserError(f"--profile: needs a run of at least {PROFILE_STEPS} steps")
    if not -(2**63) <= arguments.seed < 2**64:
        raise UserError(f"--seed {arguments.seed}: must fit 64 bits; choose a smaller one")
    return config


def check_torch() -> None:
    """Raises UserError for a torch release that this file isn't tested with."""
    major, minor = torch.__version__.split(".")[:2]
    first, last = (tuple(map(int, version.split("."))) for version in TORCH_SUPPORTED)
    if not first <= (int(major), int(minor)) <= last:
        supported = " to ".join(TORCH_SUPPORTED)
        raise UserError(f"torch {torch.__version__} is installed; supported is {supported}")


def pick_device(arguments: argparse.Namespace) -> torch.device:
    """The device to run on. Raises UserError where the preset or the choice can't be served."""
    cuda = torch.cuda.is_available()
    if arguments.device == "cuda" and not cuda:
        raise UserError("--device cuda: torch finds no CUDA GPU; use --device cpu --preset tiny")
    if arguments.preset == "speedrun" and arguments.device == "auto" and not cuda:
        raise UserError("--preset speedrun: needs a CUDA GPU and torch finds none; use tiny")
    return torch.device("cuda" if cuda and arguments.device != "cpu" else "cpu")


def prepare_outputs(arguments: argparse.Namespace) -> None:
    """Makes the folders and the file of the results. Raises UserError naming what can't be."""
    for folder in (arguments.profile, arguments.out.parent if arguments.out else None):
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: can't be made ({error.strerror}); choose another") from None
    try:
        if arguments.out:
            arguments.out.open("a").close()
    except OSError as error:
        raise UserError(f"{arguments.out}: can't be written ({error.strerror})") from None


def describe(config: Config, model: nn.Module, device: torch.device) -> list[str]:
    """The first lines of a log: what runs, and on what."""
    weights = sum(weight.numel() for weight in model.parameters())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    plan = " ".join(plan.window for plan in layer_plan(config))
    off = f", without {', '.join(sorted(config.without))}" if config.without else ""
    return [
        f"torch {torch.__version__} on {name}{off}",
        f"{weights:,} weights in {config.layers} layers; windows {plan}",
    ]


# --8<-- [start:train-loop]
# Setup, warm-up, clock, loop. Validation comes before the step it is due at, and once more after
# the last; the clock stands still for it.
def run(arguments: argparse.Namespace) -> None:
    """The whole command. Raises UserError for all that the person at the terminal can put right."""
    # --- Setup ---
    check_torch()
    config, device = make_config(arguments), pick_device(arguments)
    train_files = shard_files(arguments.data, "train")
    val_files = shard_files(arguments.data, "val")
    stream = data_stream(train_files, config, device)
    data_stream(val_files, config, device)  # a bad shard is found now, not at the first validation
    prepare_outputs(arguments)
    set_dynamo_limits()
    steps = min(config.steps, arguments.stop or config.steps)
    model = build_model(config, device, seed=arguments.seed)
    optimizer = MuonAndAdam(model, config)
    log = RunLog(arguments.out, config, device)
    for line in describe(config, model, device):
        log.line(line)
    model = compile_model(model, config)

    # --- Warm-up, outside the clock ---
    if config.on("kernel-warmup"):
        for (short, long), seconds in warm_up(model, optimizer, stream, config, steps).items():
            log.line(f"warm-up, windows {short}/{long}: {seconds:.1f} s")

    # --- Training ---
    gc.collect()  # what set-up left behind is not collected in the middle of a step
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    log.start_clock()
    with profiler(arguments.profile) as trace:
        for step in range(steps + 1):
            last = step == steps
            if last or (config.val_every and step % config.val_every == 0):
                log.finish()
                windows = stage_at(config, max(0, step - last)).windows
                loss = validate(model, val_files, config, device, windows)
                log.line(f"step {step}/{config.steps}  validation loss {loss:.4f}")
                log.start_clock()
            if last:
                break
            log.step(step, train_step(model, optimizer, stream, config, step))
            if trace is not None:
                trace.step()
    log.summary()


# --8<-- [end:train-loop]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0 done, 2 wrong use or unreadable input."""
    try:
        run(parse_arguments(argv))
    except UserError as error:
        print(f"train_gpt.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("train_gpt.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
