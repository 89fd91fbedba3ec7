"""How fast one pass is

One micro-batch through the compiled speedrun model, forward alone and with its backward pass, set
against the rate of a big matrix product in the same process. Its operations are counted twice: by
PyTorch, on the eager model, and by a formula.
"""

from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="gpt-forward",
    devices=["h200"],
    main=False,
    limit_s=300,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
SIDE = 8192
IN_PRODUCTS = ("attention_bank", "mlp_bank", "head_weight")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


def counted(model: train_gpt.GPT, *inputs: object) -> float:
    """Floating point operations of all matrix products in one forward and backward pass."""
    with FlopCounterMode(display=False) as counter:
        model(*inputs).backward()
    counts = counter.get_flop_counts()["Global"]
    names = {str(op): count for op, count in counts.items()}
    print("counted by PyTorch:", ", ".join(names) or "nothing")
    return sum(count for op, count in names.items() if op.split(".")[-1] in PRODUCTS)


def pairs(config: train_gpt.Config, ends: torch.Tensor, windows: tuple[int, int]) -> int:
    """How many pairs of query and key attention looks at, over all layers."""
    total = 0
    for length in ends.diff().tolist():
        for plan in train_gpt.layer_plan(config):
            seen = min(plan.tokens(windows), length)
            total += seen * length - seen * (seen - 1) // 2
    return total


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    eager = train_gpt.build_model(config, device)
    by_torch = counted(eager, *batch, windows)
    eager.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    numbers = sum(getattr(eager, name).numel() for name in IN_PRODUCTS)
    forward = 2 * numbers * config.micro_tokens  # a product and a sum for each weight and token
    seen = pairs(config, batch.cu_seqlens_S.cpu(), windows)
    measure.metric("product_tflop", by_torch / 1e12, "TFLOP")
    measure.metric("product_tflop_formula", 3 * forward / 1e12, "TFLOP")
    measure.metric("attention_tflop", 3 * 4 * config.width * seen / 1e12, "TFLOP")

    model = train_gpt.compile_model(eager, config)
    for _ in range(2):
        model(*batch, windows).backward()
        eager.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    loss = model(*batch, windows)
    kept = torch.cuda.memory_allocated() - before
    loss.backward()
    measure.metric("weights_gb", before / 1e9, "GB")
    measure.metric("kept_gb", kept / 1e9, "GB")
    measure.metric("peak_gb", measure.peak_bytes() / 1e9, "GB")
    measure.metric("logits_gb", 2 * config.micro_tokens * config.vocab_padded / 1e9, "GB")

    def both() -> None:
        eager.zero_grad(set_to_none=True)
        model(*batch, windows).backward()

    a = torch.randn(SIDE, SIDE, device=device, dtype=torch.bfloat16)
    options = dict(repeats=30, device=device.type)
    calls = {"forward": lambda: model(*batch, windows), "pass": both, "matmul": lambda: a @ a}
    ms = {name: measure.timed(call, warmup=5, **options) for name, call in calls.items()}
    rates = {
        "forward": [forward / t / 1e9 for t in ms["forward"]],
        "pass": [3 * forward / t / 1e9 for t in ms["pass"]],
        "matmul": [2 * SIDE**3 / t / 1e9 for t in ms["matmul"]],
    }
    rows = []
    for name, taken in ms.items():
        measure.metric(f"{name}_ms", taken, "ms")
        measure.metric(f"{name}_tflops", rates[name], "TFLOP/s")
        share = [100 * rate / median(rates["matmul"]) for rate in rates[name]]
        rows.append([name, round(median(taken), 2), round(median(share), 1)])
        if name != "matmul":
            measure.metric(f"{name}_share", share, "%")
            tokens = [1e3 * config.micro_tokens / t for t in taken]
            measure.metric(f"{name}_tokens_per_s", tokens, "tokens/s")
    measure.table("rates", ["", "ms", "% of the rate of the big product"], rows)


if __name__ == "__main__":
    main()
