"use strict";
// The pages of the site. All texts are in the page already; this script shows and hides them, judges answers as the
// terminal does, and writes grades and answers to the browser's storage as rows of the progress file.

const KEY = "ddpquiz progress";
const MOST_FOUND = 50;
const GRADES = ["again", "hard", "good", "easy"];
const DAMAGED = "This file is damaged, so nothing was read.";
const byId = (id) => document.getElementById(id);
const site = JSON.parse(byId("data").textContent);
const loaded = Date.now();

/** Return an element with attributes, and with texts and elements inside. */
function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside.map((part) => (part instanceof Node ? part : document.createTextNode(part))));
  return made;
}

// ---- Progress

const two = (number) => String(number).padStart(2, "0");

/** Return the study day of a moment, which turns at four in the morning of this place. */
function studyDay(now) {
  const day = new Date(now.getFullYear(), now.getMonth(), now.getDate() - (now.getHours() < 4 ? 1 : 0));
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

const isText = (value) => typeof value === "string";
const isShare = (value) => typeof value === "number" && value >= 0 && value <= 1;
const isPlace = (value) => Number.isInteger(value) && value > 0;
const matches = (pattern) => (value) => isText(value) && pattern.test(value);

// What the fields of a row may hold, and which fields a row of each kind needs, as in ddpquiz/learning/exchange.py
const FIELDS = new Map([
  ["kind", isText],
  ["item", isText],
  ["at", matches(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/)],
  ["day", matches(/^\d{4}-\d\d-\d\d$/)],
  ["device", isText],
  ["sequence", isPlace],
  ["weights", isText],
  ["took", Number.isInteger],
  ["grade", (value) => isPlace(value) && value <= GRADES.length],
  ["credit", isShare],
  ["chance", isShare],
  ["confidence", isShare],
  ["level", isText],
  ["given", isText],
  ["calls", isText],
  ["points", isText],
  ["retry", (value) => typeof value === "boolean"],
  ["undone_device", isText],
  ["undone_sequence", isPlace],
]);
const NEEDED = ["kind", "item", "at", "day", "device", "sequence", "weights"];
const NEEDED_BY_KIND = new Map([
  ["review", ["grade"]],
  ["answer", ["credit", "given", "level", "chance"]],
  ["explanation", ["credit", "given", "points"]],
  ["flag", ["given"]],
  ["suspend", []],
  ["bury", []],
  ["lab", ["credit", "given"]],
  ["stage", ["given"]],
  ["undo", ["undone_device", "undone_sequence"]],
]);

/** Return whether something in a log is a row: every field that it has is of the right type, and none is missing. */
function isRow(row) {
  if (row === null || typeof row !== "object") return false;
  const has = Object.entries(row).filter(([, value]) => value !== null);
  const names = new Set(has.map(([name]) => name));
  return (
    has.every(([name, value]) => FIELDS.get(name)?.(value)) &&
    [...NEEDED, ...(NEEDED_BY_KIND.get(row.kind) ?? ["a kind"])].every((name) => names.has(name))
  );
}

const isWeights = (weights) =>
  typeof weights?.retention === "number" &&
  isText(weights.version) &&
  isText(weights.since) &&
  Array.isArray(weights.parameters) &&
  weights.parameters.every((each) => typeof each === "number");

/** Return the progress in a text that this page or `ddpquiz export json` wrote; Error with a sentence for others. */
function parseProgress(text) {
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Error("This file is not valid JSON.");
  }
  if (parsed?.format !== site.format || !Number.isInteger(parsed.version))
    throw new Error("This file is not progress of ddpquiz; `ddpquiz export json` writes such a file.");
  if (parsed.version > site.version)
    throw new Error("This file was written by a newer ddpquiz; build the site again with it.");
  if (!Array.isArray(parsed.log) || !Array.isArray(parsed.weights)) throw new Error(DAMAGED);
  return parsed;
}

