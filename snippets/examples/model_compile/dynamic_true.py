"""The question: dynamic=True instead

First one MLP on three lengths of text: what the generated code says where a size is needed. Then
the whole model: how many graphs Dynamo makes of the windows of two stages and the first again, what
stands in the code, and what a pass costs, both settings in turn on the same weights.
"""

import re
from unittest.mock import patch

import torch
from torch._dynamo.utils import counters
from torch._inductor.graph import GraphLowering

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=400,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
SETTINGS = {"static": False, "dynamic": True}
ROUNDS = {"cpu": 15, "cuda": 24}


def one_mlp(device: torch.device) -> list[list]:
    """How each setting compiles the MLP for three lengths, one row a setting."""
    width = train_gpt.PRESETS["tiny"].width
    up, down = torch.randn(2, 4 * width, width, device=device).unbind(0)
    rows = []
    for name, dynamic in SETTINGS.items():
        mlp = torch.compile(train_gpt.relu2_mlp, dynamic=dynamic, fullgraph=True)
        counters.clear()
        with patch.object(GraphLowering, "save_output_code", (codes := []).append):
            for length in (256, 384, 512):
                mlp(torch.randn(length, width, device=device), up, down)
        allocation = re.search(r"= (empty_strided_\w+\(.*\))", codes[0])
        rows.append([name, counters["stats"]["unique_graphs"], allocation[1]])
    return rows


def main() -> None:
    device = torch.device(measure.device())
    columns = ["setting", "graphs for three lengths", "how the first buffer is made"]
    measure.table("one_mlp", columns, one_mlp(device))

    config = train_gpt.PRESETS["speedrun" if device.type == "cuda" else "tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    model = train_gpt.build_model(config, device)
    first, second = (stage.windows for stage in config.stages[:2])
    compiled = {
        "static": train_gpt.compile_model(model, config),
        "dynamic": torch.compile(model, dynamic=True, fullgraph=True),
    }
    rows = []
    for name, dynamic in SETTINGS.items():
        # Only tracing decides how many graphs there are; the backend `eager` makes no kernels.
        counters.clear()
        traced = torch.compile(model, dynamic=dynamic, fullgraph=True, backend="eager")
        for windows in (first, second, first):
            traced(*batch, windows)
        graphs = counters["stats"]["unique_graphs"]
        with patch.object(GraphLowering, "save_output_code", (codes := []).append):
            compiled[name](*batch, first).backward()
        symbols = sorted(set(re.findall(r"\bs\d+\b", codes[0])))
        literals = len(re.findall(rf"\b{config.micro_tokens}\b", codes[0]))
        measure.metric(f"{name}_graphs", graphs, "graphs")
        measure.metric(f"{name}_symbols", len(symbols), "symbols")
        rows.append([name, graphs, ", ".join(symbols) or "none", literals])
    shown = f"times {config.micro_tokens} stands in it"
    columns = ["setting", "graphs for two windows", "symbols in the forward code", shown]
    measure.table("whole_model", columns, rows)

    ms: dict[str, list[float]] = {name: [] for name in compiled}
    for turn in range(measure.rounds(ROUNDS[device.type])):
        for name, one in compiled.items():

            def one_pass(one=one) -> None:
                one(*batch, first).backward()

            ms[name] += measure.timed(
                one_pass, warmup=0 if turn else 3, repeats=1, device=device.type
            )
    for name, samples in ms.items():
        measure.metric(f"{name}_ms", samples, "ms")
    pairs = zip(ms["dynamic"], ms["static"], strict=True)
    measure.metric("ratio", [dynamic / static for dynamic, static in pairs], "x")


if __name__ == "__main__":
    main()
