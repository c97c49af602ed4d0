"""Proofs and what their options show: what does not fit is named with its line and column."""

import pytest
from ring_file import changed, complaints

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "neither proof nor source": (
        "    proof: {ranks: 2}\n  - id: what-is-w",
        "  - id: what-is-w",
        "193:5: a question needs a `proof`, or a `source` if no proof is possible here",
    ),
    "a proof without code": (
        "    proof:\n      ranks: 4\n      code: |\n        x = torch.tensor(float(rank + 1))\n        dist.all_reduce(x)\n        print(x.item())",
        "    proof: {ranks: 4}",
        "77:12: `proof`: a `choice` question needs `code` or `demo` in it",
    ),
    "an option without shows": (
        '{text: the largest, shows: "4.0", why',
        "{text: the largest, why",
        "70:9: this option needs `shows`: what the proof would observe if the option were right",
    ),
    "a wrong option that shows what is right": (
        '{text: the largest, shows: "4.0", why',
        '{text: the largest, shows: "10.0", why',
        "70:36: `shows`: a right option shows the same, so the proof cannot decide",
    ),
    "the same, rank by rank": (
        '{text: the largest, shows: "4.0", why',
        '{text: the largest, shows: {0: "10.0", 1: "10.0", 2: "10.0", 3: "10.0"}, why',
        "70:36: `shows`: a right option shows the same, so the proof cannot decide",
    ),
    "shows of a rank that is not there": (
        'shows: {0: "10.0", 1: "2.0", 2: "3.0", 3: "4.0"}',
        'shows: {0: "10.0", 4: "2.0"}',
        "78:14: `ranks`: rank 4 is asked for, but the last rank is 3",
    ),
    "shows by something else": (
        'shows: {0: "10.0", 1: "2.0", 2: "3.0", 3: "4.0"}',
        'shows: {all: "10.0"}',
        "72:16: `shows`: expected a text, a map of ranks to texts, raises or hangs; got `all`",
    ),
    "shows that raises and hangs": (
        "shows: {raises: RuntimeError}",
        "shows: {raises: RuntimeError, hangs: true}",
        "214:38: `shows`: write either `raises: text` or `hangs: true`",
    ),
    "shows beside an option line": (
        "{code: x /= world_size, right: true}",
        '{code: x /= world_size, right: true, shows: "0.5"}',
        "91:53: `shows` has no effect with `<option>`; the proof says what right options give",
    ),
    "an option line and an option in words": (
        "{code: x = x.mean(), why",
        "{text: x = x.mean(), why",
        "93:9: the proof has `<option>`, so each option needs `code` in place of `text`",
    ),
    "an option line without prints": (
        '        <option>\n        print(x.item())\n      prints: "0.5"\n  - id: who',
        "        <option>\n        print(x.item())\n  - id: who",
        "99:7: `proof`: with `<option>` it needs `prints`, `raises` or `hangs`",
    ),
    "two option lines": (
        '        <option>\n        print(x.item())\n      prints: "0.5"\n  - id: who',
        '        <option>\n        <option>\n      prints: "0.5"\n  - id: who',
        "100:13: `code`: `<option>` must appear once, alone on its line",
    ),
    "an option within a line": (
        '        <option>\n        print(x.item())\n      prints: "0.5"\n  - id: who',
        '        f(<option>)\n      prints: "0.5"\n  - id: who',
        "100:13: `code`: `<option>` must appear once, alone on its line",
        "103:11: `code` is not valid Python: invalid syntax",
        "104:15: `prints`: this needs a line `<option>` in the code; without one, use `shows` in the options",
    ),
    "prints without an option line": (
        '        print(x.item() / 2)\n        print("done")\n',
        "        print(x.item() / 2)\n      prints: done\n",
        "124:15: `prints`: this needs a line `<option>` in the code; without one, use `shows` in the options",
    ),
    "shows of choices by rank": (
        '{text: "1.0", shows: "1.0", why',
        '{text: "1.0", shows: {0: "1.0"}, why',
        "113:30: `shows`: in a `choices` question it is one line of text",
    ),
    "a line without shows": (
        "{text: all-gather, shows: gather}",
        "{text: all-gather}",
        "166:9: this line needs `shows`, or the proof a line `<option>`",
    ),
    "two lines that show the same": (
        "{text: all-gather, shows: gather}",
        "{text: all-gather, shows: scatter}",
        "166:35: `shows`: another line shows the same, so the proof cannot decide",
    ),
    "code in the proof of an output": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 2, code: print(1)}\n",
        "208:29: `code`: an `output` question is proven by its own `code`; remove this",
    ),
    "prints in the proof of an output": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 2, prints: a}\n",
        "208:31: `prints`: an `output` question is proven by its `answer`; remove this",
    ),
    "a demo in the proof of an output": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 2, demo: ring, label: bytes sent}\n",
        "208:29: `demo`: an `output` question is proven by code, not by a demo",
    ),
    "a rank beyond the last": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 1}\n",
        "208:20: `ranks`: rank 1 is asked for, but the last rank is 0",
    ),
    "no ranks": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 0}\n",
        "208:20: `ranks`: expected a whole number from 1 to 16, got 0",
    ),
    "ranks with an unknown name": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: n}\n",
        "208:20: `ranks`: `n` is not one of the question's `vars`",
    ),
    "a proof without ranks": ("proof: {ranks: 2}\n", "proof: {}\n", "208:12: missing key `ranks`"),
    "a proof in words": ("proof: {ranks: 2}\n", "proof: yes\n", "208:12: `proof`: expected a mapping, got text"),
    "a proof with demo and code": (
        "proof: {demo: ring, ranks: 4, args",
        "proof: {demo: ring, code: x, ranks: 4, args",
        "62:25: `code` does not belong here: a proof has either `code` or `demo`",
    ),
    "a label with capitals": (
        "label: bytes sent}\n  - id: sum",
        "label: Bytes}\n  - id: sum",
        "62:66: `label`: use at most 40 of a-z, 0-9, spaces and _/()-, and start with a letter",
    ),
    "a long label": (
        "label: bytes sent}\n  - id: sum",
        f"label: {'a' * 41}}}\n  - id: sum",
        "62:66: `label`: use at most 40 of a-z, 0-9, spaces and _/()-, and start with a letter",
    ),
    "args without a demo": (
        "proof: {ranks: 2}\n",
        "proof: {ranks: 2, args: [a]}\n",
        "208:23: `args` does not belong here: it goes with `demo`",
    ),
    "a proof that prints and hangs": (
        '      prints: "0.5"\n  - id: who',
        '      prints: "0.5"\n      hangs: true\n  - id: who',
        "106:14: `hangs`: a proof can have only one of prints, raises, hangs",
    ),
    "shows without a proof": (
        "    source: dist\n    proof:\n      ranks: 2\n      code: |\n        x = torch.tensor(1.0)\n        first = rank == 0\n        dist.all_reduce(x) if first else dist.recv(x, 0)\n        print(x.item())\n",
        "    source: dist\n",
        "213:50: `shows` is for a `proof`, and this question has none",
        "214:38: `shows` is for a `proof`, and this question has none",
        "215:50: `shows` is for a `proof`, and this question has none",
        "216:47: `shows` is for a `proof`, and this question has none",
    ),
    "prints in the proof of a number": (
        "        print(sent)\n",
        "        print(sent)\n      prints: a\n",
        "147:15: `prints`: a `number` question is proven by its `answer`; remove this",
    ),
    "a proof that is no Python": (
        "        print(x.item() / 2)",
        "        print x.item() / 2",
        "123:9: `code` is not valid Python: Missing parentheses in call to 'print'. Did you mean print(...)?",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected
