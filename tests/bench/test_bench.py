"""`ddpquiz bench`: the lines through times, the file that holds them, and a small measurement on real ranks."""

import json
import math
import random
import subprocess
import sys
from dataclasses import replace

import pytest
import typer
from measured_machine import SIZES, group, line, machine
from run_program import ddpquiz, environment, piped

from ddpquiz.bench.bench_page import bench_page, lines_on_machine, speeds_section
from ddpquiz.bench.measurements import (
    AchievedSpeed,
    MachineBench,
    SizeTime,
    achieved_speeds,
    bus_bandwidth,
    decode,
    fit_lines,
    measured_as,
)
from ddpquiz.bench.saved_bench import BENCH_FILE, load_bench, save_bench
from ddpquiz.cli.bench import read_options, read_sizes
from ddpquiz.curriculum.loading import load
from ddpquiz.events.costs import Cost
from ddpquiz.events.operation import Operation
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.sittings.lesson_page import COSTS, lesson_page


def test_the_fit_finds_alpha_and_beta_of_one_line():
    found = fit_lines([(size, line(size)) for size in SIZES])
    assert len(found.lines) == 1
    assert found.lines[0].alpha == pytest.approx(300e-6, rel=1e-6)
    assert found.lines[0].beta == pytest.approx(1e-9, rel=1e-6)
    assert found.bytes_per_second == pytest.approx(1e9, rel=1e-6)


def test_sizes_that_were_not_measured_are_predicted_within_noise():
    noise = random.Random(1)
    found = fit_lines([(size, line(size) * noise.uniform(0.92, 1.08)) for size in SIZES])
    errors = [abs(found.seconds(size) / line(size) - 1) for size in (100, 5_000, 300_000, 3_000_000, 20_000_000)]
    assert max(errors) < 0.08


@pytest.mark.parametrize("factor", [0.4, 3, 20])
def test_one_disturbed_size_hardly_moves_the_line(factor):
    disturbed = [(size, line(size) * (factor if size == SIZES[4] else 1)) for size in SIZES]
    found = fit_lines(disturbed)
    assert [found.seconds(size) for size in (64, 1 << 20)] == pytest.approx([line(64), line(1 << 20)], rel=0.03)


def test_two_regimes_have_two_lines_that_meet_between_their_sizes():
    def both(size):
        return line(size, beta=0.2e-9) if size < 1 << 20 else line(size, alpha=2e-3, beta=3e-9)

    found = fit_lines([(size, both(size)) for size in SIZES])
    assert len(found.lines) == 2
    assert SIZES[8] <= found.lines[0].until <= SIZES[9]
    assert found.lines[1].until == math.inf
    assert found.lines[1].beta == pytest.approx(3e-9, rel=1e-3)
    assert found.mean_error < 0.01
    assert found.single_error > 0.1


def test_a_line_never_falls_and_needs_three_sizes():
    falling = fit_lines([(1, 3e-3), (100, 2e-3), (1000, 1e-3)])
    assert falling.lines[0].beta == 0
    assert falling.bytes_per_second == math.inf
    with pytest.raises(ValueError, match="needs 3 sizes"):
        fit_lines([(8, 1e-3), (8, 1e-3), (16, 1e-3)])


def test_bandwidths_are_those_of_nccl_tests():
    time = SizeTime(1_000_000, 1e-3, 1e-3, 1e-3, 1)
    assert time.algorithm_bandwidth == 1e9
    assert bus_bandwidth("all_reduce", 4, time) == 1.5e9
    assert bus_bandwidth("all_gather", 4, time) == 0.75e9
    assert bus_bandwidth("broadcast", 4, time) == 1e9


@pytest.mark.parametrize(
    ("op", "as_"),
    [("all_to_all_single", "all_to_all"), ("_all_gather_base", "all_gather"), ("reduce", "reduce"), ("recv", "recv")],
)
def test_operators_of_torch_count_as_what_was_measured(op, as_):
    assert measured_as(op) == as_


