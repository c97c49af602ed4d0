"""The reader: what fits becomes data, and whatever does not is named with its line and column."""

import difflib
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpquiz.curriculum.concept import CardLevel, CodeProof, DemoProof, Kind, Level, Shows
from ddpquiz.curriculum.reader import concept_of, read_concept
from ddpquiz.curriculum.survey import read_sources, read_tracks, survey
from ddpquiz.curriculum.yaml_file import LARGEST, YamlFile

DATA = Path(__file__).parent / "data"
RING = DATA / "content" / "collectives" / "ring.yaml"
VALID = RING.read_text("utf-8")

# what is wrong: the valid text, what stands there instead, and every complaint
MODEL_ANSWER = """\
      Every rank brings a tensor of the same shape. The tensors are combined element by element, usually by a sum, and
      afterwards every rank holds the same result. It is what a reduce to one rank and then a broadcast to all ranks
      would do, without the root between them.
"""
CASES = {
    "a key that is misspelt": ("idea: In", "ideal: In", "3:1: unknown key `ideal`; did you mean `idea`?"),
    "a key like no other": ("remember:\n", "zebra: x\nremember:\n", "33:1: unknown key `zebra`"),
    "a key that is missing": (
        "idea: In a ring every rank sends each byte about twice, however many ranks there are.\n",
        "",
        "1:1: missing key `idea`",
    ),
    "a key that stands there twice": (
        "needs: []\n",
        "needs: []\ntitle: again\n",
        "3:1: repeated key `title`; it was first used in line 1",
    ),
    "empty text": ("title: All-reduce and the ring", "title:", "1:7: `title` is empty"),
    "blank text": ("title: All-reduce and the ring", 'title: "  "', "1:8: `title` is empty"),
    "text for list": ("needs: []", "needs: none", "2:8: `needs`: expected a list, got text"),
    "list for text": (
        "title: All-reduce and the ring",
        "title: [a, b]",
        "1:8: `title`: expected text, got a list; quote it if it is text",
    ),
    "mapping for text": (
        "title: All-reduce and the ring",
        "title: {a: b}",
        "1:8: `title`: expected text, got a mapping; quote it if it is text",
    ),
    "text for mapping": (
        "flags: {--nproc-per-node: ranks to start on this machine}",
        "flags: none",
        "23:12: `flags`: expected a mapping, got text",
    ),
    "card is text": (
        "  - {id: limit, level: advanced, front: What does a rank send for very many ranks?, back: Twice the tensor., source: dist}",
        "  - limit",
        "49:5: a card: expected a mapping, got text",
    ),
    "a level that is misspelt": (
        "level: beginner, front: Who holds the result of an",
        "level: beginer, front: Who holds the result of an",
        "44:36: `level`: `beginer` is not one of beginner, intermediate, advanced; did you mean `beginner`?",
    ),
    "a level of another scale": (
        "level: beginner, front: Who holds the result of an",
        "level: easy, front: Who holds the result of an",
        "44:36: `level`: `easy` is not one of beginner, intermediate, advanced",
    ),
    "a flag that is no flag": (
        'right: true, shows: "10.0"',
        'right: yes, shows: "10.0"',
        "68:32: `right`: expected true or false, got `yes`",
    ),
    "an id with capitals": (
        "id: limit",
        "id: Limit_1",
        "49:10: `id`: `Limit_1` is not a name; use a-z, 0-9 and -, and start with a letter or digit",
    ),
    "an id that is taken": ("id: limit", "id: ring-bytes", "51:9: the id `ring-bytes` is already used in line 49"),
    "a back of 41 words": (
        "back: Every rank.",
        "back: word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word",
        "44:99: `back`: 41 words; at most 40 are allowed, for one fact",
    ),
    "a tag": (
        "title: All-reduce",
        "title: !!python/name:os.system All-reduce",
        "1:8: the tag `!!python/name:os.system` is not allowed; quote text that begins with !",
    ),
    "an anchor and its alias": (
        "title: All-reduce and the ring\nneeds: []\nidea: In a ring every rank sends each byte about twice, however many ranks there are.",
        "title: &t All-reduce\nneeds: []\nidea: *t",
        "1:8: `&t` and `*t` are not allowed; write the value out",
        "3:7: `&t` and `*t` are not allowed; write the value out",
    ),
    "a text that begins with *": (
        "title: All-reduce and the ring",
        "title: *bold* claim",
        "1:13: not valid YAML: did not find expected alphabetic or numeric character; text that begins with * or & must be quoted",
    ),
    "a text with a colon": (
        "title: All-reduce and the ring",
        "title: All-reduce: the ring",
        "1:18: not valid YAML: mapping values are not allowed in this context; text that contains `: ` must be quoted, or written under `|`",
    ),
    "a text that begins with a backtick": (
        "title: All-reduce and the ring",
        "title: `ring`",
        "1:8: not valid YAML: found character that cannot start any token; text that begins with one of ` @ % must be quoted",
    ),
    "a quote that is never closed": (
        "title: All-reduce and the ring",
        "title: 'ring",
        "93:67: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a text that goes on after its quote": (
        "title: All-reduce and the ring",
        'title: "ring" and more',
        "1:15: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a bracket that is never closed": (
        "needs: []",
        "needs: [a",
        "2:8: not valid YAML: did not find expected ',' or ']'; this `[` is not closed, or a text in it contains , or ] and must be quoted",
    ),
    "a line that is indented too little": (
        "  A ring has no root.",
        " A ring has no root.",
        "11:2: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a tab": ("      bytes sent: 1800", "\tbytes sent: 1800", '25:1: a tab; write spaces, or "\\t" in a quoted text'),
    "an escape character": (
        "title: All-reduce",
        "title: \x1b[31mAll-reduce",
        "1:8: a control character (U+001B); remove it",
    ),
    "an escape sequence in quotes": (
        "title: All-reduce and the ring",
        'title: "\\e[31mred"',
        "1:8: `title`: a control character (U+001B); remove it",
    ),
    "a character that turns the line around": (
        "title: All-reduce",
        "title: All\u202e-reduce",
        "1:11: a control character (U+202E); remove it",
    ),
    "two documents": (
        "explain:\n",
        "---\nexplain:\n",
        "228:1: not valid YAML: but found another document; a file holds one document; remove the line `---`",
    ),
    "a key that is a list": ("needs: []", "? [a]\n: b\nneeds: []", "2:3: a concept: a key must be text"),
    "a NUL byte": ("title: All-reduce", "title: \x00All", "1:8: a NUL byte; this is not a text file"),
    "folded code": (
        "    code: |\n      x = torch.tensor([1.0",
        "    code: >\n      x = torch.tensor([1.0",
        "197:11: `code`: `>` would join its lines; write `|`",
    ),
    "three options for four": (
        '      - {text: "3,600 bytes", shows: "3600", why: That is a tensor to each other rank. The ring sends chunks.}\n',
        "",
        "55:7: `options`: a `choice` question has four options, not 3",
    ),
    "two right options of a choice": (
        '{text: "1,200 bytes", shows',
        '{text: "1,200 bytes", right: true, shows',
        "55:7: `options`: exactly one option must be `right: true`, not 2",
    ),
    "two options alike": (
        'text: "2,400 bytes", shows',
        'text: "1,200 bytes", shows',
        "57:9: `options`: the same text appears twice",
    ),
    "a wrong option without a why": (
        ', why: That is the limit for very many ranks.}\n      - {text: "3,600',
        '}\n      - {text: "3,600',
        "57:9: missing key `why`",
    ),
    "an option that is text and code": (
        "{code: x /= world_size, right",
        "{code: x /= world_size, text: a, right",
        "91:33: `text` does not belong here: an option has either `text` or `code`",
    ),
    "choices that are all right": (
        '{text: "1.0", shows: "1.0", why: That is the sum before the division.}\n      - {text: "0.0", shows',
        '{text: "1.0", right: true, shows: "1.0", why: That is the sum before the division.}\n      - {text: "0.0", right: true, shows',
        "111:7: `options`: two or more options, but not all, must be `right: true`, not 4",
    ),
    "eight choices": (
        '      - {text: "0.0", shows: "0.0", why: That is what rank 0 brought.}\n',
        '      - {text: "0.0", shows: "0.0", why: no}\n      - {text: "0.1", shows: "0.1", why: no}\n      - {text: "0.2", shows: "0.2", why: no}\n      - {text: "0.3", shows: "0.3", why: no}\n      - {text: "0.4", shows: "0.4", why: no}\n',
        "111:7: `options`: a `choices` question has four to six options, not 8",
    ),
    "a key of another kind": (
        "    rank: 1\n    answer",
        "    rank: 1\n    unit: bytes\n    answer",
        "202:5: `unit` does not belong here: an `output` question does not have it",
    ),
    "neither proof nor source": (
        "    proof: {ranks: 2}\n  - id: what-is-w",
        "  - id: what-is-w",
        "193:5: a question needs a `proof`, or a `source` if no proof is possible here",
    ),
    "a kind that is misspelt": (
        "kind: order\n    ask: Put the steps",
        "kind: ordr\n    ask: Put the steps",
        "161:11: `kind`: `ordr` is not one of choice, choices, number, order, output; did you mean `order`?",
    ),
    "two lines to order": (
        "      - {text: all-gather, shows: gather}\n",
        "",
        "164:7: `lines`: an `order` question has three or more lines, not 2",
    ),
    "two lines alike": (
        "{text: all-gather,",
        "{text: reduce-scatter,",
        "166:9: `lines`: the same text appears twice",
    ),
    "a rank in words": (
        "    rank: 1\n    answer",
        "    rank: one\n    answer",
        "201:11: `rank`: expected a whole number from 0 to 15, got `one`",
    ),
    "a trap that is the answer": (
        '{answer: "[1.0, 0.5]", why',
        '{answer: "[2.0, 1.0]", why',
        "204:9: this trap equals the right answer",
    ),
    "an answer with an unknown name": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 2 * (k - 1) / n * s\n    unit",
        "130:13: `k` is not one of `vars`: n, s",
    ),
    "an answer that would run something": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: __import__('os').system('x')\n    unit",
        "130:13: `__import__('os').system('x')` is not allowed; an expression has numbers, names, + - * / // % ** ( ) and min max ceil floor sqrt log2 abs round",
    ),
    "an answer cut short": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 2 * (n -\n    unit",
        "130:13: `2 * (n -` is not an arithmetic expression",
    ),
    "a draw that divides by zero": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 0, 8], s: [1200, 2400]}",
        "130:13: with n = 0, s = 1200: `2 * (n - 1) / n * s` divides by zero",
    ),
    "a draw in words": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, four, 8], s: [1200, 2400]}",
        "129:19: `n`: expected a number, got `four`",
    ),
    "a draw that stands there twice": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 4], s: [1200, 2400]}",
        "129:15: `n`: a value is listed twice",
    ),
    "a draw from nothing": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [], s: [1200, 2400]}",
        "129:15: `n`: the list is empty",
    ),
    "no vars": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {}",
        "129:11: `vars`: the mapping is empty",
        "140:14: `ranks`: `n` is not one of the question's `vars`",
    ),
    "a variable called rank": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200], rank: [1]}",
        "129:11: `vars`: `rank` is in neither `ask` nor `code`, so a learner cannot know it",
        "129:43: `rank`: choose another name: it must be a Python name that is not in use",
    ),
    "a variable that nobody sees": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [3, 4, 8], s: [1200], k: [1]}",
        "129:11: `vars`: `k` is in neither `ask` nor `code`, so a learner cannot know it",
    ),
    "a placeholder with an unknown name": (
        "Each chunk has {=s / n} bytes.",
        "Each chunk of {m} has {=s / m} bytes.",
        "136:13: `hints`: `{m}` is not one of `vars`: n, s; a plain brace is `{{`",
        "136:13: `m` is not one of `vars`: n, s",
    ),
    "a single brace": (
        "Each chunk has {=s / n} bytes.",
        "Each { chunk.",
        "136:13: `hints`: a single `{`; write `{{` for a plain brace",
    ),
    "a tolerance in percent": (
        "tolerance: 0.01",
        "tolerance: 1%",
        "132:16: `tolerance`: expected a fraction such as 0.01, got `1%`",
    ),
    "an answer that nobody can type": (
        "s: [1200, 2400]}\n    answer: 2 * (n - 1) / n * s\n    unit: bytes\n    tolerance: 0.01\n",
        "s: [1000]}\n    answer: 2 * (n - 1) / n * s\n",
        "130:13: with n = 3, s = 1000: the answer is 1333.3333333333333, which a learner cannot type exactly; add a `tolerance`",
    ),
    "a trap that is right in one draw": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [2, 4, 8], s: [1200, 2400]}",
        "135:9: with n = 2, s = 1200: this trap equals the right answer; change it or the `vars`",
    ),
    "too many draws": (
        "vars: {n: [3, 4, 8], s: [1200, 2400]}",
        "vars: {n: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39], s: [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139]}",
        "129:11: `vars`: 1,520 draws; at most 1,000 are allowed, because each is checked",
    ),
    "a draw of too many ranks": (
        'ranks: "n"\n',
        "ranks: n * 4\n",
        "140:14: with n = 8, s = 1200: `ranks` is not a whole number from 1 to 16",
    ),
    "a power without end": (
        "answer: 2 * (n - 1) / n * s\n    unit",
        "answer: 9 ** 9 ** 9 * n * s\n    unit",
        "130:13: with n = 3, s = 1200: `9 ** 9 ** 9 * n * s` has a value that is too large",
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
    "long label": (
        "label: bytes sent}\n  - id: sum",
        "label: Bytes}\n  - id: sum",
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
    "code that is no Python": (
        "      dist.all_reduce(x)\n      print(x.tolist())",
        "      dist.all_reduce(x\n      print(x.tolist())",
        "199:22: `code` is not valid Python: '(' was never closed",
    ),
    "a proof that is no Python": (
        "        print(x.item() / 2)",
        "        print x.item() / 2",
        "123:9: `code` is not valid Python: Missing parentheses in call to 'print'. Did you mean print(...)?",
    ),
    "an option that is no Python": (
        "{code: x /= rank + 1, why",
        "{code: x /= rank +, why",
        "92:16: `code` is not valid Python: invalid syntax",
    ),
    "lines that are no Python": (
        "- text: x += 1",
        "- text: x += 1 +",
        "192:20: `code` is not valid Python: invalid syntax",
    ),
    "five cards": (
        "  - {id: limit, level: advanced, front: What does a rank send for very many ranks?, back: Twice the tensor., source: dist}\n",
        "",
        "44:3: `cards`: expected 6 to 10 entries, got 5",
    ),
    "one mistake": (
        "  - do: Call all_reduce on rank 0 only.\n    happens: Rank 0 waits for the others.\n    instead: Call a collective on every rank of its group.\n",
        "",
        "27:3: `mistakes`: expected 2 to 9 entries, got 1",
    ),
    "two lines to remember": (
        "  - two phases of N - 1 steps\n",
        "",
        "34:3: `remember`: expected 3 to 6 entries, got 2",
    ),
    "short lesson": (
        "A ring has no root. Each rank cuts its tensor into as many chunks as there are ranks. In the first phase, the\n  reduce-scatter, each rank sends one chunk to its neighbour and adds what it receives to its own. After N - 1 steps each\n  rank holds one finished chunk. In the second phase, the all-gather, the finished chunks go round once more.\n",
        "",
        "6:9: `lesson`: expected 120 to 1,000 words outside code blocks, got 88",
    ),
    "no demos": (
        'demos:\n  - run: ring\n    args: [--size, "1200"]\n    ranks: 4\n    predict: ring-bytes\n    look: every rank sends the same\n',
        "demos: []\n",
        "37:8: `demos`: the list is empty",
    ),
    "a prediction of no question": (
        "predict: ring-bytes",
        "predict: ring-byts",
        "41:14: `predict`: `ring-byts` is not a question of this file; did you mean `ring-bytes`?",
    ),
    "a prediction without ranks": (
        "    ranks: 4\n    predict",
        "    predict",
        "40:14: `predict`: it needs `ranks`, the number of ranks that the prediction is about",
    ),
    "a demo with too many ranks": (
        "    ranks: 4\n    predict",
        "    ranks: 99\n    predict",
        "40:12: `ranks`: expected a whole number from 1 to 16, got `99`",
    ),
    "two points": (
        "      - {say: they are combined, words: [sum, reduce]}\n",
        "",
        "248:7: `points`: expected 3 to 5 points, got 2",
    ),
    "a model answer of a few words": (
        MODEL_ANSWER,
        "      Every rank gets the sum.\n",
        "243:13: `answer`: expected 40 to 120 words, got 5",
    ),
    "a prompt without a model answer": (
        f"    answer: >\n{MODEL_ANSWER}",
        "",
        "240:5: missing key `answer`",
    ),
    "a need that is not there": (
        "needs: []",
        "needs: [rong]",
        "2:9: `needs`: there is no concept `rong`; did you mean `ring`?",
    ),
    "a need of itself": ("needs: []", "needs: [ring]", "2:9: `needs`: `ring` needs itself"),
    "a source that is not there": (
        "source: dist}\nquestions",
        "source: dst}\nquestions",
        "49:118: there is no source `dst` in sources.yaml; did you mean `dist`?",
    ),
    "a demo that is not there": (
        "  - run: ring\n",
        "  - run: rings\n",
        "38:10: there is no demo `rings` in demos/; did you mean `ring`?",
    ),
    "a flag that the demo does not take": (
        '    args: [--size, "1200"]\n    ranks: 4\n',
        "    args: [--sise=3, -v]\n    ranks: 4\n",
        "39:11: `args`: the demo `ring` has no `--sise`; did you mean `--size`?",
    ),
    "a label that the demo does not print": (
        "label: bytes sent}\n  - id: sum",
        "label: bytes got}\n  - id: sum",
        "62:66: `label`: the demo `ring` does not print `bytes got`",
    ),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of the content that fits, in the working directory."""
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "content" / "collectives" / "ring.yaml"


def complaints(folder=Path("content")):
    found = survey(folder, thorough=True).complaints
    return [str(complaint).removeprefix("content/collectives/ring.yaml:") for complaint in found]


def read(text):
    return concept_of(YamlFile("ring.yaml", text.encode(), thorough=True), "ring", "collectives")


def test_what_fits_is_accepted_without_a_complaint(place):
    assert complaints() == []


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_named_with_its_place(place, name):
    old, new, *expected = CASES[name]
    assert VALID.count(old) >= 1
    place.write_text(VALID.replace(old, new, 1), "utf-8")
    assert complaints() == expected


def test_every_level_is_needed(place):
    place.write_text(VALID.replace("level: easy", "level: medium"), "utf-8")
    assert complaints() == ["51:3: `questions`: no question is easy; a concept needs all three levels"]


def test_four_kinds_are_needed(place):
    text = VALID.replace("level: easy\n    kind: choices", "level: easy\n    kind: chioces")
    place.write_text(re.sub(r"    kind: (number|order)\n", "    kind: output\n", text), "utf-8")
    assert "51:3: `questions`: only 2 kinds (choice, output); a concept needs at least 4" in complaints()


def test_all_complaints_come_at_once_in_the_order_of_the_file(place):
    text = VALID
    for name in (
        "a key that is misspelt",
        "a level that is misspelt",
        "two options alike",
        "a trap that is right in one draw",
        "code that is no Python",
        "two points",
        "a source that is not there",
    ):
        text = text.replace(*CASES[name][:2], 1)
    place.write_text(text, "utf-8")
    assert [complaint.split(":")[0] for complaint in complaints()] == ["3", "44", "49", "57", "135", "199", "248"]


def test_a_quick_reading_leaves_out_what_takes_long(place):
    text = VALID
    for name in (
        "a trap that is right in one draw",
        "code that is no Python",
        "a flag that the demo does not take",
        "a label that the demo does not print",
    ):
        text = text.replace(*CASES[name][:2], 1)
    place.write_text(text, "utf-8")
    assert survey(Path("content")).complaints == ()
    assert len(complaints()) == 4


def test_scalars_stay_the_texts_that_they_are():
    text = VALID.replace("{say: they are combined, words: [sum, reduce]}", "{say: no, words: [yes, 1.0, 2024-01-01]}")
    point = read(text).concept.explain[1].points[1]
    assert (point.say, point.words) == ("no", ("yes", "1.0", "2024-01-01"))


def test_a_concept_is_read_whole():
    concept = read_concept(RING, thorough=True).concept
    assert (concept.id, concept.track, concept.title) == ("ring", "collectives", "All-reduce and the ring")
    assert concept.commands[0].flags == {"--nproc-per-node": "ranks to start on this machine"}
    assert concept.commands[0].prints == "bytes sent: 1800"
    assert concept.mistakes[1].instead == "Call a collective on every rank of its group."
    assert (concept.demos[0].args, concept.demos[0].ranks) == (("--size", "1200"), 4)
    assert concept.cards[5].key == "ring/limit"
    assert concept.cards[5].level is CardLevel.ADVANCED
    assert concept.explain[0].points[1].words == ("every link", "all links")
    assert len(concept.items()) == 6 + 10 + 2


def test_questions_of_every_kind_are_read_with_their_proofs():
    questions = {question.id: question for question in read_concept(RING).concept.questions}
    ring, mean = questions["ring-bytes"], questions["mean-of-ranks"]
    assert (ring.kind, ring.level, ring.options[0].right) == (Kind.CHOICE, Level.MEDIUM, True)
    assert ring.proof == DemoProof("4", "ring", "bytes sent", ("--size", "1200"))
    assert questions["sum-of-ranks"].options[3].shows.by_rank == {0: "10.0", 1: "2.0", 2: "3.0", 3: "4.0"}
    assert (mean.options[0].code, mean.proof.shows) == (True, Shows(everywhere="0.5"))
    number = questions["bytes-of-a-ring"]
    assert [(variable.name, variable.values) for variable in number.variables] == [
        ("n", ("3", "4", "8")),
        ("s", ("1200", "2400")),
    ]
    assert (number.answer, number.unit, number.tolerance) == ("2 * (n - 1) / n * s", "bytes", 0.01)
    assert [line.shows for line in questions["order-of-a-ring"].lines] == ["cut", "scatter", "gather"]
    output = questions["what-is-printed"]
    assert (output.rank, output.answer, output.proof) == (1, "[2.0, 1.0]", CodeProof("2"))
    wait = questions["what-is-waited-for"]
    assert [option.shows for option in wait.options] == [
        Shows(hangs=True),
        Shows(raises="RuntimeError"),
        Shows(by_rank={0: "1.0"}),
        Shows(everywhere="2.0"),
    ]
    assert wait.source == "dist"


def test_a_list_without_end_is_refused_and_not_looked_at(place):
    place.write_text(VALID.replace("words: [root, bottleneck]", f"words: [{'a, ' * 201}]"), "utf-8")
    assert complaints() == ["237:52: `words`: 201 entries; 200 at most"]


def test_of_very_many_unknown_keys_only_the_first_are_compared_with_known_ones(monkeypatch):
    compared = []
    real = difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches", lambda *words: compared.append(1) or real(*words))
    text = "".join(f"key{number}: x\n" for number in range(60_000)) + "title: A title\n"
    page = YamlFile("many.yaml", text.encode())
    assert concept_of(page, "many", "track").concept is None
    assert len(compared) < 100
    found = [complaint.text for complaint in page.complaints if "unknown" in complaint.text]
    assert found[:2] == ["unknown key `key0`", "unknown key `key1`"]
    assert (len(found), found[-1]) == (21, "59,980 more unknown keys")


def test_a_code_block_that_is_never_closed_is_found(place):
    place.write_text(VALID.replace("rank 0\n  ```", "rank 0\n"), "utf-8")
    assert "6:9: `lesson`: a code block is never closed" in complaints()


FILES = {
    "empty": (b"", "1:1: the file is empty"),
    "only a comment": (b"# nothing\n", "1:1: the file is empty"),
    "a text": (b"hello\n", "1:1: a concept: expected a mapping, got text"),
    "a list": (b"- a\n", "1:1: a concept: expected a mapping, got a list"),
    "not UTF-8": (b"title: ring\nidea: na\xefve\n", "2:9: byte 20 is 0xef, which is not UTF-8; save the file as UTF-8"),
    "UTF-16": ("title: a".encode("utf-16"), "1:1: byte 0 is 0xff, which is not UTF-8; save the file as UTF-8"),
    "UTF-16 without a mark": ("title: a".encode("utf-16-le"), "1:2: a NUL byte; this is not a text file"),
    "a program": (b"\x7fELF\x02\x01", "1:1: a control character (U+007F); remove it"),
    "deep lists": (b"a: " + b"[" * 200_000, "1:33: nested more than 30 deep"),
    "deep dashes": (b"- " * 200_000, "1:61: nested more than 30 deep"),
    "laughs": (b"a: &a [x]\nb: [*a, *a]\n", "1:4: `&a` and `*a` are not allowed; write the value out"),
    "too large": (b"#" * (LARGEST + 1), "1:1: larger than 1,000,000 bytes; split it"),
    "a bad alias": (b"a: *b\n", "1:4: not valid YAML: found undefined alias; text that begins with * must be quoted"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_content_is_refused_with_one_line(place, name):
    data, expected = FILES[name]
    place.write_bytes(data)
    assert complaints()[0] == expected


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(place):
    place.write_bytes(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode())
    assert complaints() == []
    assert read_concept(place).concept == read_concept(RING).concept


def test_a_missing_file_is_one_line():
    assert complaints(Path("nowhere.yaml")) == ["nowhere.yaml:1:1: there is no such file or folder"]


def test_a_path_that_is_too_long_is_one_line():
    assert complaints(Path("a" * 300)) == [f"{'a' * 300}:1:1: cannot be read: file name too long"]


def test_a_label_may_be_filled_in_by_the_demo(place):
    demo = Path("demos/ring.py")
    demo.write_text(demo.read_text() + 'for way in ("ring", "root"):\n    print(f"bytes ({way}): {size}")\n')
    text = place.read_text().replace("label: bytes sent}\n  - id: sum", "label: bytes (ring)}\n  - id: sum")
    place.write_text(text)
    assert complaints() == []
    place.write_text(text.replace("label: bytes (ring)", "label: steps (ring)"))
    assert complaints() == ["62:66: `label`: the demo `ring` does not print `steps (ring)`"]


def test_a_folder_in_the_place_of_a_file_is_one_line(place):
    place.unlink()
    place.mkdir()
    assert complaints() == ["1:1: this is a folder, not a file"]


def test_a_loop_of_symbolic_links_is_one_line(place):
    place.unlink()
    place.symlink_to(place)
    assert complaints() == ["1:1: cannot be read: too many levels of symbolic links"]


def test_a_pipe_is_not_waited_for(place):
    place.unlink()
    os.mkfifo(place)
    assert complaints() == ["1:1: cannot be read: not a regular file"]


def test_a_name_with_a_nul_is_one_line():
    assert complaints(Path("a\0b.yaml")) == ["a\ufffdb.yaml:1:1: cannot be read: embedded null byte"]


def test_a_file_that_may_not_be_read_is_one_line(place, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert complaints()[0] == "1:1: you have no permission to read this file"


def test_a_bad_file_name_is_refused(place):
    place.rename(place.with_name("Ring.yaml"))
    assert "content/collectives/Ring.yaml:1:1: the file name `Ring` must consist of a-z, 0-9 and -" in complaints()


def test_escapes_in_a_key_do_not_reach_the_terminal(place):
    place.write_text('"\\e[31m": x\n' + VALID, "utf-8")
    assert complaints() == ["1:1: unknown key `\ufffd[31m`"]


def test_tracks_and_sources_are_read_with_their_complaints():
    page = YamlFile("tracks.yaml", b"Data: {title: a, concepts: [x]}\nb: {concept: [y]}\nb: {}\n")
    assert [track.id for track in read_tracks(page)] == ["Data", "b"]
    assert [str(complaint) for complaint in page.complaints] == [
        "tracks.yaml:3:1: repeated key `b`; it was first used in line 2",
        "tracks.yaml:1:7: the track `Data` must consist of a-z, 0-9 and -",
        "tracks.yaml:2:5: unknown key `concept`; did you mean `concepts`?",
        "tracks.yaml:2:4: missing key `title`",
    ]
    page = YamlFile("sources.yaml", b"dist: {title: a, year: 2024}\nli 2: {title: b}\nx: {authors: b, yaer: c}\n")
    assert read_sources(page)["dist"].year == "2024"
    assert [str(complaint) for complaint in page.complaints] == [
        "sources.yaml:2:7: the key `li 2` must consist of letters, digits and . _ -",
        "sources.yaml:3:17: unknown key `yaer`; did you mean `year`?",
        "sources.yaml:3:4: missing key `title`",
    ]


def reads_without_a_traceback(data):
    reading = concept_of(YamlFile("x.yaml", data, thorough=True), "x", "t")
    assert (reading.concept is None) == bool(reading.page.complaints)
    for complaint in reading.page.complaints:
        assert complaint.line >= 1
        assert complaint.column >= 1
        assert "\n" not in str(complaint)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(st.binary(max_size=300))
def test_random_bytes_never_raise(data):
    reads_without_a_traceback(data)


@FUZZ
@given(st.text(alphabet="ab:-?[]{}&*!|>'\"%@`#, \n\\<=1", max_size=80))
def test_random_yaml_never_raises(text):
    reads_without_a_traceback(text.encode())


PIECES = (
    "",
    " ",
    "\n",
    "[]",
    "{}",
    "- ",
    "a: b\n",
    "'",
    '"',
    "{n}",
    "{{",
    "<option>",
    "0",
    "&a ",
    "*a",
    "!x ",
    "|",
    "\0",
)


@FUZZ
@given(st.integers(0, len(VALID)), st.integers(0, 60), st.sampled_from(PIECES) | st.text(max_size=5))
def test_a_file_with_a_hole_or_a_scrap_never_raises(at, length, scrap):
    reads_without_a_traceback((VALID[:at] + scrap + VALID[at + length :]).encode("utf-8", "replace"))


@FUZZ
@given(st.data())
def test_a_file_with_any_value_exchanged_never_raises(data):
    values = [found.span(1) for found in re.finditer(r"(?:[\w]+: |- )([^\n{|]+)$", VALID, re.MULTILINE)]
    start, end = data.draw(st.sampled_from(values))
    value = data.draw(
        st.sampled_from(["", "[]", "{}", "[a]", "{a: b}", "{0: a}", "x", "0", "-1", "1e999", "no", "n", "{n"])
    )
    reads_without_a_traceback((VALID[:start] + value + VALID[end:]).encode())