/** Return the weights of some progress that can be used, and the rows of its log that can and refer to these. */
function usable(stored) {
  const weights = stored.weights.filter(isWeights);
  const versions = new Set(weights.map((each) => each.version));
  return { weights, log: stored.log.filter((row) => isRow(row) && versions.has(row.weights)) };
}

/** Return what names a row of a log on all devices. */
const receipt = (row) => `${row.device} ${row.sequence}`;

/** The log in the browser's storage; where there is no storage, it lasts as long as the page. */
class Progress {
  read() {
    let text = this.text;
    try {
      text = localStorage.getItem(KEY) ?? text;
    } catch {
      this.isLost = true;
    }
    try {
      const stored = parseProgress(text);
      if (!stored.weights.some((each) => each?.version === site.weights.version)) stored.weights.push(site.weights);
      if (isText(stored.here)) return { ...stored, ...usable(stored) };
    } catch {
      /* there is nothing yet, or it cannot be read */
    }
    const here = [...crypto.getRandomValues(new Uint8Array(6))]
      .map((byte) => byte.toString(16).padStart(2, "0"))
      .join("");
    return { format: site.format, version: site.version, here, weights: [site.weights], log: [] };
  }

  /** Write progress; return a sentence if it cannot be stored. */
  write(state) {
    this.text = JSON.stringify(state);
    try {
      localStorage.setItem(KEY, this.text);
    } catch {
      this.isLost = true;
    }
    return this.isLost ? " This browser stores nothing for this page: download your progress before you close it." : "";
  }

  /** Add something that the learner did; return a sentence if it cannot be stored. */
  append(row) {
    const state = this.read();
    const now = new Date();
    const sequence =
      1 + Math.max(0, ...state.log.filter((each) => each.device === state.here).map((each) => each.sequence));
    const at = now.toISOString().replace("Z", "000Z");
    state.log.push({ ...row, at, day: studyDay(now), device: state.here, sequence, weights: site.weights.version });
    return this.write(state);
  }

  /** Return the rows that count: reviews and answers that were not undone, in the order of time. */
  rows() {
    const { log } = this.read();
    const undone = new Set(
      log.filter((row) => row.kind === "undo").map((row) => `${row.undone_device} ${row.undone_sequence}`),
    );
    const counts = (row) => (row.kind === "review" || row.kind === "answer") && !undone.has(receipt(row));
    return log.filter(counts).toSorted((one, other) => (one.at < other.at ? -1 : 1));
  }

  /** Add the rows of a file; return how many were new. Error with a sentence if it cannot be read. */
  merge(text) {
    const file = parseProgress(text);
    const given = usable(file);
    if (given.log.length < file.log.length || given.weights.length < file.weights.length) throw new Error(DAMAGED);
    const state = this.read();
    const known = new Set(state.log.map(receipt));
    const versions = new Set(state.weights.map((each) => each.version));
    const added = given.log.filter((row) => !known.has(receipt(row)));
    state.log.push(...added);
    state.weights.push(...given.weights.filter((each) => !versions.has(each.version)));
    const lost = this.write(state);
    return `${added.length} of ${given.log.length} entries were new.${lost}`;
  }

  /** Return the text of the file that `ddpquiz import` reads. */
  exported() {
    const { format, version, weights, log } = this.read();
    return JSON.stringify({ format, version, weights, log }, null, 1);
  }

  forget() {
    this.text = undefined;
    try {
      localStorage.removeItem(KEY);
    } catch {
      /* nothing is stored */
    }
  }
}
const progress = new Progress();

// ---- Judging, as ddpquiz/learning/judge.py does it

