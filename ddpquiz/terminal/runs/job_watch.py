"""A recorded job while it goes on: on a screen, or as lines in a pipe."""

import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.analysis.alike_ranks import AlikeRanks, alike_ranks
from ddpquiz.analysis.diagnosis import diagnose_record
from ddpquiz.analysis.formatting import format_place, format_ranks, format_seconds, plural
from ddpquiz.analysis.run_state import RunState
from ddpquiz.terminal.kit.hotkeys import HELP, Hotkey
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import columns, section, show
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.runs.current_operation import running
from ddpquiz.terminal.runs.diagnosis_page import diagnosis_page
from ddpquiz.terminal.runs.frame import Moment, on_screen, top
from ddpquiz.terminal.runs.job_follower import JobFollower
from ddpquiz.terminal.runs.run_screen import RunScreen

MOST_LANES = 16  # ranks that have a lane each; more are put together
PACE = 0.25  # seconds between two frames
LINES = 2.0  # seconds between two groups of lines in a pipe
LEAVE = Hotkey("q", "leave", "leave; the job goes on")


def watch_on_screen(follower: JobFollower, console: Console) -> None:
    """Show a job until it has ended or the user leaves; then print the verdict, or how to get one."""
    _wait_for_records(follower, console)
    with Screen(console) as screen, Keys(away=screen.suspended) as keys:
        JobScreen(follower, screen).loop(screen, keys)
    _print_end(follower, console)


def watch_in_lines(follower: JobFollower, console: Console) -> None:
    """Print what groups of ranks do, each time that it has changed, until the job has ended; then the verdict."""
    _wait_for_records(follower, console)
    printed: list[tuple[tuple[int, ...], str, int]] = []
    while not follower.over:
        groups = alike_ranks(follower.state, _present(follower), follower.gone)
        doing = [(each.ranks, each.doing, each.line) for each in groups]
        if doing != printed:
            printed = doing
            for each in groups:
                place = f"  {format_place(each.file, each.line)}" if each.line else ""
                line = f"{follower.now():8.1f} s  {format_ranks(each.ranks)}  {each.doing}{place}  {_calls(each)}"
                console.print(Text(plain(line)), soft_wrap=True)
            console.file.flush()
        end = time.monotonic() + LINES
        while time.monotonic() < end and not follower.over:
            time.sleep(PACE)
            follower.read()
    _print_end(follower, console)


class JobScreen(RunScreen):
    """The live view of a job whose ranks write files."""

    def __init__(self, follower: JobFollower, screen: Screen) -> None:
        super().__init__(screen)
        self.follower = follower

    @property
    def state(self) -> RunState:
        return self.follower.state

    @property
    def closed(self) -> bool:
        return self.left or self.follower.over

    def picture(self) -> tuple[RenderableType, Sequence[RenderableType]]:
        state, now, width = self.state, self.follower.now(), self.screen.console.width
        if state.ranks <= MOST_LANES:
            return on_screen(state, self.screen.console.size, Moment(now))
        groups = alike_ranks(state, _present(self.follower), self.follower.gone)
        count = Text(f"{plural(state.ranks, 'rank')} · {format_seconds(now)}", style="quiet")
        rows = section("What the ranks do now", columns(map(_row, groups)))
        return Group(*top(state, None), count, *rows), [running(state, now, width)]

    def picture_keys(self) -> list[Hotkey]:
        return [LEAVE]

    def keys(self) -> list[Hotkey]:
        source = Hotkey("v", "source", "the script with a mark for each rank; its explanation is at the top")
        return [LEAVE, source, HELP]

    def press(self, key: str) -> None:
        self.left = key == "q"

    def wait(self, keys: Keys) -> str | None:
        key = keys.get(PACE)
        self.follower.read()
        return key


def _wait_for_records(follower: JobFollower, console: Console) -> None:
    follower.read()
    if follower.record is None:
        console.print(Text(f"Waiting for records in {plain(str(follower.folder))} ... (ctrl+c leaves)"), soft_wrap=True)
        console.file.flush()
    while follower.record is None:
        time.sleep(PACE)
        follower.read()


def _print_end(follower: JobFollower, console: Console) -> None:
    record = follower.record
    if record is None or not follower.over:
        text = f"The job goes on. `ddpquiz diagnose {plain(str(follower.folder))}` says who waits for whom."
        console.print(Text(text, style="quiet"), soft_wrap=True)
        return
    show(console, diagnosis_page(diagnose_record(record, follower.state), record))


def _present(follower: JobFollower) -> tuple[int, ...]:
    return follower.record.present if follower.record else ()


def _row(each: AlikeRanks) -> tuple[Text, Text, Text, Text]:
    place = format_place(each.file, each.line) if each.line else ""
    doing = Text(plain(each.doing), style="quiet" if each.doing == "computing" else "")
    return Text(format_ranks(each.ranks)), doing, Text(plain(place), style="code"), Text(_calls(each), style="quiet")


def _calls(each: AlikeRanks) -> str:
    fewest, most = each.calls
    return plural(most, "call") if fewest == most else f"{fewest:,} to {plural(most, 'call')}"
