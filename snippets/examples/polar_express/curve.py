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


def bands(x: torch.Tensor, coefficients: tuple) -> list[tuple[float, float]]:
    """Smallest and largest value before the first polynomial and after each one."""
    outs = [values(x, coefficients[:k]) for k in range(len(coefficients) + 1)]
    return [(min(out), max(out)) for out in outs]


def main() -> None:
    polar, newton = train_gpt.POLAR_COEFFICIENTS, train_gpt.NEWTON_SCHULZ_COEFFICIENTS
    labels = dict(x_label="singular value before", y_label="after")
    close = torch.linspace(0, 0.01, 121)
    for steps in range(1, len(polar) + 1):
        measure.series(f"after_{steps}", close.tolist(), values(close, polar[:steps]), **labels)
    near = torch.linspace(0, 0.02, 81)
    measure.series("polar", near.tolist(), values(near, polar), **labels)
    measure.series("newton", near.tolist(), values(near, newton), **labels)

    tiny = torch.tensor([1e-7])  # so small that only the terms a*x count
    for name, coefficients in (("polar", polar), ("newton", newton)):
        gain = values(tiny, coefficients)[0] / tiny.item()
        measure.metric(f"{name}_gain", gain, "x")
        fine = torch.linspace(0, 1, 100_001)
        out = torch.tensor(values(fine, coefficients))
        measure.metric(f"{name}_reaches_half_at", fine[out >= 0.5][0].item(), "")
        band = bands(fine[fine >= 0.01], coefficients)
        for edge, ys in zip(("lowest", "highest"), zip(*band, strict=True), strict=True):
            axes = dict(x_label="polynomials applied", y_label="singular value")
            measure.series(f"{name}_{edge}", list(range(len(ys))), ys, **axes)
            measure.metric(f"{name}_{edge}", ys[-1], "")
    rows = [
        [step, *map(round, polar_abc, [4] * 3), *map(round, newton_abc, [4] * 3)]
        for step, (polar_abc, newton_abc) in enumerate(zip(polar, newton, strict=True), 1)
    ]
    columns = ["step", "polar a", "b", "c", "newton a", "newton b", "newton c"]
    measure.table("coefficients", columns, rows)


if __name__ == "__main__":
    main()
