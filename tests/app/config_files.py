"""A home and a project with configuration files, as tests of settings need them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from steno.app.settings import LoadedSettings, load_settings
from steno.app.trust_review import open_trust_file, review_project

EVERY_SETTING = """
model = "lab/large"
mode = "plan"
role = "planner"
allow = ["bash(git log *)", "read"]
deny = ["write(.env)"]
auto_run = "read"
max_turns = 7
max_total_tokens = 100000
max_seconds = 60
max_cost = 0.5
max_tokens = 1000
temperature = 0
store = "sqlite:/tmp/work.db"
add_dirs = ["~/notes"]
system_prompt = "Be somebody else."
append_system_prompt = "Be brief."
sandbox = "require"
network = true
command_memory_mb = 512
command_processes = 64
command_file_mb = 100
env = ["JAVA_HOME"]
theme = "steno-light"
plain = true
steering = "interrupt"
telemetry = true
capture_content = true
image_mode = "ocr"
ocr = "tesseract"
ocr_languages = ["deu", "eng"]
resource_ttl_s = 60
resource_tokens = 2000
trusted_projects = ["/srv/mine"]
[providers.lab]
like = "vllm"
base_url = "http://gpu.example:8000/v1"
[models."lab/large"]
context_tokens = 32768
vision = false
tools = true
[mcp_servers.time]
command = "uvx"
args = ["mcp-server-time"]
"""


class ConfigFolders:
    """A home and a project, each with nothing in it."""

    def __init__(self, folder: Path) -> None:
        self._trusts = False
        self.home = folder / "home"
        self.project = folder / "project"
        self.work = self.project / "src" / "deep"
        self.user_file = self.home / ".config" / "steno" / "config.toml"
        self.project_file = self.project / ".steno" / "config.toml"
        for made in (self.user_file.parent, self.project_file.parent, self.work):
            made.mkdir(parents=True)

    def load(
        self,
        user: str = "",
        project: str = "",
        *,
        environ: dict[str, str] | None = None,
        **flags: object,
    ) -> LoadedSettings:
        self.user_file.write_text(user)
        self.project_file.write_text(project)
        variables = {"HOME": str(self.home), **(environ or {})}
        if self._trusts:
            trust_project(self.work, variables)
        return load_settings(self.work, flags=flags, environ=variables)

    def trusting(self, user: str = "") -> str:
        """Trust the project with each `load`, as its files are then; return the user's settings."""
        self._trusts = True
        return user


def trust_project(folder: Path, environ: Mapping[str, str] | None = None) -> None:
    """Trust the configuration of a project as it is now, as `steno trust --yes` does."""
    review = review_project(folder, environ)
    open_trust_file(environ).trust(review.project, review.found)
