"""The program of the learner's choice that ticks the points of an explanation beforehand."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from ddpquiz.curriculum.concept import Prompt
    from ddpquiz.learning.explain import Opinion

_PATIENCE = 120.0  # seconds
_MOST = 2000  # characters of a remark


def ask(command: str, prompt: Prompt, text: str) -> Opinion:
    """Run a command that reads question, points and text as JSON and prints its opinion; UserError when it fails."""
    from ddpquiz.learning.explain import Opinion

    points = [point.say for point in prompt.points]
    question = json.dumps({"question": prompt.ask, "points": points, "text": text}, ensure_ascii=False)
    if sys.stderr.isatty():
        print("Waiting for the judge; ctrl+c goes on without it.", file=sys.stderr)
    try:
        words = shlex.split(command)
        done = subprocess.run(words, input=question.encode(), capture_output=True, timeout=_PATIENCE, check=False)
        answer = json.loads(done.stdout)
        made, remark = answer["points"], answer.get("say", "")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise _failed(command, "did not print the JSON that `ddpquiz explain --help` describes") from None
    except subprocess.TimeoutExpired:
        raise _failed(command, f"did not answer within {_PATIENCE:.0f} s") from None
    if (
        not isinstance(remark, str)
        or not isinstance(made, list)
        or [type(each) for each in made] != [bool] * len(points)
    ):
        raise _failed(command, f"must print {len(points)} times true or false as `points`, and a text as `say`")
    return Opinion(tuple(made), remark[:_MOST])


def _failed(command: str, what: str) -> UserError:
    return UserError(f"The judge `{command}` {what}; the points are ticked by their words instead.")
