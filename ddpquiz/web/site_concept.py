"""The page of a concept as HTML: lesson with its cards, commands, mistakes, demos, questions, labs, and its neighbors.

The answers are in the page, hidden until the learner asks or answers. `concept_data` is what the page's script needs
to judge them.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname, relpath
from typing import Any

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import (
    Card,
    CodeProof,
    Command,
    Concept,
    DemoLink,
    DemoProof,
    Kind,
    LessonStep,
    Mistake,
    Prompt,
    Question,
    Shows,
)
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.listing import marked_change
from ddpquiz.curriculum.posed_question import Posed, expected
from ddpquiz.curriculum.question_code import choosable_lines, fault_line, has_option_line, script_lines, with_option
from ddpquiz.curriculum.search import meaning
from ddpquiz.learning.answers import linked_cards
from ddpquiz.learning.judge import HOW, chance
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.pages.item import ranks_of, sample
from ddpquiz.terminal.pages.lesson import demo_command
from ddpquiz.terminal.pages.lesson_steps import names_itself, said_of
from ddpquiz.web.rendered_text import lesson_parts, listing, paragraph, spans
from ddpquiz.web.site_markup import Markup, element, joined

_WORD = re.compile(r"\w{4,}")


def concept_html(
    concept: Concept, known: Catalog, recorded: Collection[str], labs: Sequence[Lab], pictures: Mapping[str, str]
) -> Markup:
    """The body of a page; `recorded` are the demos whose runs have a page, `labs` those of this concept.

    `pictures` are the shipped ones as SVG, by their names.
    """
    asked = {step.ask for step in concept.steps}
    posed = [sample(question) for question in concept.questions if question.id not in asked]
    inside = sum(question.id in asked for question in concept.questions)  # of the lesson, and numbered first
    drawn = {name: element("figure", Markup(svg), class_="picture") for name, svg in pictures.items()}
    lesson = _steps(concept, known, recorded, drawn) if concept.in_steps else _lesson(concept, known, drawn)
    questions = (_question_html(each, number, known) for number, each in enumerate(posed, inside + 1))
    sections = {
        "why": ("Why", joined(*_markdown(concept.why))),
        "lesson": ("Lesson", joined(*lesson)),
        "commands": ("Commands", joined(*map(_command, concept.commands))),
        "mistakes": ("Mistakes", joined(*map(_mistake, concept.mistakes))),
        "remember": ("Remember", _listed(concept.remember)),
        "demos": ("See it run", joined(*(_demo(concept, link, recorded) for link in concept.demos))),
        "questions": ("Questions", joined(*questions)),
        "labs": ("Build it", joined(*map(_lab_html, labs))),
        "explain": ("Explain in your own words", joined(*map(_prompt_html, concept.explain))),
    }
    return joined(
        _places(concept, known),
        element("h1", concept.title),
        paragraph(concept.idea, class_="prose idea"),
        sections_with_links(sections),
        _next(concept, known),
    )


def concept_data(concept: Concept) -> dict[str, Any]:
    """The data of a page: its questions by their key."""
    return {question.key: question_data(sample(question), concept.cards) for question in concept.questions}


def _places(concept: Concept, known: Catalog) -> Markup:
    track = next((each.title for each in known.tracks if each.id == concept.track), concept.track)
    links = (
        element("a", "All concepts", href=_from(concept, "index.html")),
        element("a", "Search", href=_from(concept, "index.html#search")),
        element("a", "Progress", href=_from(concept, "index.html#progress")),
    )
    return element("nav", element("p", joined(*(joined(link, " · ") for link in links)), track), aria_label="Site")


_Pictures = Mapping[str, Markup]  # by their names; a text stays without one that is not here


def _steps(concept: Concept, known: Catalog, recorded: Collection[str], pictures: _Pictures) -> list[Markup]:
    """The steps of the lesson, each with its question; each card follows the step with which it shares most words."""
    asked_as_cards = {step.ask for step in concept.steps}
    cards = [card for card in concept.cards if card.id not in asked_as_cards]
    texts = [f"{step.text}\n{step.then}" for step in concept.steps]
    after: dict[int, list[Card]] = {}
    for card, place in zip(cards, card_places([*texts, concept.more], cards), strict=True):
        after.setdefault(place, []).append(card)
    shown, questions = list[Markup](), 0
    for place, step in enumerate(concept.steps):
        asked = concept.asked_in(step)
        questions += isinstance(asked, Question)
        item = _asked_html(asked, questions, known) if asked else Markup()
        title = element("h3", f"Step {place + 1}", id=f"step-{place + 1}")
        step_cards = (_card_html(card, known) for card in after.get(place, ()))
        parts = _step_html(concept, step, item, recorded, pictures)
        shown.append(element("section", title, *parts, *step_cards, class_="step"))
    more = [
        *_markdown(concept.more, pictures.get(concept.picture)),
        *(_card_html(card, known) for card in after.get(len(texts), ())),
    ]
    return [*shown, *([_folded("More", *more)] if more else [])]


def _asked_html(asked: Card | Question, number: int, known: Catalog) -> Markup:
    """A card or a question that a step asks."""
    return _card_html(asked, known) if isinstance(asked, Card) else _question_html(sample(asked), number, known)


def _step_html(
    concept: Concept, step: LessonStep, asked: Markup, recorded: Collection[str], pictures: _Pictures
) -> list[Markup]:
    """A step: its text, listing and what it asks, what the listing and the demo show, and what that means."""
    code = [listing(step.listing.code)] if step.listing else []
    parts = [*_markdown(step.text, pictures.get(step.picture)), *code, asked]
    if step.listing:
        parts += _output_html(step.listing.shows, step.listing.ranks)
    if step.demo:
        parts.append(_demo(concept, step.demo, recorded))
    parts += _markdown(step.then)
    if step.listing and (change := step.listing.change):
        parts.append(listing("\n".join(f"{mark} {line}" for mark, line in marked_change(change.line, change.to))))
        parts += [*_output_html(change.shows, step.listing.ranks), *_markdown(change.then)]
    return parts


def _output_html(shows: Shows, ranks: int) -> list[Markup]:
    """What the ranks of a listing print, and how they end if not well; a rank that names itself is not named again."""
    printed, ended = said_of(shows, ranks)
    named = names_itself(printed)
    lines = (text if named and text else f"rank {rank}  {text or 'prints nothing'}" for rank, text in printed.items())
    return [listing("\n".join(lines), output=True), *([paragraph(ended)] if ended else [])]


def _lesson(concept: Concept, known: Catalog, pictures: _Pictures) -> list[Markup]:
    """A lesson in one text; each card follows the part with which it shares most words."""
    parts = lesson_parts(concept.lesson, pictures.get(concept.steps[0].picture))
    after: dict[int, list[Card]] = {}
    for card, place in zip(concept.cards, card_places([text for text, _ in parts], concept.cards), strict=True):
        after.setdefault(place, []).append(card)
    return [
        joined(html, *(_card_html(card, known) for card in after.get(place, ())))
        for place, (_, html) in enumerate(parts)
    ]


def card_places(texts: Sequence[str], cards: Sequence[Card]) -> list[int]:
    """For each card the place of the text that shares most words with it; rare words count more."""
    words = [_meanings(text) for text in texts]
    counts = Counter(word for of_text in words for word in of_text)

    def weight(wanted: set[str], place: int) -> float:
        return sum(math.log((len(words) + 1) / counts[word]) for word in wanted & words[place])

    places = []
    for card in cards:
        wanted = _meanings(f"{card.front} {card.back}")
        weights = [weight(wanted, place) for place in range(len(words))]
        best = max(weights)
        places.append(weights.index(best) if best else len(words) - 1)
    return places


def _meanings(text: str) -> set[str]:
    return {meaning(word) for word in _WORD.findall(text.lower())}


def _listed(texts: Sequence[str]) -> Markup:
    return element("ul", *(element("li", spans(text), class_="prose") for text in texts)) if texts else Markup()


def _command(command: Command) -> Markup:
    flags = joined(
        *(
            joined(element("dt", element("code", flag)), element("dd", spans(does)))
            for flag, does in command.flags.items()
        )
    )
    return joined(
        listing(f"$ {command.run}"),
        paragraph(command.does),
        element("dl", flags) if flags else Markup(),
        listing(command.prints, output=True) if command.prints else Markup(),
    )


def _mistake(mistake: Mistake) -> Markup:
    rows = (("wrong", mistake.do), ("then", mistake.happens), ("instead", mistake.instead))
    return element(
        "dl",
        *(joined(element("dt", name, class_=name), element("dd", spans(text), class_="prose")) for name, text in rows),
        class_="mistake",
    )


def _demo(concept: Concept, link: DemoLink, recorded: Collection[str]) -> Markup:
    parts: list[str] = [listing(demo_command(link)), paragraph(f"Look at {link.look}")]
    if link.run in recorded:
        run = element("a", f"a recorded run of {link.run}", href=_from(concept, run_address(link.run)))
        parts.append(element("p", "Play ", run, " in the browser."))
    return joined(*parts)


def _next(concept: Concept, known: Catalog) -> Markup:
    rows = [
        *(("Read before", known.concept(need)) for need in concept.needs),
        *(("Builds on this", other) for other in known.concepts if concept.id in other.needs),
    ]
    links = (
        element("li", f"{word}: ", element("a", other.title, href=_from(concept, concept_path(other))))
        for word, other in rows
    )
    title = element("h2", "Before and after", id="next-title")
    return element("nav", title, element("ul", *links), aria_labelledby="next-title") if rows else Markup()


# Cards, questions and prompts

_GRADES = ("again", "hard", "good", "easy")


def _card_html(card: Card, known: Catalog) -> Markup:
    """A card, folded; it is graded where it stands."""
    buttons = (element("button", name, type="button", data_grade=grade) for grade, name in enumerate(_GRADES, 1))
    shown = _link(f"#question-{card.proof}", "a question below")
    proof = element("p", "The proof of ", shown, " shows this.", class_="source") if card.proof else Markup()
    return element(
        "details",
        element("summary", element("span", f"card · {card.level}", class_="kind"), " ", spans(card.front)),
        paragraph(card.back),
        element("p", "How well did you recall it?", class_="quiet"),
        element("div", *buttons, class_="grades", role="group", aria_label="How well did you recall it?"),
        element("p", role="status", class_="state"),
        _source_html(card.source, known),
        proof,
        class_="card", id=f"card-{card.id}", data_card=card.key,
    )  # fmt: skip


def _question_html(posed: Posed, number: int, known: Catalog) -> Markup:
    """A question with a form to answer it and, hidden, why wrong answers are wrong and the solution."""
    asked = posed.question
    hints = (paragraph(hint, class_="prose hint", hidden=True) for hint in asked.hints)
    buttons = [element("button", "Answer", type="submit")]
    if asked.hints:
        buttons.append(element("button", "Hint", type="button", data_does="hint"))
    buttons.append(element("button", "Solution", type="button", data_does="solution"))
    form = element(
        "form",
        _field(posed),
        element("div", *buttons, class_="buttons"),
        *hints,
        element("p", role="status", class_="state"),
        *(paragraph(trap.why, class_="prose why", hidden=True) for trap in asked.traps if asked.kind is not Kind.SPOT),
        autocomplete="off",
    )
    title = element("h3", f"Question {number} ", element("span", f"{asked.level} · {asked.kind}", class_="kind"))
    code = listing(asked.code) if asked.code and asked.kind is not Kind.SPOT else Markup()
    return element(
        "section", title, paragraph(asked.ask), code, form, _solution(posed, known),
        class_="question", id=f"question-{asked.id}", data_question=asked.key,
    )  # fmt: skip


def question_data(posed: Posed, cards: Sequence[Card]) -> dict[str, Any]:
    """What the page needs to judge an answer and to write it to the log."""
    asked = posed.question
    texts, right = _to_choose(posed)
    return {
        "kind": Kind.CHOICE if asked.kind is Kind.SPOT else asked.kind,  # one line of many is chosen
        "level": asked.level,
        "chance": chance(asked),
        "answer": float(posed.numbers[0]) if posed.numbers else asked.answer,
        "unit": asked.unit,
        "tolerance": asked.tolerance,
        "traps": [*map(float, posed.numbers[1:])] if posed.numbers else [trap.answer for trap in asked.traps],
        "shown": texts,
        "right": right,
        "places": [*posed.shown],
        "values": ", ".join(f"{name}={value}" for name, value in posed.values.items()),
        "cards": [card.key for card in linked_cards(asked, cards)],
    }


def _to_choose(posed: Posed) -> tuple[list[str], list[bool]]:
    """What a learner chooses from, in the order shown, and for each of it whether it is right."""
    asked = posed.question
    if asked.kind is Kind.SPOT:
        lines = script_lines(asked)
        return [plain(lines[at].strip()) for at in choosable_lines(asked)], [
            at == fault_line(asked) for at in choosable_lines(asked)
        ]
    texts = [plain((asked.options or asked.lines)[place].text) for place in posed.shown]
    return texts, [asked.options[place].right for place in posed.shown] if asked.options else []


def _prompt_html(prompt: Prompt) -> Markup:
    """Something to explain, with its hint and its model answer folded."""
    points = element("ul", *(element("li", spans(point)) for point in prompt.points))
    return element(
        "section",
        paragraph(prompt.ask),
        element("details", element("summary", "Hint"), paragraph(prompt.hint)),
        element(
            "details",
            element("summary", "A model answer"),
            paragraph(prompt.answer),
            element("p", "A good answer makes these points:"),
            points,
        ),
        class_="prompt", id=f"explain-{prompt.id}",
    )  # fmt: skip


def _source_html(key: str, known: Catalog) -> Markup:
    """The source of an item as a line with a link; nothing if it has none."""
    source = known.sources.get(key)
    if source is None:
        return Markup()
    text = source.line
    shown = _link(source.address, text) if source.address.startswith(("https://", "http://")) else text
    return element("p", "Source: ", shown, class_="source")


def _link(address: str, text: str) -> Markup:
    return element("a", text, href=address, rel=None if address.startswith("#") else "noreferrer")


def _field(posed: Posed) -> Markup:
    """The part of a form in which the answer is given."""
    asked, name = posed.question, f"answer-{posed.question.id}"
    how = HOW[asked.kind]  # there is a row for each line
    if asked.kind in (Kind.CHOICE, Kind.CHOICES):
        options = (_option(posed, place, name) for place in range(len(posed.shown)))
        return element("fieldset", element("legend", how), *options)
    if asked.kind is Kind.SPOT:
        return element("fieldset", element("legend", how), *_script(posed, name))
    listed: str = Markup()
    if asked.kind is Kind.ORDER:
        listed = element("ol", *(element("li", listing(asked.lines[place].text)) for place in posed.shown))
    label = element("label", how, for_=name)
    if asked.kind is Kind.OUTPUT:
        field = element("textarea", id=name, name="answer", rows=asked.answer.count("\n") + 1, spellcheck="false")
    else:
        field = element("input", id=name, name="answer", type="text", spellcheck="false")
    return joined(listed, element("p", label, " ", field, " ", element("span", asked.unit)))


def _script(posed: Posed, name: str) -> list[Markup]:
    """The lines of a script; those that can be at fault have a button, and the belief behind a wrong one."""
    asked, rows = posed.question, list[Markup]()
    places = {at: number for number, at in enumerate(choosable_lines(asked))}
    beliefs = {trap.answer.strip(): trap.why for trap in asked.traps}
    for at, line in enumerate(script_lines(asked)):
        code = element("code", f"{at + 1:2} {line}")
        if at not in places:
            rows.append(element("div", code, class_="option line"))
            continue
        box = element("input", type="radio", name=name, value=places[at])
        belief = beliefs.get(line.strip())
        why = paragraph(belief, class_="prose why", hidden=True, data_place=places[at]) if belief else Markup()
        rows.append(element("div", element("label", box, " ", code), why, class_="option line"))
    return rows


def _option(posed: Posed, place: int, name: str) -> Markup:
    asked = posed.question
    option = asked.options[posed.shown[place]]
    kind = "radio" if asked.kind is Kind.CHOICE else "checkbox"
    box = element("input", type=kind, name=name, value=place)
    text = element("code", option.text) if option.code else element("span", spans(option.text), class_="prose")
    why = paragraph(option.why, class_="prose why", hidden=True, data_place=place) if option.why else Markup()
    return element("div", element("label", box, " ", text), why, class_="option")


def _solution(posed: Posed, known: Catalog) -> Markup:
    asked = posed.question
    parts: list[str] = [element("h4", "Solution"), _right(posed)]
    if asked.steps:
        parts.append(element("ol", *(element("li", spans(step), class_="prose") for step in asked.steps)))
    if asked.check:
        parts += [element("p", "Cross-check: ", spans(asked.check), class_="prose")]
    parts.append(_source_html(asked.source, known))
    if proof := proof_text(posed):
        inside: list[str] = [paragraph(proof.what)]
        inside += [listing(proof.code)] if proof.code else []
        inside += [element("p", "It must print:"), listing(proof.expected, output=True)] if proof.expected else []
        inside += [paragraph(proof.ends)] if proof.ends else []
        inside.append(element("p", "Run it: ", element("code", f"ddpquiz prove {asked.key}")))
        parts.append(element("details", element("summary", "Proof"), *inside))
    return element("div", *parts, class_="solution", hidden=True)


def _right(posed: Posed) -> Markup:
    """The right answer; options and lines by their text, because their numbers say little."""
    asked = posed.question
    if asked.options:
        texts = (option.text for option in asked.options if option.right)
        return element("ul", *(element("li", spans(text), class_="prose") for text in texts))
    if asked.lines:
        order = element("p", f"The right order is {expected(posed)}:")
        return joined(order, listing("\n".join(line.text for line in asked.lines)))
    if asked.kind is Kind.SPOT:
        return joined(listing(expected(posed)), element("p", "Fixed:"), listing(asked.fix))
    return listing(expected(posed))


# The proof of an answer: the code that ranks run with the right answer in it, and what they must print


@dataclass(frozen=True, slots=True)
class _ProofText:
    """A proof: what runs, its code if it is not a demo, and the expected output or ""; `ends` says how it ends."""

    what: str
    code: str = ""
    expected: str = ""
    ends: str = ""


def proof_text(posed: Posed) -> _ProofText | None:
    """The proof of a posed question; None if it has none."""
    question, proof = posed.question, posed.question.proof
    if proof is None:
        return None
    ranks = ranks_of(proof)
    if isinstance(proof, DemoProof):
        words = " ".join((proof.demo, *proof.args))
        return _ProofText(f"The demo {words} prints `{proof.label}` on {ranks}.", expected=_expected(question)[0])
    code = proof.code or question.code
    if has_option_line(code):
        code = with_option(code, _right_code(question))
    values = "".join(f"{name} = {value}\n" for name, value in posed.values.items())
    if question.kind is Kind.SPOT:
        ranks += ", as it is and with the line fixed"
    return _ProofText(f"This code runs on {ranks}.", values + code, *_expected(question))


def _right_code(question: Question) -> str:
    if question.kind is Kind.SPOT:
        return question.code
    if question.kind is Kind.ORDER:
        return "\n".join(line.text for line in question.lines)
    return next(option.text.strip().strip("`") for option in question.options if option.right)


def _expected(question: Question) -> tuple[str, str]:
    """What ranks must print, and a sentence for ranks that do not end well."""
    if isinstance(question.proof, CodeProof) and question.proof.shows:
        return _of_shows(question.proof.shows)
    match question.kind:
        case Kind.NUMBER:
            return question.answer, ""
        case Kind.OUTPUT:
            return (question.answer if question.rank is None else f"rank {question.rank}: {question.answer}"), ""
        case Kind.ORDER:
            return "\n".join(line.shows for line in question.lines if line.shows), ""
        case _:
            every = [_of_shows(option.shows) for option in question.options if option.right and option.shows]
            return "\n".join(text for text, _ in every if text), " ".join(ends for _, ends in every if ends)


def _of_shows(shows: Shows) -> tuple[str, str]:
    if shows.hangs:
        return "", "The ranks wait, and no call ends."
    if shows.raises is not None:
        return shows.raises, ""
    if shows.by_rank is not None:
        return "\n".join(f"rank {rank}: {text}" for rank, text in shows.by_rank.items()), ""
    return shows.everywhere or "", ""


# Labs


def _lab_html(lab: Lab) -> Markup:
    """A lab with its task; the check runs in the terminal."""
    title = element("h3", f"{lab.title} ", element("span", f"{lab.minutes} minutes", class_="kind"))
    run = element("p", "Write it in the terminal, where each save is checked on real ranks:")
    return element(
        "section",
        title,
        *_markdown(lab.task),
        run,
        listing(f"$ ddpquiz lab {lab.id}"),
        _folded(f"{lab.file_name}, the file to begin with", listing(lab.solution.starter)),
        *(_folded(f"Hint {number}", *_markdown(hint)) for number, hint in enumerate(lab.hints, 1)),
        id=f"lab-{lab.id}",
    )


def labs_list(labs: Sequence[Lab]) -> Markup:
    """The list of the first page that leads to each lab."""
    rows = (
        element(
            "li",
            element("a", lab.title, href=lab_address(lab)),
            element("span", f"\N{NO-BREAK SPACE}{lab.minutes}\N{NO-BREAK SPACE}min", class_="kind"),
        )
        for lab in labs
    )
    count = element(
        "p", f"{plural(len(labs), 'program')} to write or to repair, checked on real ranks in the terminal."
    )
    return joined(count, element("ul", *rows, class_="columns"))


def lab_address(lab: Lab) -> str:
    """Where the first page finds a lab."""
    return f"concepts/{lab.concept}.html#lab-{lab.id}"


def _markdown(text: str, picture: Markup | None = None) -> list[Markup]:
    return [html for _, html in lesson_parts(text, picture)] if text else []


def _folded(title: str, *inside: Markup) -> Markup:
    return element("details", element("summary", title), joined(*inside), class_="fold")


# Links within the site


def sections_with_links(sections: Mapping[str, tuple[str, Markup]]) -> Markup:
    """The sections of a page by their ids, each with title and content, after links to them; skip empty ones."""
    present = {name: section for name, section in sections.items() if section[1]}
    links = (joined(" · " if at else "", _anchor(name, present[name][0])) for at, name in enumerate(present))
    return joined(
        element("nav", element("p", "On this page: ", *links), aria_label="On this page"),
        *(
            element("section", element("h2", title, id=f"{name}-title"), inside, id=name)
            for name, (title, inside) in present.items()
        ),
    )


def _anchor(name: str, title: str) -> Markup:
    return element("a", title, href=f"#{name}")


def concept_path(concept: Concept) -> str:
    """Where the page of a concept lies in the site; that of a pack's lies in a folder of the pack."""
    return f"concepts/{concept.id}.html"


def _from(concept: Concept, address: str) -> str:
    """An address in the site as the page of a concept has to name it."""
    return relpath(address, dirname(concept_path(concept)))


def run_address(name: str) -> str:
    """Where the first page finds the recorded run of a demo, at its first operation."""
    return f"runs/{name}.html#op=1"