def test_the_file_is_read_back_and_new_times_replace_only_their_own(home, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(home))
    save_bench(group(ranks=2))
    save_bench(group(ranks=4))
    save_bench(group(ranks=4, op="send"))
    known = save_bench(group(ranks=4, seconds=lambda size: 2 * line(size)))
    assert load_bench() == known
    assert [each.ranks for each in known.groups] == [2, 4]
    assert [*known.group("cpu", 4).ops] == ["all_reduce", "send"]
    assert known.group("cpu", 4).fit_of("all_reduce").lines[0].alpha == pytest.approx(600e-6)
    short = replace(group(), ops={"all_reduce": group().ops["all_reduce"][:2]})
    assert save_bench(short).group("cpu", 4).fit_of("all_reduce").lines[0].alpha == pytest.approx(600e-6)
    assert (home / BENCH_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", ["", "[]", '{"version": 2, "groups": []}', '{"version": 1, "groups": [{}]}', "NaN"])
def test_a_file_that_is_not_valid_counts_as_none(broken, home, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(home))
    (home / BENCH_FILE).parent.mkdir(parents=True, exist_ok=True)
    (home / BENCH_FILE).write_text(broken)
    assert load_bench() == MachineBench()


def test_times_that_cannot_be_are_refused():
    data = MachineBench((group(),)).as_json()
    assert decode(data) == MachineBench((group(),))
    data["groups"][0]["ops"]["all_reduce"]["sizes"][3]["seconds"] = -1
    with pytest.raises(ValueError, match="not positive"):
        decode(data)


def test_a_run_is_compared_with_what_the_machine_can_do():
    def operation(op, **more):
        return Operation(op, (0, 1, 2, 3), None, ((250,),), "float32", 1000, "train.py", 3, **more)

    def cost(first, seconds):
        return Cost(calls=8, ranks={0, 1, 2, 3}, bytes=8000, seconds=seconds, waiting=8e-3, first=first)

    lines = {
        ("train.py", 3, "all_reduce"): cost(operation("all_reduce"), 16e-3),
        ("train.py", 4, "all_reduce"): cost(operation("all_reduce", asynchronous=True), 16e-3),
        ("train.py", 5, "broadcast"): cost(operation("broadcast"), 16e-3),
        ("train.py", 6, "all_reduce"): cost(operation("all_reduce"), 8e-3),
    }
    (found,) = achieved_speeds(lines, MachineBench((group(),)), "cpu")
    assert (found.line, found.op, found.size) == (3, "all_reduce", 1000)
    assert found.seconds == pytest.approx(1e-3)
    assert found.possible == pytest.approx(line(1000))
    assert achieved_speeds(lines, MachineBench((group(),)), "cuda") == []


def test_sizes_go_from_the_first_to_the_last_in_steps_of_four():
    assert [*read_sizes("8..100")] == [8, 32, 100]
    assert [*read_sizes("1K..64KiB")] == [1 << 10, 1 << 12, 1 << 14, 1 << 16]
    assert [*read_sizes("2M")] == [2 << 20]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("all_sum", "8..16", "", 1), "'all_sum' is not one of all_reduce, all_gather,"),
        (("send", "16..8", "", 1), "'16..8' is not a range of sizes"),
        (("send", "8..x", "", 1), "such as 8..64M"),
        (("send", "8..16", "1", 1), "'1' is not a number of ranks from 2 to 64."),
        (("send", "8..16", "2,x", 1), "'x' is not a number of ranks"),
        (("send", "8..16", "2", 0), "0 is not a number of seconds"),
    ],
)
def test_a_wrong_option_is_one_sentence(words, complaint):
    with pytest.raises(typer.BadParameter) as wrong:
        read_options(*words)
    assert complaint in str(wrong.value)


def test_the_page_says_that_the_machine_was_busy_and_names_operations_with_two_lines():
    times = tuple(SizeTime(size, line(size), 0.2 * line(size), 3 * line(size), 9) for size in SIZES)
    out = style.console(width=80)
    with out.capture() as shown:
        layout.show(out, bench_page([replace(group(), ops={"all_reduce": times})], 80, {"reduce": "no kernel"}))
    text = shown.get()
    assert "300 µs + size / 1 GB/s" in text
    assert "The times of 12 of 12 sizes vary by more than 50%" in text
    assert "reduce cannot run here: no kernel" in text
    assert "One line does not fit" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


