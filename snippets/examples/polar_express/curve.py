"""What five polynomials do to one number

The same function, on matrices of two by two that are diagonal, with x and the rest of a unit norm:
the scaling leaves them as they are, and the first entry that comes out is the polynomial's value.
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
    raises=None,
    heavy=False,
)


def values(x: torch.Tensor, coefficients: tuple) -> list[float]:
    """The composed polynomial at each x, which must lie in [0, 1]."""
    diagonal = torch.stack([x, (1 - x.square()).clamp(min=0).sqrt()], dim=-1)
    out = train_gpt.odd_polynomials(torch.diag_embed(diagonal), coefficients)
    return out[:, 0, 0].tolist()


def main() -> None:
    polar, newton = train_gpt.POLAR_COEFFICIENTS, train_gpt.NEWTON_SCHULZ_COEFFICIENTS
    labels = dict(x_label="singular value before", y_label="after")
    x = torch.linspace(0, 1, 121)
    for steps in range(1, len(polar) + 1):
        measure.series(f"after_{steps}", x.tolist(), values(x, polar[:steps]), **labels)
    near = torch.linspace(0, 0.02, 81)
    measure.series("polar", near.tolist(), values(near, polar), **labels)
    measure.series("newton", near.tolist(), values(near, newton), **labels)

    tiny = torch.tensor([1e-7])  # so small that only the terms a*x count
    for name, coefficients in (("polar", polar), ("newton", newton)):
        gain = values(tiny, coefficients)[0] / tiny.item()
        measure.metric(f"{name}_gain", gain, "x")
        fine = torch.linspace(0, 1, 100_001)
        out = torch.tensor(values(fine, coefficients))
        measure.metric(f"{name}_highest", out.max().item(), "")
        reached = fine[out >= 0.5][0].item()
        measure.metric(f"{name}_reaches_half_at", reached, "")
        beyond = out[fine >= 0.01]
        measure.metric(f"{name}_lowest_from_hundredth", beyond.min().item(), "")
    rows = [
        [step, *map(round, polar_abc, [4] * 3), *map(round, newton_abc, [4] * 3)]
        for step, (polar_abc, newton_abc) in enumerate(zip(polar, newton, strict=True), 1)
    ]
    columns = ["step", "polar a", "b", "c", "newton a", "newton b", "newton c"]
    measure.table("coefficients", columns, rows)


if __name__ == "__main__":
    main()
