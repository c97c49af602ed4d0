"""Texts that a learner began to write and did not end, by prompt."""

from collections.abc import Mapping


class Drafts:
    """The texts of earlier sittings, and those of this one that were left for another prompt."""

    def __init__(self, saved: Mapping[str, str]) -> None:
        self._saved = dict(saved)
        self.left: dict[str, str] = {}

    def leave(self, prompt: str, text: str) -> None:
        self.left[prompt] = text.strip()

    def resume(self, prompt: str) -> tuple[str, str]:
        """Return the text that was begun for a prompt, and a sentence about it; two empty texts if there is none."""
        here, before = self.left.pop(prompt, ""), self._saved.pop(prompt, "")
        if not here and not before:
            return "", ""
        return here or before, f"What you began to write {'' if here else 'the last time '}is here again."
