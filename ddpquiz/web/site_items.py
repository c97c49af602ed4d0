"""Cards, questions and prompts as HTML. The answers are in the page, hidden until the learner asks or answers."""

from collections.abc import Sequence
from typing import Any

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Card, Kind, Prompt
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.curriculum.spot import candidates, fault, script_lines
from ddpquiz.learning.answers import linked_cards
from ddpquiz.learning.instruction import HOW
from ddpquiz.learning.judge import chance, expected
from ddpquiz.terminal.kit.style import plain
from ddpquiz.terminal.pages.item import source_line
from ddpquiz.web.markup import Markup, element, joined
from ddpquiz.web.proof_text import proof_text
from ddpquiz.web.rendered_text import listing, paragraph, spans

GRADES = ("again", "hard", "good", "easy")


def card_html(card: Card, known: Catalog) -> Markup:
    """Return a card, folded; it is graded where it stands."""
    buttons = (element("button", name, type="button", data_grade=grade) for grade, name in enumerate(GRADES, 1))
    shown = _link(f"#question-{card.proof}", "a question below")
    proof = element("p", "The proof of ", shown, " shows this.", class_="source") if card.proof else Markup()
    return element(
        "details",
        element("summary", element("span", f"card · {card.level}", class_="kind"), " ", spans(card.front)),
        paragraph(card.back),
        element("p", "How well did you recall it?", class_="quiet"),
        element("div", *buttons, class_="grades", role="group", aria_label="How well did you recall it?"),
        element("p", role="status", class_="state"),
        source_html(card.source, known),
        proof,
        class_="card", id=f"card-{card.id}", data_card=card.key,
    )  # fmt: skip


def question_html(posed: Posed, number: int, known: Catalog) -> Markup:
    """Return a question with a form to answer it and, hidden, why wrong answers are wrong and the solution."""
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
    """Return what the page needs to judge an answer and to write it to the log."""
    asked = posed.question
    texts, right = _to_choose(posed)
    return {
        "kind": Kind.CHOICE if asked.kind is Kind.SPOT else asked.kind,  # one line of many is chosen
        "level": asked.level,
        "chance": chance(asked),
        "answer": float(asked.answer) if asked.kind is Kind.NUMBER else asked.answer,
        "unit": asked.unit,
        "tolerance": asked.tolerance,
        "traps": [float(trap.answer) if asked.kind is Kind.NUMBER else trap.answer for trap in asked.traps],
        "shown": texts,
        "right": right,
        "places": [*posed.shown],
        "values": ", ".join(f"{name}={value}" for name, value in posed.values.items()),
        "cards": [card.key for card in linked_cards(asked, cards)],
    }


def _to_choose(posed: Posed) -> tuple[list[str], list[bool]]:
    """Return what a learner chooses from, in the order shown, and for each of it whether it is right."""
    asked = posed.question
    if asked.kind is Kind.SPOT:
        lines = script_lines(asked)
        return [plain(lines[at].strip()) for at in candidates(asked)], [at == fault(asked) for at in candidates(asked)]
    texts = [plain((asked.options or asked.lines)[place].text) for place in posed.shown]
    return texts, [asked.options[place].right for place in posed.shown] if asked.options else []


def prompt_html(prompt: Prompt) -> Markup:
    """Return something to explain, with its hint and its model answer folded."""
    points = element("ul", *(element("li", spans(point.say)) for point in prompt.points))
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


def source_html(key: str, known: Catalog) -> Markup:
    """Return the source of an item as a line with a link; nothing if it has none."""
    source = known.sources.get(key)
    if source is None:
        return Markup()
    text = source_line(source)
    shown = _link(source.address, text) if source.address.startswith(("https://", "http://")) else text
    return element("p", "Source: ", shown, class_="source")


def _link(address: str, text: str) -> Markup:
    return element("a", text, href=address, rel=None if address.startswith("#") else "noreferrer")


def _field(posed: Posed) -> Markup:
    """Return the part of a form in which the answer is given."""
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
    """Return the lines of a script; those that can be at fault have a button, and the belief behind a wrong one."""
    asked, rows = posed.question, list[Markup]()
    places = {at: number for number, at in enumerate(candidates(asked))}
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
        parts += [element("p", "Check: ", spans(asked.check), class_="prose")]
    parts.append(source_html(asked.source, known))
    if proof := proof_text(posed):
        inside: list[str] = [paragraph(proof.what)]
        inside += [listing(proof.code)] if proof.code else []
        inside += [element("p", "It must print:"), listing(proof.expected, output=True)] if proof.expected else []
        inside += [paragraph(proof.ends)] if proof.ends else []
        inside.append(element("p", "Run it: ", element("code", f"ddpquiz prove {asked.key}")))
        parts.append(element("details", element("summary", "Proof"), *inside))
    return element("div", *parts, class_="solution", hidden=True)


def _right(posed: Posed) -> Markup:
    """Return the right answer; options and lines by their text, because their numbers say little."""
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
