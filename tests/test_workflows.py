"""Workflows, scripts and container: what starts them, what they may do, what they call."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SCRIPTS = sorted((ROOT / "scripts").iterdir())
READ = {"contents": "read"}


def load(name: str) -> dict[str, Any]:
    flow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
    flow["on"] = flow.pop(True)  # YAML 1.1 takes the bare word for a truth value
    return flow


def steps(flow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in flow["jobs"].values() for step in job["steps"]]


def test_the_three_workflows_start_on_what_they_should() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "gpu-record", "pages"]
    assert set(load("ci")["on"]) == {"push", "pull_request", "workflow_dispatch"}
    assert set(load("pages")["on"]) == {"push", "workflow_dispatch"}
    assert load("pages")["on"]["push"] == {"branches": ["main"]}
    # A fork's code must never reach our own machine.
    assert set(load("gpu-record")["on"]) == {"schedule", "workflow_dispatch"}


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_a_workflow_has_limits(name: str) -> None:
    flow = load(name)
    assert flow["permissions"] == READ
    assert set(flow["concurrency"]) == {"group", "cancel-in-progress"}
    assert all(job["timeout-minutes"] <= 180 for job in flow["jobs"].values())
    for step in steps(flow):
        if uses := step.get("uses"):
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", uses), "official, with its major version"


def test_only_two_jobs_may_write_and_neither_runs_on_our_machine() -> None:
    given = {
        (path.stem, name): job["permissions"]
        for path in WORKFLOWS
        for name, job in load(path.stem)["jobs"].items()
        if "permissions" in job
    }
    assert given == {
        ("pages", "deploy"): {"pages": "write", "id-token": "write"},
        ("gpu-record", "propose"): {
            "actions": "write",
            "contents": "write",
            "pull-requests": "write",
        },
    }
    jobs = load("gpu-record")["jobs"]
    assert jobs["record"]["runs-on"] == ["self-hosted", "gpu"]
    assert jobs["propose"]["runs-on"] == "ubuntu-latest"
    assert jobs["record"]["steps"][0]["with"] == {"persist-credentials": False}


def test_the_site_is_built_strictly_from_records() -> None:
    build = (ROOT / "scripts/build-site").read_text()
    assert "LAB_MODE=replay" in build and "--strict" in build
    assert [step["run"] for step in load("pages")["jobs"]["build"]["steps"] if "run" in step] == [
        "scripts/install requirements-site.txt",
        "scripts/build-site",
    ]


def test_what_is_called_is_there_and_can_be_run() -> None:
    texts = [path.read_text() for path in (*WORKFLOWS, *SCRIPTS, ROOT / "Dockerfile")]
    called = set(re.findall(r"(?:scripts/|\.ci/)[a-z-]+", "\n".join(texts)))
    called |= {f"scripts/{name}" for name in re.findall(r"^\./([a-z-]+)", "\n".join(texts), re.M)}
    assert called == {".ci/run", *(f"scripts/{path.name}" for path in SCRIPTS)}
    for name in called:
        assert os.access(ROOT / name, os.X_OK), name


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_short_stops_at_an_error_and_is_in_the_readme(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1].startswith("# ")
    assert lines[2] == "set -euo pipefail"
    assert len(lines) < 20
    subprocess.run(["bash", "-n", path], check=True)
    assert f"scripts/{path.name}" in (ROOT / "README.md").read_text()


def test_records_are_proposed_on_a_branch_of_their_own(tmp_path: Path) -> None:
    origin, clone, bin_ = tmp_path / "origin.git", tmp_path / "clone", tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "gh").write_text('#!/bin/sh\necho "gh $*"\n')
    (bin_ / "gh").chmod(0o755)
    env = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    env |= {
        f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def run(*command: object) -> str:
        done = subprocess.run(
            list(map(str, command)), cwd=clone, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    clone.mkdir()
    run("git", "init", "-q", "--bare", origin)
    run("git", "init", "-q", "-b", "main")
    for folder in ("scripts", "snippets/records", "docs/notebooks"):
        (clone / folder).mkdir(parents=True)
    script = clone / "scripts/propose-records"
    script.write_bytes((ROOT / "scripts/propose-records").read_bytes())
    script.chmod(0o755)
    record, notebook = clone / "snippets/records/a.json", clone / "docs/notebooks/a.ipynb"
    record.write_text("old\n")
    notebook.write_text("{}\n")
    run("git", "add", ".")
    run("git", "commit", "-q", "-m", "first")
    run("git", "remote", "add", "origin", origin)
    run("git", "push", "-q", "origin", "main")

    assert run(script) == "no record has changed\n"
    record.write_text("new\n")
    patch = tmp_path / "records.patch"
    patch.write_text(run("git", "diff", "--binary"))
    run("git", "checkout", "-q", "--", ".")
    said = run(script, patch)
    branch = run("git", "branch", "--show-current").strip()
    assert branch.startswith("records/")
    assert f"gh pr create --fill --head {branch}" in said
    assert run("git", "show", f"origin/{branch}:snippets/records/a.json") == "new\n"
    assert run("git", "show", "main:snippets/records/a.json") == "old\n"


def test_the_image_installs_every_pinned_requirement_but_torch_and_the_project() -> None:
    text = (ROOT / "Dockerfile").read_text()
    command = re.search(r"^RUN (sed .*?) >", text, re.M)
    assert command
    local = command[1].replace("/tmp/", f"{ROOT}/")
    done = subprocess.run(["bash", "-c", local], capture_output=True, text=True, check=True)
    pinned = [line.split("#")[0].strip() for line in done.stdout.splitlines()]
    pinned = [line for line in pinned if line]
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in pinned)
    assert any(line.startswith("mkdocs==") for line in pinned)
    assert any(line.startswith("pytest==") for line in pinned)
    assert not any(line.startswith("torch==") for line in pinned)
    torch = re.search(r"torch==(\d+\.\d+)", text)
    trainer = (ROOT / "snippets/train_gpt.py").read_text()
    supported = re.search(r"^TORCH_SUPPORTED = \((.*)\)", trainer, re.M)
    assert torch and supported and f'"{torch[1]}"' in supported[1]


def test_the_image_ends_as_a_user_without_rights() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER lab"]
    # What changes often comes last, or every edit would install everything anew.
    assert lines.index("COPY . .") > lines.index(
        "COPY requirements.txt requirements-site.txt /tmp/"
    )
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert {".git", ".venv", "data", "site", ".cache"} <= set(ignored)
