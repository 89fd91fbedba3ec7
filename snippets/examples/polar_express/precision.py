"""bf16 against fp32

The same matrices on the GPU, where the function works in bf16, and on the CPU, where it works in
fp32. Both are compared with the exact answer, U V' from an SVD in double precision.
"""

import torch
from torch import Tensor

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["h200"],
    main=False,
    limit_s=240,
    cache="shared",
    data=[],
    raises=None,
    heavy=False,
)


def distance(a: Tensor, b: Tensor) -> float:
    """Size of the difference of two matrices, as a share of the second."""
    return ((a - b).norm() / b.norm()).item()


def main() -> None:
    device = torch.device(measure.device())
    D = train_gpt.Config().width
    generator = torch.Generator().manual_seed(0)
    rows = []
    for name, columns in (("square", D), ("wide", 4 * D)):
        matrix_RC = torch.randn(D, columns, generator=generator).bfloat16().float()
        U, _, V = torch.linalg.svd(matrix_RC.double(), full_matrices=False)
        exact = U @ V
        on_cpu, on_device = (
            train_gpt.odd_polynomials(matrix_RC[None].to(where), train_gpt.POLAR_COEFFICIENTS)[0]
            for where in ("cpu", device)
        )
        fp32, low = on_cpu.double(), on_device.cpu().double()
        values = [distance(low, fp32), distance(fp32, exact), distance(low, exact)]
        for key, value in zip(("rounding", "fp32_error", "bf16_error"), values, strict=True):
            measure.metric(f"{name}_{key}", value, "")
        rows.append([name, str(on_device.dtype).split(".")[1], *(round(v, 4) for v in values)])
    columns = ["matrix", "dtype", "from fp32", "fp32 from exact", "bf16 from exact"]
    measure.table("distances", columns, rows)


if __name__ == "__main__":
    main()
