"""The size of the input, and what happens without the scaling

First the block as it is, for the same matrix times powers of ten. Then its loop without the two
lines that scale, for inputs whose largest singular value is a little too large.
"""

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)


def unscaled(X: Tensor, coefficients: tuple) -> Tensor:
    """The loop of odd_polynomials, without its scaling."""
    for a, b, c in coefficients:
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    return X


def largest(X: Tensor) -> str:
    """The largest entry in size, as text, since it may be no finite number."""
    return f"{X.abs().max().item():.3g}"


def main() -> None:
    device = torch.device(measure.device())
    generator = torch.Generator().manual_seed(0)
    matrix_RC = torch.randn(128, 512, generator=generator).to(device)
    matrix_RC /= torch.linalg.matrix_norm(matrix_RC, 2)  # the largest singular value is 1
    medians = {}
    for power in range(6, -11, -2):
        out = train_gpt.odd_polynomials(10.0**power * matrix_RC[None], train_gpt.POLAR_COEFFICIENTS)
        medians[power] = torch.linalg.svdvals(out.double()).median().item()
    labels = dict(x_label="power of ten", y_label="median singular value after")
    measure.series("median_after", list(medians), list(medians.values()), **labels)
    measure.metric("median_at_one", medians[0], "")
    measure.metric("median_at_smallest", medians[-10], "")
    both = (train_gpt.POLAR_COEFFICIENTS, train_gpt.NEWTON_SCHULZ_COEFFICIENTS)
    rows = [
        [size, *(largest(unscaled(size * matrix_RC, coefficients)) for coefficients in both)]
        for size in (1.0, 1.02, 1.05, 1.1, 1.2, 1.5)
    ]
    columns = ["largest singular value in", "largest entry out, polar", "newton"]
    measure.table("without_scaling", columns, rows)

    stack = torch.stack([matrix_RC, torch.zeros_like(matrix_RC), matrix_RC])
    stack[2, 0, 0] = torch.nan
    out = train_gpt.odd_polynomials(stack, train_gpt.POLAR_COEFFICIENTS)
    kinds = ["as above", "all zeros", "one NaN in it"]
    measure.table(
        "stack",
        ["matrix of the stack", "largest entry out"],
        [[kind, largest(one)] for kind, one in zip(kinds, out, strict=True)],
    )


if __name__ == "__main__":
    main()
