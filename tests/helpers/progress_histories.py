"""Histories of learners: acts that are applied to a progress file, and files that machines exchange."""

import io
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from sample import answer_row

from ddpquiz.learning import exchange
from ddpquiz.learning.schedule import Grade, Weights

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOOK = timedelta(seconds=3)


def histories(max_size):
    """Generate lists of acts: kind, card, grade, and hours since the last one, which may be negative."""
    kinds = st.sampled_from(["review", "answer", "undo", "weights", "hide"])
    cards = st.sampled_from(["c/a", "c/b", "d/a"])
    return st.lists(st.tuples(kinds, cards, st.integers(1, 4), st.integers(-3 * 24, 40 * 24)), max_size=max_size)


def apply(progress, acts):
    """Apply acts to a progress file, one after the other from `AT`."""
    at, receipts = AT, []
    for number, (act, card, grade, hours) in enumerate(acts):
        at += timedelta(hours=hours)
        if act == "review":
            receipts.append(progress.review(card, Grade(grade), at, TOOK))
        elif act == "answer":
            receipts.append(progress.answer(answer_row("c/q", 0.0, made_due_card=card), at))
        elif act == "weights":
            progress.use_weights(Weights(retention=0.8 + grade / 100), at)
        elif act == "hide":
            receipts.append(progress.suspend(card, at))
        elif receipts:
            progress.undo(receipts.pop(number % len(receipts)), at)


def exported(progress):
    file = io.StringIO()
    exchange.write_json(progress.log(), progress.all_weights(), file)
    return file.getvalue()


def import_text(progress, text):
    return progress.merge(*exchange.read_json(text, "file")[:2])


def everything(progress):
    """What a machine knows, to the byte."""
    return repr([
        progress._database.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("log", "card", "weights")
    ])  # fmt: skip


def states(progress):
    """The state of each card as the database has it."""
    return progress._database.execute("SELECT * FROM card ORDER BY item").fetchall()
