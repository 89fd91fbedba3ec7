"""What the table costs in time

On the speedrun's table, with the rows of real text: reading a micro-batch's rows, writing the
gradient of a whole table for it, adding that to an earlier one, and moving the table by Adam; and a
plain copy of the table. Times are those of the kernels, added up for each call. What a step of the
first stage does of each is added up at the end.
"""

from collections.abc import Callable

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="bigram-embed",
    devices=["h200"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
CALLS = 20


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


def parts(model: train_gpt.GPT, bigram_T: torch.Tensor) -> dict[str, Callable[[], object]]:
    """The pieces to time, by name."""
    config, table = model.config, model.bigram_weight
    rule = train_gpt.PARAMETER_TABLE["bigram_weight"]
    read = torch.compile(model.bigram, dynamic=False, fullgraph=True)
    gradient_TD = torch.ones_like(table[: config.micro_tokens])
    mean, square = (torch.zeros_like(table, dtype=torch.float32) for _ in range(2))
    corrections = (torch.tensor(1.0), torch.tensor(1.0))
    settings = (torch.tensor(1e-3), corrections, rule.betas, config.adam_eps)
    copy = torch.empty_like(table)
    rows_TD = read(bigram_T)

    def backward(keep: bool) -> None:
        if not keep:
            table.grad = None
        rows_TD.backward(gradient_TD, retain_graph=True)

    def read_only() -> None:
        with torch.no_grad():
            read(bigram_T)

    return {
        "read": read_only,
        "gradient": lambda: backward(keep=False),
        "gradient_added": lambda: backward(keep=True),
        "adam": lambda: train_gpt.adam_update(
            table.detach(), table.grad, mean, square, *settings
        ),
        "copy": lambda: copy.copy_(table.detach()),
    }  # fmt: skip


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, layer_pattern="L")
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    bigram_T = next(train_gpt.data_stream(files, config, device)).bigram_T
    model = train_gpt.build_model(config, device)
    rows, times = [], {}
    for name, call in parts(model, bigram_T).items():
        measure.timed(call, warmup=3, repeats=1, device=device.type)
        found, times[name] = kernels(call)
        measure.metric(f"{name}_ms", times[name], "ms")
        rows += [[name, *row] for row in found]
    moved = 2 * model.bigram_weight.numel() * model.bigram_weight.element_size()
    measure.metric("copy_tb_per_s", [moved / t / 1e9 for t in times["copy"]], "TB/s")
    batches = config.stages[0].micro_batches
    samples = zip(
        *(times[part] for part in ("read", "gradient", "gradient_added", "adam")), strict=True
    )
    step = [batches * r + g + (batches - 1) * added + a for r, g, added, a in samples]
    measure.metric("step_ms", step, "ms")
    measure.table("kernels", ["part", "kernel", "launches a call", "ms a call"], rows)


if __name__ == "__main__":
    main()
