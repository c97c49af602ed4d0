"""Exports with odd values: dropped, repeated, exchanged, mangled, at the limits and beyond them."""

import copy
import json

from fsrs.scheduler import LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS

from ddpquiz.learning.schedule import Weights

TEXTS = ("", " ", "x", "/", "a/", "/b", "a//b", "a/b/c/d", "///", "é/ü", "a b/c", "a\n/c", "a/b\0", "a\x1b[2J/b", "\ud800/x",
         "x" * 301 + "/a", "passed", "passed\n", "solution\nx", "done", "postponed", "[" * 3000, '["', "null", "3 with n=0")  # fmt: skip
DAYS = ("2026-02-30", "0001-01-01", "9999-12-31", "1969-12-31", "2199-12-31", "2026-W10-1", "20260302", "2026-3-2", "soon",
        "2026-03-02x", "2026-03-02\0")  # fmt: skip
TIMES = (
    "2026-03-02",
    "2026-13-02T09:00:00.000000Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-03-02T09:00:00Z",
    "yesterday",
)
NUMBERS = (0, -1, 1, 5, 0.5, 1.5, -0.5, 1e300, float("nan"), float("inf"), 2**62, 2**63 - 1, 2**63, -(2**63), 10**400)
POINTS = ("[]", "[3]", "{}", "[[", "[{}]", '[{"say": 3, "matched": 1}]', '[{"say": "x", "matched": true, "more": 1}]')
OTHERS = (None, True, [], {}, ["x"], {"a": 1})
ODD = {
    **dict.fromkeys(("item", "calls", "kind", "device", "undone_device", "weights", "level"), TEXTS),
    **dict.fromkeys(
        ("took", "sequence", "undone_sequence", "grade", "credit", "chance", "confidence", "retry"), NUMBERS
    ),
    "given": (
        *TEXTS,
        "9" * 5000,
        "3 with n=1e999, s=1",
        "3 with n=" + "9" * 5000,
        "9**9**9",
        "(" * 5000,
        "x" * 1_000_001,
    ),
    "at": TIMES,
    "day": DAYS,
    "points": POINTS,
}


# Values that are odd too, but that ddpquiz may have written: an import accepts them
POSSIBLE = {
    **dict.fromkeys(("item", "calls"), ("gone/x", "pack/gone/x", "gone/lesson", "all-reduce-ring/gone", "x" * 298 + "/a", "é/ü")),
    "took": (0, 1, -(10**13), 10**13),
    **dict.fromkeys(("credit", "chance", "confidence"), (0, 1, 0.5, 1e-300, 5e-324, 1 - 1e-16)),
    "grade": (1, 4),
    "level": ("easy", "medium", "hard"),
    "retry": (True, False),
    "given": ("", "x", "x" * 1_000_000, "9" * 5000, "[" * 3000, "\x1b[2J", "3 with n=0, s=0", "3 with n=1e999, s=1", "9**9**9"),
    "points": ('[{"say": "", "matched": false, "overruled": true}]',),
}  # fmt: skip


def mangled(text, dice):
    place = dice.randrange(len(text) + 1)
    return text[:place] + dice.choice(TEXTS[:15]) + text[place + dice.randrange(4) :]


def change_field(data, dice):
    row = dice.choice(data["log"])
    name = dice.choice(sorted(ODD))
    if isinstance(row.get(name), str) and dice.random() < 0.3:
        row[name] = mangled(row[name], dice)
    else:
        row[name] = dice.choice(ODD[name])


def change_within_limits(data, dice):
    row = dice.choice(data["log"])
    if names := sorted(POSSIBLE.keys() & row.keys()):
        name = dice.choice(names)
        if not (name in ("given", "credit") and row.get("kind") in ("lab", "stage")):
            row[name] = dice.choice(POSSIBLE[name])
            if row.get("kind") != "undo" and name == "item":
                data["log"][:] = [each for each in data["log"] if each.get("kind") != "undo"]


def change_time(data, dice):
    """Let some rows be of other days: a clock may be wrong, and rows need not be in order."""
    for row in dice.sample(data["log"], dice.randrange(1, len(data["log"]))):
        row["day"] = dice.choice(("1970-01-01", "2199-12-31", "2026-03-03", "2027-02-28", "2024-02-29"))
        row["at"] = f"{row['day']}T{dice.choice(('00:00:00.000000', '23:59:59.999999'))}Z"


def change_type(data, dice):
    row = dice.choice(data["log"])
    row[dice.choice(sorted(row))] = dice.choice((*OTHERS, *NUMBERS[:8], *TEXTS[:5]))


def drop_field(data, dice):
    row = dice.choice(data["log"])
    del row[dice.choice(sorted(row))]


def drop_row(data, dice):
    del data["log"][dice.randrange(len(data["log"]))]


def repeat_row(data, dice):
    row = dict(dice.choice(data["log"]))
    if dice.random() < 0.7:
        row["sequence"] = dice.choice((10**9, 10**9 + 1, 5000 + dice.randrange(1000)))
    data["log"].append(row)


def exchange_fields(data, dice):
    one, other = dice.sample(data["log"], 2)
    name = dice.choice(sorted(one.keys() | other.keys()))
    for row, value in ((one, other.get(name)), (other, one.get(name))):
        row.pop(name, None)
        row.update({name: value} if value is not None else {})


def turn_into(data, dice):
    row = dice.choice(data["log"])
    row["kind"] = dice.choice(sorted({each.get("kind") or "" for each in data["log"]}, key=str))


def undo_in_a_circle(data, dice):
    one, other = dice.sample(data["log"], 2)
    for row, undone in ((one, other), (other, one)):
        for name in ("grade", "credit", "points", "given", "took", "level", "chance", "confidence", "retry"):
            row.pop(name, None)
        row |= {"kind": "undo", "undone_device": undone.get("device"), "undone_sequence": undone.get("sequence")}


def odd_weights(data, dice):
    """Weights at the edges of what is possible, used from an odd time; some do not match their name."""
    bounds = [*zip(LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS, strict=True)]
    parameters = tuple(float(dice.choice(each)) for each in bounds)
    weights = Weights(parameters, dice.choice((0.7, 0.97)))
    since = dice.choice(("", "2026-03-05T09:00:00.000000Z", "2199-12-31T23:59:59.999999Z", *TIMES))
    entry = {"version": weights.version, "since": since, "retention": weights.retention, "parameters": [*parameters]}
    if dice.random() < 0.3:
        entry[dice.choice(sorted(entry))] = dice.choice((*OTHERS, *NUMBERS, *TEXTS[:6]))
    data["weights"].append(entry)
    for row in data["log"]:
        if dice.random() < 0.5:
            row["weights"] = entry["version"]


def change_head(data, dice):
    data[dice.choice(("format", "version", "weights", "log", "unknown"))] = dice.choice((*OTHERS, *NUMBERS[:8], "x"))


CHANGES = (change_field,) * 5 + (change_within_limits,) * 9 + (change_time,) * 3 + (
    change_type, drop_field, drop_row, repeat_row, exchange_fields, turn_into, undo_in_a_circle, odd_weights, odd_weights,
    change_head,
)  # fmt: skip


def mutated(whole, dice):
    """The text of an export with one to three changes."""
    data = copy.deepcopy(whole)
    for change in dice.choices(CHANGES, k=dice.choice((1, 1, 2, 3))):
        if isinstance(data.get("log"), list) and len(data["log"]) > 1 and isinstance(data.get("weights"), list):
            change(data, dice)
    text = json.dumps(data)
    return mangled(text, dice) if dice.random() < 0.1 else text
