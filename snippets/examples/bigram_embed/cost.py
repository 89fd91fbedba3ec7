"""What the table costs in time

On the speedrun's table, with the rows of real text: reading a micro-batch's rows, writing the
gradient of a whole table for it, adding that to an earlier one, and moving the table by Adam. Each
beside a plain copy of the table. Then the kernels.
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
CALLS = 5


def kernels(call: Callable[[], object]) -> list[list]:
    """Name, launches and milliseconds of each kernel in one call, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    rows = [
        [event.key[:60], event.count / CALLS, round(event.self_device_time_total / 1e3 / CALLS, 4)]
        for event in trace.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return sorted(rows, key=lambda row: -row[2])


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
    rows = []
    for name, call in parts(model, bigram_T).items():
        ms = measure.timed(call, warmup=3, repeats=30, device=device.type)
        measure.metric(f"{name}_ms", ms, "ms")
        rows += [[name, *row] for row in kernels(call)]
        if name == "copy":
            moved = 2 * model.bigram_weight.numel() * model.bigram_weight.element_size()
            measure.metric("copy_tb_per_s", [moved / t / 1e9 for t in ms], "TB/s")
    measure.table("kernels", ["part", "kernel", "launches a call", "ms a call"], rows)


if __name__ == "__main__":
    main()
