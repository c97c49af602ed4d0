"""The keys that several sittings share."""

from __future__ import annotations

from ddpquiz.terminal.kit.hotkeys import Hotkey

FLAG = Hotkey("f", "flag", "mark this item as wrong or unclear; press again to undo")
DEMO = Hotkey("d", "demo", "run this concept's demo on real ranks, and come back here")
PROOF = Hotkey("p", "proof", "run the proof of the answer, and come back here")
SOURCE = Hotkey("v", "source", "show the source of this item")
