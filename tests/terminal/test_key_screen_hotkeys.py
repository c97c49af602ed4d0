"""The line of keys below a screen."""

from inline_snapshot import snapshot

from ddpquiz.terminal.kit.key_screen import HELP, QUIT, Hotkey, key_line


def test_the_line_of_keys_drops_what_does_not_fit_but_never_the_way_out():
    keys = [Hotkey("space", "show the back"), Hotkey("s", "skip"), HELP, QUIT]
    assert key_line(keys, 80).plain == snapshot("space show the back · s skip · ? help · q quit")
    assert key_line(keys, 40).plain == "space show the back · ? help · q quit"
    assert key_line(keys, 20).plain == "? help · q quit"