@pytest.mark.parametrize("width", [52, 60, 70])
def test_in_a_narrow_terminal_no_figure_of_a_bench_is_cut(width):
    times = tuple(SizeTime(size, line(size), 0.2 * line(size), 3 * line(size), 9) for size in SIZES)
    out = style.console(width=width)
    with out.capture() as shown:
        layout.show(out, bench_page([replace(group(), ops={"all_reduce": times})], width, {}))
        reached = AchievedSpeed(
            file="/a/pretrain_language_model.py",
            line=123,
            op="all_reduce",
            ranks=4,
            size=1 << 20,
            seconds=0.25,
            possible=0.125,
        )
        layout.show(out, speeds_section([reached]))
    lines = shown.get().splitlines()
    assert max(map(len, lines)) <= width
    *_, last = lines
    assert (".py:123" in last, "250 ms" in last, "125 ms" in last) == (True, True, True)
    assert not any("…" in line for line in lines[:-1])


def test_figures_for_questions_are_those_of_the_most_ranks_with_two_digits():
    bench = machine("all_reduce", ranks=2).merged(group(4, "all_reduce", lambda size: line(size, 123e-6, 0.4567e-9)))
    assert bench.figures() == {"ranks": "4", "all_reduce.alpha": "120", "all_reduce.beta": "460"}
    assert MachineBench().figures() == {}


def test_a_question_asks_about_what_was_measured_here(home, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(home))
    words = ("test", "comm-cost-model", "--level", "easy", "--count", "9", "--seed", "1")
    command = [sys.executable, "-m", "ddpquiz", *words]

    def asked():
        done = subprocess.run(
            command, input="1\n" * 20, capture_output=True, text=True, env=environment(home), timeout=60
        )
        return " ".join(done.stdout.split())

    assert "figures of your machine" not in asked()
    save_bench(group(4, "all_reduce", lambda size: line(size, 123e-6, 0.4567e-9)))
    question = asked()
    timed = "All-reduces across 4 processes were timed at many sizes. The times fit a line: 120 µs, plus 460 µs"
    assert timed in question
    assert "figures of your machine" in question


def test_two_ranks_are_measured_and_the_lesson_shows_it(home):
    words = ("--nproc", "2", "--op", "all_reduce,send", "--sizes", "64..64K", "--seconds", "0.5")
    printed = json.loads(piped(home, "bench", *words, "--json").stdout)
    (measured,) = printed["groups"]
    assert [each["bytes"] for each in measured["ops"]["send"]["sizes"]] == [64, 256, 1024, 4096, 16384, 65536]
    assert all(each["samples"] >= 1 and each["seconds"] > 0 for each in measured["ops"]["all_reduce"]["sizes"])
    assert measured["ops"]["all_reduce"]["fit"]["lines"]
    saved = decode(json.loads((home / BENCH_FILE).read_text()))
    assert (
        saved.group("cpu", 2).fit_of("all_reduce_coalesced") == saved.group("cpu", 2).fit_of("all_reduce") is not None
    )
    (sentence, _) = lines_on_machine(saved)
    assert sentence.plain.startswith("`all_reduce` of 2 ranks (gloo): ")


def test_the_lesson_on_costs_shows_what_was_measured(home, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(home))
    save_bench(group())
    known = load()
    out = style.console(width=80)
    with out.capture() as shown:
        for concept in (COSTS, "all-reduce-ring"):
            layout.show(out, lesson_page(known, known.concept(concept)))
    assert shown.get().count("On your machine") == 1
    assert "all_reduce` of 4 ranks (gloo): 300 µs + size / 1 GB/s" in shown.get()


def test_ctrl_c_saves_what_was_measured(home):
    terminal = ddpquiz(
        "bench", "--nproc", "2", "--op", "all_reduce", "--sizes", "64..4K", "--seconds", "500", home=home
    )
    terminal.wait("2 ranks: all_reduce")
    terminal.press("\x03")
    terminal.wait("^all_reduce  ")
    assert terminal.end() == 130
    assert (home / BENCH_FILE).is_file() or "three sizes are needed" in terminal.text


def test_the_module_for_launchers_needs_ranks(home):
    done = subprocess.run(
        [sys.executable, "-m", "ddpquiz.bench"], env=environment(home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "start two ranks or more with a launcher" in done.stderr


def test_a_line_that_begins_at_zero_is_said_in_words():
    times = tuple(SizeTime(size, size / 1e9, size / 1e9, size / 1e9, 9) for size in SIZES)
    out = style.console(width=80)
    with out.capture() as shown:
        layout.show(out, bench_page([replace(group(), ops={"all_reduce": times})], 80, {}))
    text = " ".join(shown.get().split())
    assert "0 s + size" not in text
    assert "size / 1 GB/s" in text
    assert (
        "The line of all_reduce begins at 0: these times do not show what a call costs before its first byte." in text
    )
