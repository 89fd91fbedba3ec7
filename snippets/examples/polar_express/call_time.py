"""What one call costs

The stacks that Muon hands over in a step of the speedrun model, in bf16: compiled, the same
function eager, and an SVD of a few of the matrices, in fp32. Then the kernels of one call.
"""

from collections.abc import Callable

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
PART = 2  # matrices for the SVD, which takes long
CALLS = 5
REPEATS = 30


def eager(gradient_NRC: Tensor) -> Tensor:
    """What polar_express computes, one operation after the other."""
    return train_gpt.odd_polynomials(gradient_NRC, train_gpt.POLAR_COEFFICIENTS)


def operations(N: int, R: int, C: int) -> float:
    """Additions and multiplications of the matrix products in one call."""
    R, C = min(R, C), max(R, C)
    return N * len(train_gpt.POLAR_COEFFICIENTS) * (4.0 * R * R * C + 2.0 * R**3)


def kernels(call: Callable[[], object]) -> list[list]:
    """Name, launches and milliseconds of each kernel in one call, the longest first."""
    only_gpu = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=only_gpu, acc_events=True) as trace:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    rows = [
        [event.key[:60], event.count / CALLS, round(event.self_device_time_total / 1e3 / CALLS, 4)]
        for event in trace.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return sorted(rows, key=lambda row: -row[2])


def shortened(rows: list[list], keep: int = 7) -> list[list]:
    """The first rows, and all others added up in one."""
    rest = rows[keep:]
    others = [[f"{len(rest)} others", *(round(sum(row[at] for row in rest), 4) for at in (1, 2))]]
    return rows[:keep] + (others if rest else [])


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.PRESETS["speedrun"]
    L, D = config.layers, config.width
    none = [0.0] * measure.rounds(REPEATS)
    rows, sums = [], {"compiled": none, "eager": none}
    for name, shape in {"attention": (4 * L, D, D), "mlp": (2 * L, 4 * D, D)}.items():
        stack = torch.randn(shape, device=device, dtype=torch.bfloat16)
        part = stack[:PART].float()
        ways = {
            "compiled": (lambda x=stack: train_gpt.polar_express(x), 3, REPEATS, len(stack)),
            "eager": (lambda x=stack: eager(x), 3, REPEATS, len(stack)),
            "svd": (lambda x=part: torch.linalg.svd(x, full_matrices=False), 1, 5, PART),
        }
        for way, (call, warmup, repeats, matrices) in ways.items():
            ms = measure.timed(call, warmup=warmup, repeats=repeats, device=device.type)
            measure.metric(f"{name}_{way}_us_per_matrix", [1e3 * t / matrices for t in ms], "us")
            if way == "svd":
                continue
            measure.metric(f"{name}_{way}_ms", ms, "ms")
            sums[way] = [a + b for a, b in zip(sums[way], ms, strict=True)]
            rate = [operations(*shape) / t / 1e9 for t in ms]
            measure.metric(f"{name}_{way}_tflops", rate, "TFLOP/s")
            found = kernels(call)
            measure.metric(f"{name}_{way}_kernels", sum(row[1] for row in found), "kernels")
            copied = sum(row[2] for row in found if row[0].startswith("Memcpy"))
            measure.metric(
                f"{name}_{way}_copying", 100 * copied / sum(row[2] for row in found), "%"
            )
            rows += [[name, way, *row] for row in shortened(found)]
    for way, ms in sums.items():
        measure.metric(f"both_{way}_ms", ms, "ms")
    measure.table("kernels", ["stack", "", "kernel", "launches a call", "ms a call"], rows)


if __name__ == "__main__":
    main()
