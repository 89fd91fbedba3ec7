"""Can the token before be read from a row?

A row is compared with the embeddings of all tokens. The token's own is the nearest; where the one
of the token before comes second, the row says which pair it stands for. Measured for several
values of the scalar, on a fresh model at the speedrun's width, with the gate half open as it is
then.
"""

import torch

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="smear-gate",
    devices=["cpu"],
    main=False,
    limit_s=120,
    cache="shared",
    data=["sotu"],
    raises=None,
    heavy=False,
)
SCALARS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
TOKENS = 256


def main() -> None:
    device = torch.device(measure.device())
    config = train_gpt.Config(layers=1, layer_pattern="L", bigram_rows=2, micro_tokens=TOKENS)
    files = train_gpt.shard_files(measure.data("sotu"), "val")
    inputs_T = next(train_gpt.data_stream(files, config, device)).inputs_T.long()
    model = train_gpt.build_model(config, device)
    table_VD = train_gpt.rms_norm(model.embed_weight.detach())
    own, before = inputs_T[1:], inputs_T[:-1]
    differ = own != before
    shares = []
    for scalar in SCALARS:
        model.smear_scalar.data.fill_(scalar)
        with torch.no_grad():
            x_TD = model.embed(inputs_T)[1:]
            likeness = (x_TD @ table_VD.mT).float()
            likeness.scatter_(1, own[:, None], -torch.inf)  # the token itself is known
            found = likeness.argmax(dim=-1) == before
        shares.append(100 * found[differ].float().mean().item())
    measure.series(
        "read_right", SCALARS, shares, x_label="smear_scalar", y_label="% of tokens before, found"
    )
    for scalar in (0.02, 0.1, 0.2, 0.4, 1.0):
        name = f"found_at_{scalar}".replace(".", "_")
        measure.metric(name, shares[SCALARS.index(scalar)], "%")
    measure.metric("tokens", int(differ.sum()), "tokens")


if __name__ == "__main__":
    main()
