"""What a window costs

One micro-batch with the documents of the speeches, in bf16 and in the shapes of the speedrun. The
kernel, forward and with its backward, for ever wider windows, and for one document without any; the
mask for one window, with its memory. Then the kernels that ran. It is the GPU's time: a call is
launched more slowly than it runs, so the GPU is held back until all calls of a row are queued.
"""

from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["h200"],
    main=False,
    limit_s=180,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
WINDOWS = [128, 256, 384, 640, 896, 1408, 1664, 2048]
ONE = 384
SCALE = 0.1
CALLS = 5
HOLD = 5
"""Large matrix products, some ten milliseconds each, that the GPU does first."""


def gpu_times(call: Callable[[], object], large: Tensor) -> list[float]:
    """Milliseconds of each of thirty calls."""
    for _ in range(5):
        call()
    first = iter([True])

    def turn() -> None:
        if next(first, False):
            for _ in range(HOLD):
                large @ large
        call()

    return measure.timed(turn, warmup=0, repeats=31)[1:]


def kernels(call: Callable[[], object]) -> list[list]:
    """Name, launches and milliseconds of each kernel in one call, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    rows = [
        [event.key[:90], event.count / CALLS, round(event.self_device_time_total / 1e3 / CALLS, 4)]
        for event in trace.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return sorted(rows, key=lambda row: -row[2])


def memory(call: Callable[[], object]) -> float:
    """GB that a call needs at its peak, on top of what is there before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (measure.peak_bytes() - before) / 1e9


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    tokens = config.micro_tokens
    shape = (tokens, config.heads, config.width // config.heads)
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(4))
    leaves = [train_gpt.rms_norm(q), train_gpt.rms_norm(k), v]
    for leaf in leaves:
        leaf.requires_grad_()
    one_document = torch.full_like(batch.cu_seqlens_S, tokens)
    one_document[0] = 0

    large = torch.randn(tokens, tokens, device=device, dtype=torch.bfloat16)

    def forward(attend: Callable[..., Tensor], starts: Tensor, window: int, longest: int) -> Tensor:
        return attend(*leaves, starts, window, longest, SCALE)

    def both(*arguments) -> tuple[Tensor, ...]:
        return torch.autograd.grad(forward(*arguments), leaves, gradient)

    def time_both_ways(*arguments) -> tuple[list[float], list[float]]:
        with torch.no_grad():
            ahead = gpu_times(lambda: forward(*arguments), large)
        return ahead, gpu_times(lambda: both(*arguments), large)

    fast, slow = train_gpt.varlen_attention, train_gpt.reference_attention
    cases = {f"kernel_{w}": (fast, batch.cu_seqlens_S, w, config.max_document) for w in WINDOWS}
    cases["kernel_no_window"] = (fast, one_document, tokens, tokens)
    cases["mask"] = (slow, batch.cu_seqlens_S, ONE, config.max_document)
    rows, middles = [], {}
    for name, arguments in cases.items():
        ahead, all_of_it = time_both_ways(*arguments)
        measure.metric(f"{name}_forward_ms", ahead, "ms")
        measure.metric(f"{name}_both_ms", all_of_it, "ms")
        middles[name] = median(ahead), median(all_of_it)
        pairs = int(train_gpt.attention_mask(arguments[1], tokens, arguments[2]).sum())
        times = (round(ms, 4) for ms in middles[name])
        rows.append([name, arguments[2], round(pairs / 1e6, 2), *times])
    columns = ["", "window", "million pairs seen", "forward ms", "with backward ms"]
    measure.table("times", columns, rows)
    labels = dict(x_label="window, tokens", y_label="milliseconds")
    for at, name in enumerate(("forward", "both")):
        curve = [middles[f"kernel_{window}"][at] for window in WINDOWS]
        measure.series(f"{name}_ms", WINDOWS, curve, **labels)

    lengths = batch.cu_seqlens_S.diff()
    measure.metric("documents", int((lengths > 0).sum()), "documents")
    measure.metric("longest", int(lengths.max()), "tokens")
    rows = []
    for name in (f"kernel_{ONE}", "mask"):
        arguments = cases[name]
        measure.metric(f"{name}_gb", memory(lambda a=arguments: both(*a)), "GB")
        rows += [[name, *row] for row in kernels(lambda a=arguments: both(*a))]
    measure.table("kernels", ["", "kernel", "launches a call", "ms a call"], rows)


if __name__ == "__main__":
    main()
