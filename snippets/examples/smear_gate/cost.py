"""What the gate costs alone

The smear of one micro-batch in bf16, forward and backward, compiled and eager, beside a plain copy
that moves as many bytes as it must at least. Times are those of the kernels, added up for each
call: alone, the GPU waits for Python between them.
"""

from collections.abc import Callable

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="smear-gate",
    devices=["h200"],
    main=False,
    limit_s=240,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
CALLS = 20
TENSORS = 5  # x and its result forward; the gradient of that, x, and the gradient of x backward


def kernels(call: Callable[[], object]) -> tuple[list[list], list[float]]:
    """The kernels of one call, the longest first, and the milliseconds of each call in them."""
    only_gpu = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=only_gpu, acc_events=True) as trace:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    rows = [
        [event.key[:60], event.count / CALLS, round(event.self_device_time_total / 1e3 / CALLS, 4)]
        for event in trace.key_averages()
        if event.device_type == cuda
    ]
    launched = sorted(
        (event for event in trace.events() if event.device_type == cuda),
        key=lambda event: event.time_range.start,
    )
    each = len(launched) // CALLS  # every call launches the same kernels
    busy = [event.self_device_time_total / 1e3 for event in launched]
    sums = [sum(busy[at : at + each]) for at in range(0, each * CALLS, each)]
    return sorted(rows, key=lambda row: -row[2]), sums


def shortened(rows: list[list], keep: int = 7) -> list[list]:
    """The first rows, and all others added up in one."""
    rest = rows[keep:]
    others = [[f"{len(rest)} others", *(round(sum(row[at] for row in rest), 4) for at in (1, 2))]]
    return rows[:keep] + (others if rest else [])


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, layer_pattern="L", bigram_rows=2)
    model = train_gpt.build_model(config, device)
    model.smear_scalar.data.fill_(0.1)
    shape = (config.micro_tokens, config.width)
    x_TD = torch.randn(shape, device=device, dtype=torch.bfloat16).requires_grad_()
    gradient_TD = torch.randn_like(x_TD)
    smears = {
        "compiled": torch.compile(model.smear, dynamic=False, fullgraph=True),
        "eager": model.smear,
    }
    leaves = (x_TD, model.smear_gate, model.smear_scalar)
    calls: dict[str, Callable[[], object]] = {
        way: (lambda smear=smear: torch.autograd.grad(smear(x_TD), leaves, gradient_TD))
        for way, smear in smears.items()
    }
    source = torch.empty(TENSORS * x_TD.numel() // 2, device=device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    calls["copy"] = lambda: target.copy_(source)  # reads a half of the bytes and writes a half
    moved = TENSORS * x_TD.numel() * x_TD.element_size()
    measure.metric("least_bytes", moved / 1e6, "MB")
    rows = []
    for way, call in calls.items():
        measure.timed(call, warmup=5, repeats=1, device=device.type)
        found, ms = kernels(call)
        measure.metric(f"{way}_us", [1e3 * t for t in ms], "us")
        measure.metric(f"{way}_kernels", sum(row[1] for row in found), "kernels")
        rows += [[way, *row] for row in shortened(found)]
    measure.table("kernels", ["", "kernel", "launches a call", "ms a call"], rows)


if __name__ == "__main__":
    main()
