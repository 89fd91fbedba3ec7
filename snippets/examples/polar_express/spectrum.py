"""Singular values before and after

Random matrices go through the trainer's two compiled functions, and an SVD looks at what came out.
The shapes are the speedrun model's. The last matrix is made so that its singular values fall from
1 to a millionth, each by the same factor.
"""

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["cpu", "h200"],
    main=True,
    limit_s=240,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)
FUNCTIONS = {"polar": train_gpt.polar_express, "newton": train_gpt.newton_schulz}
POINTS = 48  # of the sorted singular values, for the charts


def singular_values(matrix_RC: Tensor) -> Tensor:
    """Singular values, largest first, found in double precision."""
    return torch.linalg.svdvals(matrix_RC.double())


def matrices(device: torch.device) -> dict[str, Tensor]:
    """The test matrices by name, fp32."""
    D = train_gpt.Config().width
    generator = torch.Generator().manual_seed(0)
    square, wide = (torch.randn(D, C, generator=generator) for C in (D, 4 * D))
    U, _, V = torch.linalg.svd(square.double())
    fading = U @ torch.diag(torch.logspace(0, -6, D, dtype=torch.double)) @ V
    return {
        "square": square.to(device),
        "wide": wide.to(device),
        "fading": fading.float().to(device),
    }


def main() -> None:
    device = torch.device(measure.device())
    rows = []
    for name, matrix_RC in matrices(device).items():
        before = singular_values(matrix_RC / matrix_RC.norm())
        place = torch.linspace(0, len(before) - 1, POINTS).long()
        percent = [round(100 * i / (POINTS - 1)) for i in range(POINTS)]
        labels = dict(x_label="% of the singular values, largest first", y_label="singular value")
        measure.series(f"{name}_before", percent, before.cpu()[place].tolist(), **labels)
        measure.metric(f"{name}_before_max", before.max().item(), "")
        rows.append([name, "before", before[0], before.median(), before[-1], None])
        for function, call in FUNCTIONS.items():
            after = singular_values(call(matrix_RC[None])[0])
            near = 100 * ((after > 0.7) & (after < 1.3)).double().mean()
            rows.append([name, function, after.max(), after.median(), after.min(), near])
            measure.series(f"{name}_{function}", percent, after.cpu()[place].tolist(), **labels)
            measure.metric(f"{name}_{function}_min", after.min().item(), "")
            measure.metric(f"{name}_{function}_near_one", near.item(), "%")
    rows = [
        [*row[:2], *(None if x is None else round(float(x), 7) for x in row[2:])] for row in rows
    ]
    measure.table("spectra", ["matrix", "", "max", "median", "min", "% in 0.7 to 1.3"], rows)


if __name__ == "__main__":
    main()
