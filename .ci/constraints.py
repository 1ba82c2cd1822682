"""Rewrite constraints.txt: resolve the project with every dependency group, and keep names and versions only.

Run it through `make constraints`. The resolver's report also knows where each file came from; that is left out on
purpose, so the result is the same wherever packages are fetched from.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Exact versions for development and CI, from `make constraints`. The package itself pins nothing.\n"


def resolve(groups: list[str]) -> dict[str, str]:
    """Return the version of every package that the project with these groups needs."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), *(f"--group={name}" for name in groups), "--editable", "."]
        subprocess.run(command, cwd=ROOT, check=True)
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = {item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in installs}
    del found["bascule"]
    return found


def main() -> None:
    """Write the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = resolve(list(project["dependency-groups"]))
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    (ROOT / "constraints.txt").write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
