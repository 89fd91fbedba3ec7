"""A small site of real files with real records, for tests that build it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TRAINER = '''"""A small trainer."""

from dataclasses import dataclass

TORCH_SUPPORTED = ("2.11", "2.13")
STAGES = ((1, 128), (2, 384))


@dataclass(frozen=True)
class Config:
    """What can be set."""

    width: int = 64
    micro_tokens: int = 16 * 1024


PRESETS = {"tiny": Config(width=32), "speedrun": Config(768)}


def double(x):
    # Half of nothing.
    return 2 * x


def divide(x):
    return x / 0


# --8<-- [start:model-compile]
def compile_model(model):
    model = torch.compile(model, dynamic=False, fullgraph=True)
    return model
# --8<-- [end:model-compile]
'''
STEPS = r'''"""The first steps

Times that were typed, so that a test knows them.
"""

from pathlib import Path

from fba_lab import measure
from snippets import train_gpt

LAB = dict(block="model-compile", devices=["cpu"], main=True)
EVIL = """<script>alert(1)</script> <b>bold</b> &amp;
```python exec="true"
print("fence")
```
--8<-- "mkdocs.yml"
{{ metric("no/such", "thing") }} # not a heading
"""


def main() -> None:
    print("doubled:", train_gpt.double(21), train_gpt.compile_model is not None)
    print(EVIL)
    print("\x1b[31mred\x1b[0m \x1b[1mbold\x1b[0m \x1b]0;title\x07 \x08 end")
    measure.metric("eager_ms", [20.0, 21.0, 22.0, 23.0], "ms")
    measure.metric("compiled_ms", [10.0, 11.0, 12.0, 13.0], "ms")
    measure.metric("close_ms", [19.5, 20.5, 21.5], "ms")
    measure.metric("graphs", 3, "graphs")
    measure.series("step_ms", [0, 1, 2], [4000.0, 11.0, 10.0], x_label="step", y_label="ms")
    measure.table("breaks", ["edit", "graphs"], [["<i>print</i>", 2], ["none", 1]])
    Path("note.txt").write_text("a note")
    measure.artefact("note.txt", "text")


if __name__ == "__main__":
    main()
'''
FAILS = '''"""A division that fails"""

from fba_lab import measure
from snippets import train_gpt

LAB = dict(
    block="model-compile",
    devices=["cpu"],
    raises=("ZeroDivisionError", "division"),
)


def main() -> None:
    print("before", measure.device(), train_gpt.compile_model is not None)
    train_gpt.divide(1)


if __name__ == "__main__":
    main()
'''
TRACED = '''"""A trace and its timeline"""

import gzip
from pathlib import Path

from fba_lab import measure
from snippets import train_gpt

LAB = dict(block="model-compile", devices=["cpu"])


def main() -> None:
    print(train_gpt.compile_model is not None)
    rows = [["GPU", "<b>matmul</b>", 0, 2.5], ["GPU", "norm", 2.5, 0.5], ["copies", "norm", 1, 4]]
    measure.table("timeline", ["row", "name", "start_ms", "ms"], rows)
    Path("steps.json.gz").write_bytes(gzip.compress(b"[]" * 500, mtime=0))
    measure.artefact("steps.json.gz", "trace")


if __name__ == "__main__":
    main()
'''
PAGE = """---
title: torch.compile on model
---

# torch.compile on model

```python exec="true"
from fba_lab import pages
pages.header("model-compile")
```

```python exec="true" html="1"
from fba_lab import pages
pages.block("model-compile", notes={"fullgraph=True": "no silent <fallback>"})
```

```python exec="true"
from fba_lab import pages
pages.terminal("model-compile")
```

{{ claim("model-compile/first-steps", "compiled_ms < eager_ms and graphs == 3") }}
Compiled takes {{ metric("model-compile/first-steps", "compiled_ms") }},
at width {{ code("Config.width") }}.

```python exec="true"
from fba_lab import pages
pages.show("model-compile/first-steps", open=True)
```

```python exec="true"
from fba_lab import pages
pages.chart("model-compile/first-steps", "step_ms", title="Time of a step")
```

```python exec="true"
from fba_lab import pages
pages.show("model-compile/fails")
```

## Explanation

???+ level-learner "For learners"

    Plain words.

???+ level-engineer "For engineers"

    Exact words.

??? question "What if shapes change?"

    See.
"""
INDEX = """# Home

```python exec="true"
from fba_lab import pages
pages.blocks()
```
"""

NAV = """nav:
  - Home: index.md
  - Blocks:
      - blocks/model-compile.md
  - Log: log.md
"""
"""The small site has pages of its own, so it takes all of the configuration but its navigation."""


def make(root: Path, *, page: str = PAGE) -> Path:
    """Write the small site, without records."""
    examples = root / "snippets/examples/model_compile"
    examples.mkdir(parents=True)
    (root / "snippets/__init__.py").write_text("")
    (root / "snippets/train_gpt.py").write_text(TRAINER)
    (root / "snippets/data.json").write_text("{}")
    (examples / "first_steps.py").write_text(STEPS)
    (examples / "fails.py").write_text(FAILS)
    (examples / "traced.py").write_text(TRACED)
    (root / "docs/blocks").mkdir(parents=True)
    (root / "docs/index.md").write_text(INDEX)
    (root / "docs/log.md").write_text("# Log\n")
    (root / "docs/blocks/model-compile.md").write_text(page)
    shutil.copytree(REPOSITORY / "docs/assets", root / "docs/assets")
    shutil.copytree(REPOSITORY / "overrides", root / "overrides")
    config = (REPOSITORY / "mkdocs.yml").read_text()
    hooks = (REPOSITORY / "fba_lab/hooks.py").as_posix()
    config = config.replace("fba_lab/hooks.py", hooks).replace("[snippets, fba_lab]", "[snippets]")
    config, count = re.subn(r"^nav:\n(?:[ \t]+.*\n|\n(?=[ \t]))+", NAV, config, flags=re.MULTILINE)
    assert count == 1
    (root / "mkdocs.yml").write_text(config)
    return root


def mkdocs(root: Path, *options: str, mode: str = "", **environment: str):
    """Build the site in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", **environment}
    env.pop("LAB_MODE", None)
    if mode:
        env["LAB_MODE"] = mode
    command = [sys.executable, "-m", "mkdocs", "build", *options]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=120)


def warnings(run: subprocess.CompletedProcess) -> list[str]:
    """Return what a build warned of, without the level's name."""
    found = [line.partition("fba_lab: ") for line in run.stderr.splitlines()]
    return [text for level, mark, text in found if mark and "INFO" not in level]


def html(root: Path, page: str = "blocks/model-compile") -> str:
    """Return a built page."""
    return (root / "site" / page / "index.html").read_text()


def record_file(root: Path, name: str, device: str = "cpu") -> Path:
    """Return the path of a record."""
    return root / f"snippets/records/{device}/model-compile/{name}.json"


def copy_record(root: Path, name: str, device: str, **changes: object) -> None:
    """Put a record of the CPU under another device's name, with changes."""
    source = record_file(root, name)
    target = record_file(root, name, device)
    target.parent.mkdir(parents=True, exist_ok=True)
    record = json.loads(source.read_text()) | {"device": device} | changes
    target.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    for artefact in record["artefacts"]:
        shutil.copy(source.parent / artefact["file"], target.parent)
