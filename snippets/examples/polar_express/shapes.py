"""One compiled variant for each shape

The decorated function itself, called with stacks of several shapes. After each call Dynamo's own
counter says how many graphs there are.
"""

import torch
from torch._dynamo.utils import counters

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
SHAPES = [(4, 64, 64), (4, 64, 64), (8, 64, 64), (4, 64, 128), (4, 128, 64), (4, 64, 64)]


def main() -> None:
    device = torch.device(measure.device())
    rows, seen = [], 0
    for shape in SHAPES:
        train_gpt.polar_express(torch.randn(shape, device=device))
        graphs = counters["stats"]["unique_graphs"]
        rows.append([" x ".join(map(str, shape)), graphs, "new" if graphs > seen else "reused"])
        seen = graphs
    measure.table("calls", ["stack", "graphs so far", ""], rows)
    measure.metric("calls", len(SHAPES), "calls")
    measure.metric("graphs", seen, "graphs")


if __name__ == "__main__":
    main()