const DECIMAL_COMMA = /(?<![\d.])(?:0,\d|\d+,(?!\d{3}(?!\d)))/;
const GROUPS = /(?<=\d)[,_](?=\d{3}(?!\d))/g;
const TIMES = /(?<=[\d)])\s*[x×]\s*(?=[\d(])/g;
const NUMBER_AND_UNIT = /^([-+*/().\de ]*[\d)])\s*(.*)$/i;
const TOKEN = /\s*(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|\*\*|[-+*/()])/iy;
const SAID = /[a-z_]\w*(?:\.\w+)*|[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?/gi;
const FILLERS = new Set(["in", "of", "the"]);

/** Return the value of an arithmetic expression, NaN if it is none. */
function evaluate(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  for (let at = 0; at < text.trimEnd().length; at = TOKEN.lastIndex) {
    const found = TOKEN.exec(text);
    if (!found) return NaN;
    tokens.push(found[1]);
  }
  let at = 0;
  const sum = () => {
    let left = product();
    while (tokens[at] === "+" || tokens[at] === "-") {
      const sign = tokens[at++] === "+" ? 1 : -1;
      left += sign * product();
    }
    return left;
  };
  const product = () => {
    let left = signed();
    while (tokens[at] === "*" || tokens[at] === "/") {
      const isTimes = tokens[at++] === "*";
      const right = signed();
      left = isTimes ? left * right : left / right;
    }
    return left;
  };
  const signed = () => {
    if (tokens[at] !== "-" && tokens[at] !== "+") return power();
    const sign = tokens[at++] === "+" ? 1 : -1;
    return sign * signed();
  };
  const power = () => {
    const base = atom();
    if (tokens[at] !== "**") return base;
    at++;
    return base ** signed();
  };
  const atom = () => {
    const token = tokens[at++];
    if (token !== "(") return /^[\d.]/.test(token ?? "") ? Number(token) : NaN;
    const inside = sum();
    return tokens[at++] === ")" ? inside : NaN;
  };
  const value = sum();
  return at === tokens.length && Number.isFinite(value) ? value : NaN;
}

function isClose(value, right, tolerance) {
  const relative = !tolerance && Number.isInteger(right) ? 1e-12 : Math.max(tolerance, 1e-5);
  return Math.abs(value - right) <= Math.max(relative * Math.max(Math.abs(value), Math.abs(right)), 1e-12);
}

const bareUnit = (unit) =>
  unit
    .toLowerCase()
    .replaceAll("µ", "u")
    .replaceAll("μ", "u")
    .replace(/[\s.-]+/g, " ")
    .trim()
    .split(" ")
    .map((word) => word.replace(/[es]+$/, "") || word)
    .join(" ");

/** Return whether a unit is the one that is asked for, or its beginning: million, for million parameters. */
function isUnit(given, asked) {
  return `${bareUnit(asked)} `.startsWith(`${bareUnit(given)} `);
}

const SCALED = /^(thousand|million|billion|trillion|[kmgtuµ]i?[bfs])/i;

/** Return whether a number is right in another form of its unit, such as 36000000 for 36 million. */
function isSlip(question, value) {
  const right = (power) => isClose(value * 10 ** power, question.answer, question.tolerance);
  return SCALED.test(question.unit) && [-12, -9, -6, -3, 3, 6, 9, 12].some(right);
}

function judgeNumber(question, given) {
  const typed = given.trim().replaceAll("−", "-").replaceAll("^", "**");
  if (DECIMAL_COMMA.test(typed))
    return { unclear: "Write a decimal point, as in 1.8; a comma groups thousands, as in 1,800." };
  const found = NUMBER_AND_UNIT.exec(typed.replace(GROUPS, "").replace(TIMES, "*"));
  const value = found && !found[2].includes(",") ? evaluate(found[1]) : NaN;
  const unit = question.unit ? ` (in ${question.unit})` : "";
  if (Number.isNaN(value)) return { unclear: `Answer with a number${unit}, such as 1800, 1.8e3 or 3/4.` };
  if (found[2].trim() && !isUnit(found[2], question.unit))
    return { unclear: question.unit ? `Type only the number, in ${question.unit}.` : "Answer without a unit." };
  if (isClose(value, question.answer, question.tolerance)) return { right: true, whys: [] };
  const trap = question.traps.findIndex((each) => isClose(value, each, question.tolerance));
  if (trap < 0 && !found[2].trim() && isSlip(question, value))
    return { unclear: `${given.trim()} ${question.unit}? Answer in ${question.unit}.` };
  return { right: false, whys: trap < 0 ? [] : [trap] };
}

/** Return a text without outer quotes and unnecessary blanks, and with one kind of quote. */
function squeezed(text) {
  let found = text.replaceAll("\\n", "\n").trim().split(/\s+/).join(" ");
  if (found.length > 1 && found[0] === found.at(-1) && "'\"`".includes(found[0])) found = found.slice(1, -1);
  return found
    .replaceAll('"', "'")
    .trim()
    .replace(/\s*([[\](){},:=])\s*/g, "$1");
}

/** Return the numbers and words of a text, without brackets, commas and names of containers. */
function said(text) {
  const inside = text.replaceAll("\\n", "\n").replace(/(?<![\w.])[a-z_][\w.]*(?=\()/gi, "");
  const all = (inside.match(SAID) ?? []).map((each) =>
    /^[a-z_]/i.test(each) ? each.split(".").at(-1).toLowerCase() : Number(each),
  );
  return JSON.stringify(all.filter((each) => !FILLERS.has(each)));
}

function judgeOutput(question, given) {
  if (!given.trim()) return { unclear: "Type what is printed." };
  if (squeezed(given) === squeezed(question.answer)) return { right: true, whys: [] };
  const trap = question.traps.findIndex((each) => squeezed(given) === squeezed(each));
  if (trap >= 0) return { right: false, whys: [trap] };
  const right = said(given) === said(question.answer);
  const alike = right ? -1 : question.traps.findIndex((each) => said(given) === said(each));
  if (alike >= 0) return { right: false, whys: [alike] };
  const lines = question.answer.trim().split("\n").length;
  if (!right && given.replaceAll("\\n", " ").trim().split(/\s+/).length < lines)
    return { unclear: `This prints ${lines} lines; type all of them.` };
  return { right, whys: [] };
}

/** Return the places from 0 in `2 4 1 3`, `2,4,1,3` or `2413`; none for anything else. */
function placesIn(given, count) {
  const words = given.replace(/^[\s.,;]+|[\s.,;]+$/g, "").split(/[\s,;]+/);
  const places = (count > 9 ? words : [...words.join("")]).map((word) => (/^\d+$/.test(word) ? Number(word) - 1 : -1));
  return places.every((place) => place >= 0 && place < count) && new Set(places).size === places.length ? places : [];
}

function judgeOrder(question, given) {
  const places = placesIn(given, question.shown.length);
  if (places.length !== question.shown.length)
    return { unclear: `Give each number from 1 to ${question.shown.length} once, in order.` };
  const wrong = places.findIndex((place, number) => question.places[place] !== number);
  if (wrong < 0) return { right: true, whys: [], chosen: places };
  const wanted = question.shown[question.places.indexOf(wrong)];
  return { right: false, whys: [], chosen: places, said: `Number ${wrong + 1} is: ${wanted}` };
}

function judgeOptions(question, chosen) {
  if (!chosen.length) return { unclear: question.kind === "choice" ? "Choose one." : "Choose all that are right." };
  const missed = question.right.flatMap((right, place) =>
    right && !chosen.includes(place) ? [question.shown[place]] : [],
  );
  const right = !missed.length && chosen.every((place) => question.right[place]);
  const some = question.kind === "choices" && missed.length ? `Right too: ${missed.join("; ")}` : "";
  return { right, whys: [], chosen, said: some };
}

/** Judge an answer: a text, or the places of the options that were chosen. */
function judge(question, given) {
  const judges = {
    number: judgeNumber,
    output: judgeOutput,
    order: judgeOrder,
    choice: judgeOptions,
    choices: judgeOptions,
  };
  return judges[question.kind](question, given);
}

/** Return an answer as the log holds it. */
function answerText(question, given, verdict) {
  if (verdict.chosen) {
    const texts = verdict.chosen.map((place) => question.shown[place]);
    return question.kind === "choice" ? texts[0] : JSON.stringify(texts);
  }
  return question.values ? `${given} with ${question.values}` : given;
}

// ---- Cards and questions

const latest = (kind, item) => progress.rows().findLast((row) => row.kind === kind && row.item === item);

function setUpCard(card) {
  const key = card.dataset.card;
  const state = card.querySelector(".state");
  let opened = loaded;
  const show = () => {
    const last = latest("review", key);
    state.textContent = last ? `You graded it ${GRADES[last.grade - 1]} on ${last.day}.` : "";
    for (const button of card.querySelectorAll("[data-grade]"))
      button.setAttribute("aria-pressed", String(Number(button.dataset.grade) === last?.grade));
  };
  card.addEventListener("toggle", () => {
    opened = Date.now();
  });
  for (const button of card.querySelectorAll("[data-grade]")) {
    button.addEventListener("click", () => {
      const lost = progress.append({
        kind: "review",
        item: key,
        grade: Number(button.dataset.grade),
        took: Date.now() - opened,
      });
      show();
      state.textContent += lost;
    });
  }
  show();
}

/** A question: its form, what was asked of it since the page was opened, and its solution. */
class QuestionForm {
  constructor(section) {
    Object.assign(this, { section, key: section.dataset.question, hints: 0, isSolved: false, began: 0 });
    this.question = site.questions[this.key];
    this.form = section.querySelector("form");
    this.state = section.querySelector(".state");
    this.form.addEventListener("focusin", () => {
      this.began ||= Date.now();
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.answer();
    });
    for (const button of this.form.querySelectorAll("[data-does]"))
      button.addEventListener("click", () => this[button.dataset.does]());
    const last = latest("answer", this.key);
    if (last) this.state.textContent = `Your last answer, on ${last.day}, was ${last.credit ? "right" : "wrong"}.`;
  }

  hint() {
    const next = this.form.querySelector(".hint[hidden]");
    if (next) {
      next.hidden = false;
      this.hints += 1;
    }
    if (!this.form.querySelector(".hint[hidden]")) this.form.querySelector("[data-does=hint]").disabled = true;
  }

  solution() {
    this.isSolved = true;
    this.section.querySelector(".solution").hidden = false;
  }

  given() {
    const boxes = [...this.form.querySelectorAll("fieldset input")];
    return boxes.length
      ? boxes.filter((box) => box.checked).map((box) => Number(box.value))
      : this.form.elements.answer.value;
  }

  answer() {
    const given = this.given();
    const verdict = judge(this.question, given);
    for (const why of this.form.querySelectorAll(".why")) why.hidden = true;
    if (verdict.unclear) {
      this.state.textContent = verdict.unclear;
      return;
    }
    const lost = this.isSolved ? "" : this.save(given, verdict);
    const word = verdict.right ? "Right." : "Wrong.";
    this.state.textContent = [
      word,
      verdict.said,
      lost,
      this.isSolved ? "It is not counted, because you saw the solution." : "",
    ]
      .filter(Boolean)
      .join(" ");
    this.state.dataset.verdict = verdict.right ? "right" : "wrong";
    const traps = this.form.querySelectorAll(".why:not([data-place])");
    for (const place of verdict.whys) traps[place].hidden = false;
    for (const place of verdict.chosen ?? []) {
      const why = this.form.querySelector(`.why[data-place="${place}"]`);
      if (why) why.hidden = false;
    }
    this.solution();
  }

  save(given, verdict) {
    const { level, chance, cards } = this.question;
    const whenRight = this.hints ? 0.5 : 1;
    const row = {
      kind: "answer",
      item: this.key,
      level,
      chance,
      credit: verdict.right ? whenRight : 0,
      given: answerText(this.question, given, verdict),
    };
    if (this.began) row.took = Date.now() - this.began;
    const today = progress.rows().filter((each) => each.day === studyDay(new Date()));
    if (!verdict.right && !today.some((each) => each.item === this.key && each.calls)) {
      const reviewed = new Set(today.filter((each) => each.kind === "review").map((each) => each.item));
      const called = cards.find((card) => !reviewed.has(card)) ?? cards[0];
      if (called) row.calls = called;
    }
    return progress.append(row);
  }
}

/** Open the card that the address names, so that it can be seen. */
function openTarget() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
  target?.scrollIntoView();
}

// ---- The first page

/** Return what contains all words, titles and fronts of cards first. */
function search(words) {
  const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
  const count = (text) => terms.filter((term) => text.toLowerCase().includes(term)).length;
  if (!terms.length) return [];
  const scored = site.search
    .filter((each) => count(`${each.head} ${each.more}`) === terms.length)
    .map((each) => [2 * count(each.head) + (each.kind === "concept"), each]);
  return scored.toSorted((one, other) => other[0] - one[0]).map(([, each]) => each);
}

/** Say how many places were found, and what to do if that is none, or too many to list. */
function counted(count) {
  if (count === 0) return "Nothing found. Try fewer words, or other ones, such as all-reduce.";
  return count > MOST_FOUND ? `${count} found; add a word to see fewer than these ${MOST_FOUND}.` : `${count} found`;
}

function setUpSearch(field) {
  field.addEventListener("input", () => {
    const found = search(field.value);
    byId("found-count").textContent = field.value.trim() ? counted(found.length) : "";
    byId("found").replaceChildren(
      ...found.slice(0, MOST_FOUND).map(({ href, kind, head, more }) =>
        element(
          "li",
          {},
          element("a", { href }, head.replaceAll("`", "")),
          element("span", { class: "kind" }, ` ${kind} `),
          ...(kind === "card" ? [] : [element("p", { class: "quiet" }, more.replaceAll("`", ""))]), // recall it first
        ),
      ),
    );
  });
}

function showProgress() {
  const rows = progress.rows();
  const answers = new Map();
  const cards = new Set();
  for (const row of rows) {
    if (row.kind === "review") cards.add(row.item);
    else answers.set(row.item, row.credit > 0);
  }
  for (const state of document.querySelectorAll("[data-concept][data-cards]")) {
    const inConcept = (item) => item.startsWith(`${state.dataset.concept}/`);
    const graded = [...cards].filter(inConcept).length;
    const right = [...answers].filter(([item, ok]) => ok && inConcept(item)).length;
    state.textContent =
      graded || right
        ? `${graded} of ${state.dataset.cards} cards graded, ${right} of ${state.dataset.questions} questions right`
        : "";
  }
  byId("progress-state").textContent = rows.length
    ? `${rows.length} grades and answers in this browser.`
    : "Nothing yet.";
}

function setUpProgress() {
  byId("download").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([progress.exported()], { type: "application/json" }));
    element("a", { href: address, download: "ddpquiz-progress.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });
  byId("upload").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    let sentence;
    try {
      sentence = progress.merge(await file.text());
    } catch (problem) {
      sentence = problem.message;
    }
    event.target.value = "";
    showProgress();
    byId("progress-state").textContent += ` ${sentence}`;
  });
  byId("forget").addEventListener("click", () => {
    if (confirm("Delete all grades and answers in this browser?")) {
      progress.forget();
      showProgress();
    }
  });
  showProgress();
}

/** On the map, mark the lines from and to a concept. */
function setUpMap(map) {
  const mark = (concept) => {
    for (const line of map.querySelectorAll("path"))
      line.classList.toggle("marked", line.dataset.from === concept || line.dataset.to === concept);
  };
  for (const kind of ["mouseover", "focusin"])
    map.addEventListener(kind, (event) => mark(event.target.closest("[data-concept]")?.dataset.concept ?? ""));
}

for (const card of document.querySelectorAll("[data-card]")) setUpCard(card);
for (const section of document.querySelectorAll("[data-question]")) new QuestionForm(section);
if (site.search) {
  setUpSearch(byId("query"));
  setUpProgress();
  setUpMap(document.querySelector(".map"));
}
let closed = []; // folded texts that are open while the page is printed
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const each of closed) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of closed) each.open = false;
});
addEventListener("hashchange", openTarget);
openTarget();
window.ddpquizSite = { judge, progress };
document.documentElement.dataset.ready = "";
