"""Print the lowest versions that pyproject.toml allows, as constraints for pip."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
lists = [project["dependencies"], *(extras[name] for name in extras if name != "dev")]
for requirement in sorted({requirement for each in lists for requirement in each}):
    name, _, version = requirement.partition(">=")
    print(f"{name.partition('[')[0]}=={version}")
