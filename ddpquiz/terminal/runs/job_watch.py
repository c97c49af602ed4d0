"""A recorded job while it goes on, on a screen or as lines in a pipe.

The files of its ranks are read again and again; `JobFollower` says what they hold, and whether the job goes on.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ddpquiz.diagnosis.alike_ranks import AlikeRanks, alike_ranks
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.event import Recorded
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.jobs.rank_files import read_rank_files
from ddpquiz.jobs.rank_process import ProcessSpace, find_process
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey
from ddpquiz.terminal.kit.keys import Keys
from ddpquiz.terminal.kit.layout import columns, section, show, shown_path
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.runs.diagnosis_page import diagnosis_page
from ddpquiz.terminal.runs.frame import on_screen, running, top
from ddpquiz.terminal.runs.run_screen import RunScreen

_FOLDER_PACE = 0.5  # seconds between two looks at the folder
_SHARE = 0.2  # of the time that reading may take
_SETTLED = 2.0  # seconds after which a job whose ranks have all ended is over; it may restart them


class JobFollower:
    """What the files of a folder say now. `read` raises UserError for a file that no recorder wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record: JobRecord | None = None
        self.state = RunState()
        self.gone: frozenset[int] = frozenset()  # ranks whose process on this machine has ended
        self._seen: dict[Path, int] = {}  # size of each file
        self._changed_at = self._next_look = 0.0
        self._recorded: dict[int, Recorded] = {}  # of each rank, that of its last process
        self._here = ProcessSpace.here()

    def read(self) -> bool:
        """Read the files if they have grown; return whether anything is new."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        sizes = self._sizes()
        is_new = bool(sizes) and sizes != self._seen
        if is_new:
            self._seen, self._changed_at = sizes, now
            self._read_all()
        gone = frozenset(
            rank for rank, recorded in self._recorded.items()
            if find_process(recorded, self.state.pids.get(rank, 0), self._here) == "gone"
        )  # fmt: skip
        if gone != self.gone:
            self.gone, self._changed_at, is_new = gone, now, True
        self._next_look = time.monotonic() + max(_FOLDER_PACE, (time.monotonic() - now) / _SHARE)
        return is_new

    def now(self) -> float:
        """The time in the job, as far as its files tell."""
        return self.state.time + (0.0 if self.over else time.monotonic() - self._changed_at)

    @property
    def over(self) -> bool:
        """Whether all ranks that have a record have ended, and nothing was added for a while."""
        if self.record is None or time.monotonic() - self._changed_at < _SETTLED:
            return False
        ended = {*self.state.exited, *self.gone}
        return all(rank in ended for rank in self.record.present)

    def _sizes(self) -> dict[Path, int]:
        try:
            places = [self.folder, *(each for each in self.folder.iterdir() if each.is_dir())]
            return {path: path.stat().st_size for place in places for path in place.glob("rank-*.jsonl")}
        except FileNotFoundError:  # the folder is not there yet, or a file was renamed meanwhile
            return {}

    def _read_all(self) -> None:
        if not any(self._seen.values()):
            return
        record = read_rank_files(self.folder)
        self._recorded = {event.rank: event for event in record.events if isinstance(event, Recorded)}
        self.record, self.state = record, RunState.after(record.events)


_MOST_LANES = 16  # ranks that have a lane each; more are put together
_PACE = 0.25  # seconds between two frames
_LINES = 2.0  # seconds between two groups of lines in a pipe
_LEAVE = Hotkey("q", "leave", "leave; the job goes on")


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
        end = time.monotonic() + _LINES
        while time.monotonic() < end and not follower.over:
            time.sleep(_PACE)
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
        if state.ranks <= _MOST_LANES:
            return on_screen(describe_frame(state, shown_path, now=now), self.screen.console.size)
        groups = alike_ranks(state, _present(self.follower), self.follower.gone)
        count = Text(f"{plural(state.ranks, 'rank')} · {format_seconds(now)}", style="quiet")
        rows = section("What the ranks do now", columns(map(_row, groups)))
        shown = describe_frame(state, shown_path, now=now, lanes=False)
        return Group(*top(shown), count, *rows), [running(shown, width)]

    def picture_keys(self) -> list[Hotkey]:
        return [_LEAVE]

    def keys(self) -> list[Hotkey]:
        source = Hotkey("v", "source", "the script, with a mark where each rank is; its explanation is at the top")
        return [_LEAVE, source, HELP]

    def press(self, key: str) -> None:
        self.left = key == "q"

    def wait(self, keys: Keys) -> str | None:
        key = keys.get(_PACE)
        self.follower.read()
        return key


def _wait_for_records(follower: JobFollower, console: Console) -> None:
    follower.read()
    if follower.record is None:
        console.print(Text(f"Waiting for records in {shown_path(follower.folder)} ... (ctrl+c leaves)"), soft_wrap=True)
        console.file.flush()
    while follower.record is None:
        time.sleep(_PACE)
        follower.read()


def _print_end(follower: JobFollower, console: Console) -> None:
    record = follower.record
    if record is None or not follower.over:
        text = f"The job goes on. `ddpquiz diagnose {plain(str(follower.folder))}` says who waits for whom."
        console.print(Text(text, style="quiet"), soft_wrap=True)
        return
    show(console, diagnosis_page(diagnose_job(record, follower.state), record))


def _present(follower: JobFollower) -> tuple[int, ...]:
    return follower.record.present if follower.record else ()


def _row(each: AlikeRanks) -> tuple[Text, Text, Text, Text]:
    place = format_place(each.file, each.line) if each.line else ""
    doing = Text(plain(each.doing), style="quiet" if each.doing == "computing" else "")
    return Text(format_ranks(each.ranks)), doing, Text(plain(place), style="code"), Text(_calls(each), style="quiet")


def _calls(each: AlikeRanks) -> str:
    fewest, most = each.calls
    return plural(most, "call") if fewest == most else f"{fewest:,} to {plural(most, 'call')}"
