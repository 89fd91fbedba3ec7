"""What crosses the start of a document

One token is changed: the last one before a BOS. With the gate open, which rows change behind the
embedding, and which behind the last layer, where attention stays within a document?
"""

import torch
from torch import Tensor

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
BORDER = 200  # where the second document starts


class LastRows(train_gpt.GPT):
    """Returns what the loss would see, (T, D)."""

    def loss(self, x_TD: Tensor, targets_T: Tensor) -> Tensor:
        return x_TD


def main() -> None:
    device = torch.device(measure.device())
    files = train_gpt.shard_files(measure.data("sotu"), "train")
    tokens = train_gpt.load_shard(files[0])
    rows = []
    for name, without, scalar in (
        ("smear gate shut", {"bigram-embed"}, 0.0),
        ("smear gate open", {"bigram-embed"}, 0.5),
        ("without smear gate", {"bigram-embed", "smear-gate"}, None),
    ):
        config = train_gpt.Config(
            layers=2, width=128, heads=2, layer_pattern="SL", bigram_rows=1_000,
            micro_tokens=512, max_document=512, without=frozenset(without),
        )  # fmt: skip
        text = tokens[1 : config.micro_tokens + 2].copy()  # its first document's BOS left out
        text[text == train_gpt.BOS] = 0
        text[BORDER] = train_gpt.BOS
        other = text.copy()
        other[BORDER - 1] += 1
        model = train_gpt.build_model(config, device, cls=LastRows)
        if scalar is not None:
            model.smear_scalar.data.fill_(scalar)
        with torch.no_grad():
            batches = [train_gpt.make_batch(one, config, device) for one in (text, other)]
            embedded = [model.embed(batch.inputs_T) for batch in batches]
            last = [model(*batch, (64, 512)) for batch in batches]
        for place, (a, b) in (("embedding", embedded), ("last layer", last)):
            changed = (a != b).any(dim=-1).nonzero().flatten() - BORDER
            after = int((changed >= 0).sum())
            shown = ", ".join(f"{at:+d}" for at in changed[:4].tolist())
            shown += f" … {changed[-1].item():+d}" if len(changed) > 4 else ""
            rows.append([name, place, shown, after])
            key = f"{name}_{place}".replace(" ", "_")
            measure.metric(f"{key}_rows_after", after, "rows")
    columns = ["", "behind the", "rows that change (0 is the BOS)", "from the BOS on"]
    measure.table("changed", columns, rows)


if __name__ == "__main__":
    main()
