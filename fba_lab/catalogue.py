"""The table of blocks, in the order of the file, as pure data."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from fba_lab.block import Block, Find


class UnknownBlock(ValueError):
    """An id that no block has; the message offers the nearest ones."""


def get(block_id: str) -> Block:
    """Return the block of this id, or raise UnknownBlock with the nearest ids."""
    for block in BLOCKS:
        if block.id == block_id:
            return block
    raise UnknownBlock(f"no block is called {block_id!r}{nearest(block_id, IDS)}")


def nearest(word: str, choices: Sequence[str]) -> str:
    """Return the end of an error message: "; did you mean a or b?", or all there are."""
    close = difflib.get_close_matches(word, choices, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(sorted(choices)) or 'none yet'}"


def folder(block_id: str) -> str:
    """Return the name on disk (snake case) for an id (kebab case)."""
    return block_id.replace("-", "_")


def block_id(folder_name: str) -> str:
    """Return the id (kebab case) for a name on disk (snake case)."""
    return folder_name.replace("_", "-")


SECTIONS = (
    "Start",
    "Data",
    "Primitives",
    "Attention",
    "MLP",
    "Model",
    "Loss",
    "Optimizer",
    "Schedule",
    "Run",
)

BLOCKS: tuple[Block, ...] = (
    Block(
        id="config",
        title="The configuration",
        section="Start",
        summary="Everything that can be tuned, in one frozen record with a sentence under each "
        "field. A preset is one such record, and a switch names a block to leave out.",
        find=((Find(node="class", decorated="dataclass", mentions=("vocab.*", ".*lr")),),),
    ),
    Block(
        id="dynamo-limits",
        title="Limits of the compiler's cache",
        section="Start",
        summary="How many compiled variants of one function are allowed before the compiler gives "
        "up. Stages with windows of their own need more than the default.",
        find=(
            (Find(node="function", mentions=("recompile_limit|cache_size_limit",)),),
            (Find(node="assign", inside="", mentions=("recompile_limit|cache_size_limit",)),),
        ),
    ),
    Block(
        id="grad-accumulation",
        title="Gradient accumulation",
        section="Start",
        summary="A step adds up the gradients of several micro-batches before the weights move, so "
        "the batch can be larger than what fits in memory at once.",
        find=(
            (
                Find(
                    node="function",
                    calls=("backward", "step"),
                    mentions=("micro.*|.*accum.*",),
                    lacks=("no_grad",),
                    has=("For",),
                ),
            ),
        ),
    ),
    Block(
        id="load-shard",
        title="Loading a shard",
        section="Data",
        summary="Tokens lie in binary files: a header of integers with a magic number, a version "
        "and a count, then the tokens, two bytes each. All three are checked before use.",
        find=((Find(node="function", mentions=("20240520|.*MAGIC.*",), calls=("from_?file",)),),),
    ),
    Block(
        id="document-packing",
        title="Packing documents",
        section="Data",
        summary="Documents are laid end to end in one stream, and a list of where each starts goes "
        "with it, so that attention does not cross from one into the next.",
        find=((Find(node="function", mentions=("BOS.*", "cu_seqlens.*")),),),
    ),
    Block(
        id="data-stream",
        title="The data stream",
        section="Data",
        summary="An endless iterator over the shards that yields micro-batches of a fixed length, "
        "copied to the device without waiting for it.",
        find=(
            (
                Find(node="class", mentions=("__next__",)),
                Find(node="function", calls=("pin_memory",)),
            ),
        ),
    ),
    Block(
        id="bigram-hash",
        title="Hashing pairs of tokens",
        section="Data",
        summary="Each token and the one before it are hashed into a row number of a table, by two "
        "multiplications and an exclusive or. Different pairs may share a row.",
        find=(
            (Find(node="function", has=("BitXor",)),),
            (Find(node="function", calls=("bitwise_xor",)),),
        ),
    ),
    Block(
        id="rms-norm",
        title="RMS norm",
        section="Primitives",
        summary="Divides each vector by the root of its mean square, with nothing to learn. What "
        "leaves it has the same length for every token.",
        find=((Find(node="function", calls=(r"(F|functional)\.rms_norm",)),),),
    ),
    Block(
        id="rotary",
        title="Rotary positions",
        section="Primitives",
        summary="Pairs of query and key channels are turned by an angle that grows with the "
        "position, so their product depends on the distance. Half of the channels stand still.",
        find=(
            (
                Find(node="function", calls=("outer", "cos", "sin")),
                Find(node="function", calls=("chunk",), mentions=("cos.*", "sin.*")),
            ),
        ),
    ),
    Block(
        id="attention-window",
        title="Attention in a window",
        section="Attention",
        summary="Each token looks back over a limited number of tokens of its own document. A "
        "variable-length kernel does it on a GPU; an explicit mask says the same anywhere.",
        find=(
            (
                Find(node="function", calls=(r"varlen_attn|flash_attn\w*|flex_attention",)),
                Find(node="function", calls=("scaled_dot_product_attention",)),
            ),
        ),
    ),
    Block(
        id="attention-weights",
        title="Merged attention weights",
        section="Attention",
        summary="Queries, keys and values come from one matrix product with weights that lie side "
        "by side in a bank. Learned scalars scale the weights rather than the activations.",
        find=((Find(node="function", inside=r"\w+", calls=("linear",), mentions=("q.*", "qkv")),),),
    ),
    Block(
        id="qk-norm",
        title="Normalised queries and keys",
        section="Attention",
        summary="Queries and keys are normalised before their product, so that attention scores "
        "stay in a range that does not grow as the weights do.",
        switch=True,
        find=((Find(node="function", calls=(r"rms_norm|norm", r"rotate|\w*rotary\w*")),),),
    ),
    Block(
        id="relu2-mlp",
        title="The ReLU-squared MLP",
        section="MLP",
        summary="Two matrix products with a squared ReLU between them: cheap to compute, and zero "
        "for about half of the hidden units.",
        find=((Find(node="function", calls=("relu", "square")),),),
    ),
    Block(
        id="layer-plan",
        title="The layer plan",
        section="Model",
        summary="What differs from layer to layer, written once as a pattern of letters and read "
        "into a list, so that no layer number stands in the code.",
        find=(
            (
                Find(node="function", mentions=(".*_pattern",), has=("ListComp",)),
                Find(node="class", name=".*Plan"),
            ),
        ),
    ),
    Block(
        id="parameter-banks",
        title="Parameter banks",
        section="Model",
        summary="The matrices of all layers lie in two large tensors, which are split once per "
        "forward pass. The optimizer then works on a stack in one call.",
        find=((Find(node="assign", name=".*_bank", calls=("Parameter",)),),),
    ),
    Block(
        id="smear-gate",
        title="The smear gate",
        section="Model",
        summary="A learned gate mixes a part of the previous token's embedding into each token, "
        "before the first layer.",
        switch=True,
        find=((Find(node="function", calls=("sigmoid",), mentions=("smear.*",)),),),
    ),
    Block(
        id="bigram-embed",
        title="The bigram embedding",
        section="Model",
        summary="A vector looked up by the hash of a pair of tokens is added before each layer, "
        "with a learned weight per layer.",
        switch=True,
        find=((Find(node="function", calls=("embedding",), mentions=("bigram_.*",)),),),
    ),
    Block(
        id="residual-scalars",
        title="Residual scalars",
        section="Model",
        summary="Before each layer the stream is scaled by a learned number, and the embedding of "
        "the input is mixed back in by another.",
        switch=True,
        find=(
            (
                Find(
                    node="function",
                    mentions=("x0.*", r"residual_\w+|\w*lambdas"),
                    lacks=("targets.*",),
                ),
            ),
        ),
    ),
    Block(
        id="gpt-forward",
        title="The forward pass",
        section="Model",
        summary="Embed, loop over the layers, compute the loss. All layers become one graph when "
        "it is compiled, because the loop runs while the compiler traces.",
        find=((Find(node="function", has=("For",), mentions=("targets.*", "x0.*")),),),
    ),
    Block(
        id="softcap",
        title="Softcapped logits",
        section="Loss",
        summary="Logits are squeezed through a sigmoid before the loss, so that none can run away "
        "from the others.",
        switch=True,
        find=(
            (
                Find(node="function", calls=("sigmoid|tanh",), mentions=("logits",)),
                Find(node="assign", name="SOFTCAP.*"),
            ),
        ),
    ),
    Block(
        id="polar-express",
        title="Polar Express",
        section="Optimizer",
        summary="Pushes the singular values of a gradient matrix towards one by a few steps of a "
        "polynomial, whose coefficients differ from step to step. Matrix products only.",
        switch=True,
        find=(
            (
                Find(
                    node="function", decorated=r"torch\.compile", mentions=("(?i)polar.*coeff.*",)
                ),
                Find(node="function", has=("For",), mentions=("mT|transpose", "bfloat16")),
            ),
            (Find(node="function", has=("For",), mentions=("mT|transpose", "bfloat16")),),
        ),
    ),
    Block(
        id="parameter-table",
        title="The parameter table",
        section="Optimizer",
        summary="One row for each weight: which optimizer moves it, how it is stored, and by which "
        "factors its rates differ. A weight without a row is an error.",
        find=(
            (
                Find(node="assign", name="(?i)param(eter)?_table"),
                Find(node="class", mentions=("optim(izer)?", "betas"), lacks=("state.*",)),
            ),
        ),
    ),
    Block(
        id="adam-update",
        title="The Adam update",
        section="Optimizer",
        summary="One compiled pass over a weight and its two running averages. What changes every "
        "step comes in as a tensor, since a Python number would be compiled in.",
        find=((Find(node="function", decorated=r"torch\.compile", calls=("lerp_", "sqrt")),),),
    ),
    Block(
        id="optimizer-state",
        title="The optimizer's state",
        section="Optimizer",
        summary="What the optimizer remembers of each weight between steps: running averages, and "
        "a more precise copy of the weight where its own format is coarse.",
        find=(
            (
                Find(
                    node="function",
                    inside=r"\w+",
                    calls=("zeros_like",),
                    mentions=("square|.*_sq",),
                ),
                Find(node="function", name="__init__"),
            ),
        ),
    ),
    Block(
        id="optimizer-step",
        title="The optimizer's step",
        section="Optimizer",
        summary="Every weight is moved by its row of the table: matrices by orthogonalised "
        "momentum, the rest by Adam. Nothing in it waits for the GPU.",
        find=(
            (
                Find(node="function", inside=r"\w+", name="step", calls=("lr_.*|.*momentum",)),
                Find(node="function", calls=("orthogonalise|polar_express",)),
            ),
        ),
    ),
    Block(
        id="stage-table",
        title="The stage table",
        section="Schedule",
        summary="The curriculum as rows: how much of the run a stage takes, how many micro-batches "
        "make a step, how far attention looks back, how large the rates are.",
        switch=True,
        find=(
            (
                Find(node="assign", inside="", name="(?i).*stages", calls=(".*Stage",)),
                Find(node="class", name=".*Stage"),
                Find(node="function", mentions=("stages", "share")),
            ),
        ),
    ),
    Block(
        id="lr-schedule",
        title="The learning-rate schedule",
        section="Schedule",
        summary="The rate stays at its stage's value for a part of the run and then falls on a "
        "straight line.",
        find=(
            (Find(node="function", mentions=("cooldown.*",), has=("BinOp",), lacks=("stages",)),),
        ),
    ),
    Block(
        id="muon-momentum",
        title="Muon's momentum over time",
        section="Schedule",
        summary="Momentum rises over the first steps and falls again over the last ones.",
        switch=True,
        find=((Find(node="function", name=r"\w*muon_momentum"),),),
    ),
    Block(
        id="model-build",
        title="Building the model",
        section="Run",
        summary="Weights are drawn from a seed on the CPU, so that every device starts from the "
        "same ones, and then stored in the formats of the parameter table.",
        find=(
            (Find(node="function", calls=("manual_seed", "to"), mentions=("GPT",)),),
            (Find(node="assign", name="model", calls=("GPT",)),),
        ),
    ),
    Block(
        id="model-compile",
        title="torch.compile on the model",
        section="Run",
        summary="dynamic=False: every size is a constant of the compiled code, and a new one "
        "compiles anew. fullgraph=True: what can't be traced is an error at the first call, "
        "instead of a break that passes. The model, forward and backward, becomes one graph; "
        "nothing is compiled until it is first called.",
        switch=True,
        find=(
            (
                Find(
                    node="function",
                    calls=(r"torch\.compile",),
                    first_arg="model",
                    lacks=("argparse", "backward"),
                ),
            ),
            (Find(node="assign", calls=(r"torch\.compile",), first_arg="model"),),
        ),
    ),
    Block(
        id="kernel-warmup",
        title="Warming up the kernels",
        section="Run",
        summary="Every graph that training will need is compiled before the clock starts, on real "
        "batches; then weights, optimizer and data are put back as they were.",
        switch=True,
        find=(
            (
                Find(node="function", calls=("backward", "load_state_dict")),
                Find(node="function", calls=("clone",), mentions=("tree",)),
            ),
        ),
    ),
    Block(
        id="validation",
        title="Validation",
        section="Run",
        summary="The mean loss over text that is never trained on, always the same. Without "
        "gradients it is a graph of its own.",
        find=((Find(node="function", decorated=r"torch\.no_grad", mentions=("val_.*",)),),),
    ),
    Block(
        id="profiler",
        title="The profiler",
        section="Run",
        summary="A trace of a few steps in the middle of a run, by a schedule that looks away at "
        "first, with a file that trace viewers open.",
        find=(
            (
                Find(node="function", calls=(r"profiler\.profile", "schedule")),
                Find(node="assign", inside="", name="PROFILE.*"),
            ),
        ),
    ),
    Block(
        id="run-log",
        title="The run's log",
        section="Run",
        summary="One line for each step, on the terminal and in a file. A loss is read one step "
        "late, so that the GPU never waits for the log.",
        find=(
            (Find(node="class", calls=("print",), mentions=("loss.*", "milliseconds|.*_ms")),),
            (Find(node="function", name="print0"),),
        ),
    ),
    Block(
        id="train-loop",
        title="The training loop",
        section="Run",
        summary="Set up, warm up, start the clock; then for each step validate when it is due, "
        "train, and log. The clock stands still during validation.",
        find=(
            (
                Find(
                    node="function",
                    has=("For",),
                    calls=("train_step|backward", "validate|model", "range"),
                    mentions=("val_.*",),
                ),
            ),
        ),
    ),
)

IDS = tuple(block.id for block in BLOCKS)
