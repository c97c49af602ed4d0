"""Adds the shipped content to a wheel also in the form that loads fast, so that the first start need not parse it."""

import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Called by hatchling, see pyproject.toml."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Write the file, except for an editable install, where content changes after the build."""
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from ddpquiz.curriculum import loading
        from ddpquiz.curriculum.survey import survey

        content = Path(self.root, "content")
        self._folder = tempfile.TemporaryDirectory()
        packed = Path(self._folder.name, "content.marshal")
        loading.save_copy(survey(content).catalog, loading.shipped_fingerprint(content), packed)
        packed.chmod(0o644)
        build_data["force_include"][str(packed)] = "ddpquiz/content.marshal"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        """Remove the file."""
        del version, build_data, artifact_path
        if hasattr(self, "_folder"):
            self._folder.cleanup()
