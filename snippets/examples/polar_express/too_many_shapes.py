"""One shape too many

The block's flags on its inner function, with the backend `eager`, since no kernel is looked at
here. Dynamo's limit is left at its default.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=("torch._dynamo.exc.FailOnRecompileLimitHit", "fullgraph=True"),
    heavy=False,
)


def main() -> None:
    device = torch.device(measure.device())
    traced = torch.compile(
        train_gpt.odd_polynomials, dynamic=False, fullgraph=True, backend="eager"
    )
    for size in range(8, 200, 8):
        traced(torch.randn(1, size, size, device=device), train_gpt.POLAR_COEFFICIENTS)
        print(f"compiled for 1 x {size} x {size}")


if __name__ == "__main__":
    main()
