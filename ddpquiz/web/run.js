"use strict";
// The page of a run. The data says what each step shows, in words; this script only finds the step and draws it.
// All text of a run becomes text nodes, never markup.

const PACE = 300; // milliseconds for which a step is shown while it plays
const ROWS = 100; // operations in the table, lines in a log, and finds that are shown at once
const HEIGHTS = [
  [16, 22],
  [64, 13],
  [Infinity, 6],
]; // pixels of a lane, for up to so many ranks
const NAMES = 76; // pixels for the names of ranks beside the lanes
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;:=[?@^_`{|}~"; // of base 85, see _SAFE_LETTERS in run_page.py
const KINDS = { p: "compute", c: "communication", w: "waiting" }; // _LETTERS in run_page.py
const KEYS = [
  ["← →", "go to the previous or next call of a rank (space: the next)"],
  ["n N", "operation: go to just before the first call of the next or previous operation"],
  ["a", "play the calls one after the other, or stop"],
  ["home end", "go to before the first call, or after the last"],
  ["+ −", "zoom the timeline in or out; a drag or shift with ← → pans it"],
  ["f", "show the whole run"],
  ["0-9", "the log of this rank"],
  ["/", "find an operation or a line; enter goes to the first, escape leaves"],
  ["?", "show the keys, or close them"],
];

const byId = (id) => document.getElementById(id);

/** Return an element with attributes, and with texts and elements inside. */
function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside.map((part) => (part instanceof Node ? part : document.createTextNode(part))));
  return made;
}

const pieces = (list) => list.map(([text, tone]) => element("span", { class: tone }, text));
const sums = (differences) => {
  let sum = 0;
  return differences.map((each) => (sum += each));
};

/** Return places in a table (_advances in run_page.py): a positive number is an advance beyond all before, any other
 * stands for -1 - place. */
function placesOf(advances) {
  let top = -1;
  return advances.map((each) => (each > 0 ? (top += each) : -1 - each));
}

/** Return how many numbers of a sorted list are at most `limit`. */
function countUpTo(numbers, limit) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

const UNITS = [
  [999.5, 1, "µs"],
  [999500, 1e3, "ms"],
  [Infinity, 1e6, "s"],
];
const DIGITS = [
  [99.95, 0],
  [9.995, 1],
  [-Infinity, 2],
];

/** Write microseconds as the terminal does: 340 µs, 1.2 ms, 3.4 s. */
function duration(us) {
  const [, scale, unit] = UNITS.find(([limit]) => us < limit);
  const number = us / scale;
  const [, digits] = DIGITS.find(([least]) => number >= least);
  return `${Number(number.toFixed(digits)).toLocaleString("en")} ${unit}`;
}

/** Return the bytes of a text in base 85: five letters are four bytes; of the last letters some may be left out. */
function fromBase85(text) {
  const places = new Map([...LETTERS].map((letter, place) => [letter, place]));
  const bytes = new Uint8Array(4 * Math.ceil(text.length / 5));
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < text.length; at += 5) {
    let number = 0;
    for (let next = at; next < at + 5; next++) number = number * 85 + places.get(text[next] ?? "~");
    view.setUint32((at / 5) * 4, number);
  }
  return bytes.subarray(0, Math.floor((text.length * 4) / 5));
}

/** Return the data of the page; much data is stored compressed, as a text. */
async function load() {
  const data = JSON.parse(byId("data").textContent);
  if (typeof data !== "string") return data;
  const stream = new Blob([fromBase85(data)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** The run: what each slot holds at each step. */
class Run {
  constructor(data) {
    const { frames, logs, operations, calls } = data;
    Object.assign(this, {
      data,
      operations,
      labels: frames.labels,
      tables: frames.tables,
      beginnings: frames.operations,
    });
    this.slots = new Map(
      Object.entries(frames.slots).map(([name, [steps, places]]) => [name, [sums(steps), placesOf(places)]]),
    );
    this.times = sums(frames.times);
    this.last = this.times.length - 1;
    this.ranks = Array.from({ length: data.ranks }, (_, rank) => rank);
    operations.starts = sums(operations.starts);
    this.called = sums(calls.operations); // the operation of each step's call
    this.callers = calls.ranks;
    this.firstStep = operations.names.map(() => this.last);
    for (let step = this.called.length - 1; step >= 0; step--)
      if (this.called[step] >= 0) this.firstStep[this.called[step]] = step;
    logs.steps = sums(logs.steps);
    logs.times = sums(logs.times);
    logs.errors = new Set(logs.errors);
    this.logs = logs;
    this.printed = this.ranks.map(() => []); // the numbers of each rank's lines
    this.histories = new Map(); // label.rank -> the numbers of its lines
    logs.ranks.forEach((rank, number) => {
      this.printed[rank].push(number);
      const name = `${logs.labels[number]}.${rank}`;
      if (!this.histories.has(name)) this.histories.set(name, []);
      this.histories.get(name).push(number);
    });
  }

  /** Return what a slot holds at a step; null if it holds nothing yet. */
  at(slot, step) {
    const found = this.slots.get(slot);
    const count = found ? countUpTo(found[0], step) : 0;
    return count ? this.tables[slot.split(".")[0]][found[1][count - 1]] : null;
  }

  /** Return a printed line as it was printed. */
  text(number) {
    const label = this.logs.labels[number];
    return label < 0 ? this.logs.texts[number] : `${this.labels[label]}: ${this.logs.texts[number]}`;
  }

  /** Return the numbers of a list of lines that were printed by a step. */
  upTo(numbers, step) {
    let low = 0;
    let high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.logs.steps[numbers[middle]] <= step) low = middle + 1;
      else high = middle;
    }
    return numbers.slice(0, low);
  }

  /** Return the texts of a label's values on a rank up to a step; those in lines of progress only as steps show them. */
  values(label, rank, step) {
    const lines = this.histories.get(`${label}.${rank}`);
    if (lines) return this.upTo(lines, step).map((each) => this.logs.texts[each]);
    const [steps, places] = this.slots.get(`value.${label}.${rank}`) ?? [[], []];
    return places.slice(0, countUpTo(steps, step)).map((place) => this.tables.value[place]);
  }

  /** Return the numbers that a rank printed with a label up to a step; nothing if one is not a number or all lie on a line. */
  curve(label, rank, step) {
    const values = this.values(label, rank, step)
      .slice(-2000)
      .map((text) => Number(text || NaN));
    if (values.length < 3 || !values.every(Number.isFinite)) return [];
    const jumps = values.slice(1).map((value, at) => value - values[at]);
    const most = values.reduce((found, value) => Math.max(found, Math.abs(value)), 0);
    const [low, high] = jumps.reduce(
      ([from, to], jump) => [Math.min(from, jump), Math.max(to, jump)],
      [Infinity, -Infinity],
    );
    return high - low > 1e-9 * most ? values : [];
  }

  operationText(number) {
    const { names, more, places, lines } = this.operations;
    return [names[number], more[number], lines[places[number]][0]].filter(Boolean).join(" · ");
  }
}

/** The lanes of the ranks on a canvas, which can be zoomed and panned; times are in microseconds. */
class Lanes {
  constructor(run, canvas) {
    Object.assign(this, { run, canvas, step: 0, drawn: document.createElement("canvas") });
    this.lanes = (run.data.lanes?.ranks ?? []).map(({ rank, start, kinds, lengths, operations }) => {
      const ends = sums([start, ...lengths]);
      const numbers = sums(operations);
      let at = 0;
      return {
        rank,
        kinds,
        ends,
        operations: [...kinds].map((kind) => (kind === "c" || kind === "w" ? numbers[at++] : -1)),
      };
    });
    const { first = 0, last = 1 } = run.data.lanes ?? {};
    Object.assign(this, { first, last: Math.max(last, first + 10) });
    this.height = HEIGHTS.find(([most]) => run.data.ranks <= most)[1];
    this.fit();
  }

  fit() {
    this.show(this.first, this.last);
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, 10), this.last - this.first);
    this.from = Math.min(Math.max(from, this.first), this.last - span);
    this.to = this.from + span;
    this.stale = true;
  }

  zoom(factor, around = this.clamped()) {
    const share = (around - this.from) / (this.to - this.from);
    const span = (this.to - this.from) * factor;
    this.show(around - share * span, around + (1 - share) * span);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  /** Return the time of the step, or the middle of the view if the step is outside. */
  clamped() {
    const now = this.run.times[this.step];
    return now >= this.from && now <= this.to ? now : (this.from + this.to) / 2;
  }

  follow(step) {
    this.step = step;
    const now = Math.min(Math.max(this.run.times[step], this.first), this.last);
    const span = this.to - this.from;
    if (now < this.from || now > this.to) this.show(now - span / 2, now + span / 2);
  }

  x(time) {
    return NAMES + ((time - this.from) / (this.to - this.from)) * this.columns;
  }
  time(x) {
    return this.from + ((x - NAMES) / this.columns) * (this.to - this.from);
  }

  paint() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(240, this.canvas.parentElement.clientWidth);
    const height = this.lanes.length * this.height + 24;
    if (this.stale || this.width !== width || this.ratio !== ratio) {
      Object.assign(this, {
        width,
        ratio,
        columns: width - NAMES - 8,
        stale: false,
        colors: getComputedStyle(document.documentElement),
      });
      for (const canvas of [this.canvas, this.drawn]) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
      }
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      this.paintLanes(this.drawn.getContext("2d"), height);
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.scale(ratio, ratio);
    this.paintBand(context, height);
    context.drawImage(this.drawn, 0, 0, width, height);
    const now = this.run.times[this.step];
    context.fillStyle = this.color("--fore");
    if (now >= this.from && now <= this.to) context.fillRect(this.x(now) - 1, 0, 2, height - 18);
  }

  /** Paint where the operation of this step lies. */
  paintBand(context, height) {
    const number = this.run.called[this.step] ?? -1;
    if (number < 0) return;
    const start = this.run.operations.starts[number];
    const end = start + this.run.operations.lasted[number];
    const left = Math.max(this.x(start), NAMES);
    const right = Math.min(Math.max(this.x(end), left + 2), this.width);
    if (left > this.width || right < NAMES) return;
    context.fillStyle = this.color("--band");
    context.fillRect(left, 0, right - left, height - 18);
    context.strokeStyle = this.color("--accent");
    context.strokeRect(left, 0.5, right - left, height - 18);
  }

  paintLanes(context, height) {
    const styles = { p: this.color("--good"), c: this.color("--accent"), w: this.hatching(context) };
    context.scale(this.ratio, this.ratio);
    context.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace";
    context.textBaseline = "middle";
    this.lanes.forEach((lane, row) => {
      const top = row * this.height;
      const tall = Math.max(2, this.height - 6);
      context.fillStyle = this.color("--quiet");
      if (this.height > 12) context.fillText(`rank ${lane.rank}`, 0, top + this.height / 2);
      for (const [from, to, kind] of this.columnsOf(lane)) {
        context.fillStyle = styles[kind];
        if (kind === "p") context.fillRect(NAMES + from, top + this.height / 2 - 1.5, to - from, 3);
        else context.fillRect(NAMES + from, top + (this.height - tall) / 2, to - from, tall);
      }
    });
    this.paintAxis(context, height);
  }

  /** Yield stretches of a lane as [from, to, kind] in pixels; a pixel shows the kind that has most of it. */
  *columnsOf(lane) {
    const count = Math.max(1, Math.floor(this.columns));
    const size = (this.to - this.from) / count;
    const shares = { p: new Float64Array(count), c: new Float64Array(count), w: new Float64Array(count) };
    for (
      let at = Math.max(0, countUpTo(lane.ends, this.from) - 1);
      at < lane.kinds.length && lane.ends[at] < this.to;
      at++
    ) {
      const share = shares[lane.kinds[at]];
      if (!share) continue; // between the end of a process and the next
      const left = (Math.max(lane.ends[at], this.from) - this.from) / size;
      const right = (Math.min(lane.ends[at + 1], this.to) - this.from) / size;
      for (let pixel = Math.floor(left); pixel < Math.min(right, count); pixel++)
        share[pixel] += Math.min(right, pixel + 1) - Math.max(left, pixel);
    }
    let begun = 0;
    let before = null;
    for (let pixel = 0; pixel <= count; pixel++) {
      let kind = null;
      let most = 0;
      for (const each of "pcw")
        if (pixel < count && shares[each][pixel] > most) [kind, most] = [each, shares[each][pixel]];
      if (kind === before) continue;
      if (before) yield [begun, pixel, before];
      [begun, before] = [pixel, kind];
    }
  }

  paintAxis(context, height) {
    const span = (this.to - this.from) / 1e6;
    const rough = (span * 90) / this.columns;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    let clear = 0;
    context.fillStyle = this.color("--quiet");
    for (let number = Math.ceil(this.from / 1e6 / step); number * step * 1e6 <= this.to; number++) {
      const x = this.x(number * step * 1e6);
      const text = `${(number * step).toFixed(digits)} s`;
      if (x >= clear && x + context.measureText(text).width < this.width) {
        context.fillRect(x, height - 18, 1, 5);
        context.fillText(text, x + 3, height - 8);
        clear = x + context.measureText(text).width + 8;
      }
    }
  }

  color(name) {
    return this.colors.getPropertyValue(name).trim();
  }

  hatching(context) {
    const tile = element("canvas", { width: 6, height: 6 });
    const brush = tile.getContext("2d");
    brush.strokeStyle = this.color("--warn");
    brush.lineWidth = 1.8;
    for (const shift of [-6, 0, 6]) {
      brush.beginPath();
      brush.moveTo(shift, 6);
      brush.lineTo(shift + 6, 0);
      brush.stroke();
    }
    return context.createPattern(tile, "repeat");
  }

  /** Return what lies at a point: a rank, the kind and seconds of a span, and its operation or -1. */
  find(x, y) {
    const lane = this.lanes[Math.floor(y / this.height)];
    if (!lane || x < NAMES) return null;
    const at = countUpTo(lane.ends, this.time(x)) - 1;
    if (!KINDS[lane.kinds[at]]) return null;
    return {
      rank: lane.rank,
      kind: KINDS[lane.kinds[at]],
      lasted: lane.ends[at + 1] - lane.ends[at],
      operation: lane.operations[at],
    };
  }
}

/** The whole page at a step. */
class Page {
  constructor(run) {
    this.run = run;
    this.lanes = new Lanes(run, byId("lanes"));
    this.step = 0;
    this.logRank = 0;
    this.player = null;
    this.actions = {
      start: () => this.go(0),
      end: () => this.go(run.last),
      previousStep: () => this.go(this.step - 1),
      nextStep: () => this.go(this.step + 1),
      previousOperation: () => this.go(run.beginnings.findLast((each) => each < this.step) ?? 0),
      nextOperation: () => this.go(run.beginnings.find((each) => each > this.step) ?? this.step),
      play: () => {
        if (this.player === null && this.step === run.last) this.go(0);
        this.play(this.player === null);
      },
      zoomIn: () => this.view(() => this.lanes.zoom(0.5)),
      zoomOut: () => this.view(() => this.lanes.zoom(2)),
      panLeft: () => this.view(() => this.lanes.pan(-0.25)),
      panRight: () => this.view(() => this.lanes.pan(0.25)),
      fit: () => this.view(() => this.lanes.fit()),
      find: () => byId("query").focus(),
      help: () => {
        byId("keys").open = !byId("keys").open;
      },
    };
    this.drawOnce();
    this.listen();
    this.openLink(true);
  }

  view(change) {
    change();
    this.lanes.paint();
  }

  play(starts) {
    clearInterval(this.player);
    this.player = starts && this.step < this.run.last ? setInterval(() => this.go(this.step + 1, true), PACE) : null;
    byId("play").textContent = this.player === null ? "play" : "stop";
  }

  /** Go to a step and draw it; playing stops at the end, and wherever else somebody goes. */
  go(step, isPlaying = false) {
    this.step = Math.min(Math.max(step, 0), this.run.last);
    if (!isPlaying || this.step === this.run.last) this.play(false);
    this.lanes.follow(this.step);
    this.draw();
    clearTimeout(this.linker);
    this.linker = setTimeout(() => history.replaceState(null, "", this.link()), 250); // browsers limit how often
  }

  link() {
    const number = this.run.firstStep.indexOf(this.step);
    return this.step < this.run.last && number >= 0 ? `#op=${number + 1}` : `#step=${this.step}`;
  }

  openLink(isFirst = false) {
    const [, name, number] = /^#(op|step)=(\d{1,9})$/.exec(location.hash) ?? [];
    if (name === "op") this.go(this.run.firstStep[Number(number) - 1] ?? this.run.last);
    else if (name === "step") this.go(Number(number));
    else if (isFirst) {
      this.step = this.run.last;
      this.lanes.follow(this.step);
      this.draw();
    }
  }

  listen() {
    for (const button of document.querySelectorAll("[data-does]"))
      button.addEventListener("click", () => this.actions[button.dataset.does]());
    byId("slider").addEventListener("input", (event) => this.go(Number(event.target.value)));
    byId("log-rank").addEventListener("change", (event) => {
      this.logRank = Number(event.target.value);
      this.drawLog();
    });
    byId("query").addEventListener("input", () => this.find());
    byId("query").addEventListener("keydown", (event) => {
      if (event.key === "Enter") byId("found").querySelector("button")?.click();
      if (event.key === "Escape") byId("query").blur();
    });
    byId("table").addEventListener("toggle", () => this.drawTable());
    addEventListener("keydown", (event) => this.press(event));
    addEventListener("hashchange", () => this.openLink());
    addEventListener("resize", () => this.lanes.paint());
    const repaint = () => {
      this.lanes.stale = true;
      this.lanes.paint();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    addEventListener("beforeprint", repaint);
    this.listenToPointer(byId("lanes"));
  }

  listenToPointer(canvas) {
    let from = null;
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      from = event.offsetX;
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from !== null) {
        moved += Math.abs(event.offsetX - from);
        this.view(() => this.lanes.pan((from - event.offsetX) / this.lanes.columns));
        from = event.offsetX;
      }
      this.drawPointer(this.lanes.find(event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointerup", (event) => {
      const found = moved < 4 ? this.lanes.find(event.offsetX, event.offsetY) : null;
      from = null;
      if (found && found.operation >= 0) this.go(this.run.firstStep[found.operation]);
    });
    canvas.addEventListener("pointercancel", () => {
      from = null;
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.altKey) return; // the page scrolls
        event.preventDefault();
        this.view(() => this.lanes.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.lanes.time(event.offsetX)));
      },
      { passive: false },
    );
  }

  press(event) {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if ((key === " " || key === "Enter") && /^(BUTTON|SUMMARY|A)$/.test(target.tagName)) return;
    const does = {
      ArrowLeft: event.shiftKey ? "panLeft" : "previousStep",
      ArrowRight: event.shiftKey ? "panRight" : "nextStep",
      n: "nextOperation",
      N: "previousOperation",
      " ": "nextStep",
      a: "play",
      Home: "start",
      End: "end",
      "+": "zoomIn",
      "=": "zoomIn",
      "-": "zoomOut",
      f: "fit",
      "/": "find",
      "?": "help",
    }[key];
    if (does) this.actions[does]();
    else if (/^\d$/.test(key) && Number(key) < this.run.data.ranks) this.openLog(Number(key));
    else return;
    event.preventDefault();
  }

  openLog(rank) {
    this.logRank = rank;
    byId("log-rank").value = String(rank);
    this.drawLog();
    byId("log").focus();
  }

  /** Draw what is the same at all steps. */
  drawOnce() {
    const { data } = this.run;
    byId("title").textContent = data.title || data.script;
    byId("reason").textContent = data.reason;
    byId("slider").max = String(this.run.last);
    byId("keys-table").replaceChildren(
      ...KEYS.map(([key, does]) => element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, does))),
    );
    byId("log-rank").replaceChildren(
      ...this.run.ranks.map((rank) => element("option", { value: rank }, `rank ${rank}`)),
    );
    byId("marks-legend").textContent = data.legend;
    const lines = data.source ?? [`The script ${data.script} could not be read.`];
    byId("source").replaceChildren(
      ...lines.map((line, at) =>
        element(
          "div",
          {},
          element("span", { class: "mark" }),
          element("span", { class: "number" }, data.source ? at + 1 : ""),
          element("span", {}, line),
        ),
      ),
    );
    this.drawEnding();
    this.drawReport(data.report, data.judged);
  }

  drawEnding() {
    const { run } = this;
    const box = byId("ending");
    if (run.data.isCut)
      box.append(
        element(
          "p",
          { class: "warn" },
          `The run was longer: this page holds its last ${run.last.toLocaleString("en")} calls.`,
        ),
      );
    for (const remark of run.at("remarks", run.last) ?? [])
      box.append(element("p", { class: "warn", dir: "auto" }, remark));
    box.append(
      ...this.failure(run.at("failure", run.last)),
      element("p", { class: "text" }, ...pieces(run.at("result", run.last) ?? [])),
    );
  }

  failure(found) {
    if (!found) return [];
    const [rank, traceback, hung, paths] = found;
    const parts = [];
    if (traceback) parts.push(element("p", { class: "bad" }, `rank ${rank}`), element("pre", {}, traceback));
    if (hung.length)
      parts.push(
        this.table(
          ["", "waits in", "stands at"],
          hung.map(([who, [waits], place]) => [`rank ${who}`, waits, place]),
        ),
      );
    return [...parts, ...paths.map(([who, path]) => element("p", { class: "quiet" }, `rank ${who}  ${path}`))];
  }

  drawReport(sections, judged) {
    const box = byId("report");
    box.hidden = !sections.length;
    if (judged) {
      byId("report-title").textContent = "The verdict";
      box.open = true;
    }
    for (const { title, heads, rows, sentences } of sections) {
      box.append(element("h3", {}, title));
      if (rows.length)
        box.append(
          element(
            "div",
            { class: "scrolls", tabindex: 0, role: "group", "aria-label": title },
            this.table(heads, rows),
          ),
        );
      box.append(...sentences.map((each) => element("p", { dir: "auto" }, each)));
    }
  }

  table(heads, rows) {
    const head = heads.map((each) => (each ? element("th", { scope: "col" }, each) : element("td")));
    const body = rows.map(([name, ...cells]) =>
      element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((each) => element("td", {}, each))),
    );
    return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  }

  /** Draw this step. */
  draw() {
    const { run, step } = this;
    const at = (slot) => run.at(slot, step);
    byId("step").textContent = [`call ${step} of ${run.last}`, ...(at("next") ?? [])].join(" · ");
    byId("slider").value = String(step);
    const [line, more] = at("operation") ?? [[], []];
    byId("operation").replaceChildren(
      ...pieces(line),
      ...more.map((part) => element("span", { class: "quiet" }, ` · ${part}`)),
    );
    const claims = (at("claims") ?? []).map(([verdict, text]) =>
      element("tr", {}, element("td", {}, ...pieces([verdict])), element("td", {}, text)),
    );
    if (at("toCome")) claims.push(element("tr", {}, element("td", { class: "quiet", colspan: 2 }, at("toCome"))));
    byId("claims").replaceChildren(...claims);
    byId("claims-title").hidden = !claims.length;
    byId("lines").replaceChildren(
      ...(at("lines") ?? []).map((number) =>
        element("li", {}, element("span", { class: "quiet" }, `rank ${run.logs.ranks[number]}  `), run.text(number)),
      ),
    );
    this.drawValues();
    this.drawOperation();
    this.drawMarks();
    this.drawLog();
    if (byId("table").open) this.drawTable();
    this.lanes.paint();
    byId("lanes").setAttribute("aria-label", `What each rank did over time: ${byId("step").textContent}`);
  }

  drawValues() {
    const { run, step } = this;
    const fresh = new Set((run.at("new", step) ?? []).map(([label, rank]) => `${label}.${rank}`));
    const row = (name, cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    const plain = (slot, tone) =>
      run.ranks.map((rank) => element("td", { class: tone }, run.at(`${slot}.${rank}`, step) ?? "-"));
    const rows = [
      row("doing", plain("doing", "quiet")),
      row("input", plain("input", "code")),
      row("output", plain("output", "code")),
    ];
    for (const label of run.at("labels", step) ?? []) {
      const curves = run.ranks.map((rank) => run.curve(label, rank, step));
      const all = curves.flat();
      const low = all.reduce((found, each) => Math.min(found, each), 0);
      const high = all.reduce((found, each) => Math.max(found, each), 0);
      rows.push(
        row(
          run.labels[label],
          run.ranks.map((rank) => {
            const text = element(
              "span",
              fresh.has(`${label}.${rank}`) ? { class: "is-new" } : {},
              run.at(`value.${label}.${rank}`, step) ?? "-",
            );
            return element("td", {}, text, ...(curves[rank].length ? [this.sparkline(curves[rank], low, high)] : []));
          }),
        ),
      );
    }
    const heads = run.ranks.map((rank) => element("th", { scope: "col" }, `rank ${rank}`));
    byId("values").replaceChildren(
      element("thead", {}, element("tr", {}, element("td"), ...heads)),
      element("tbody", {}, ...rows),
    );
  }

  sparkline(values, low, high) {
    const name = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(name, "svg");
    const line = document.createElementNS(name, "polyline");
    const every = Math.ceil(values.length / 200);
    const some = values.filter((_, at) => at % every === 0 || at === values.length - 1);
    const points = some.map(
      (value, at) =>
        `${((at / (some.length - 1)) * 100).toFixed(1)},${(19 - ((value - low) / (high - low || 1)) * 18).toFixed(1)}`,
    );
    line.setAttribute("points", points.join(" "));
    for (const [attribute, value] of [
      ["viewBox", "0 0 100 20"],
      ["preserveAspectRatio", "none"],
      ["aria-hidden", "true"],
    ])
      picture.setAttribute(attribute, value);
    picture.append(line);
    return picture;
  }

  /** Draw the operation of this step's call, with its line of source. */
  drawOperation() {
    const { run, step } = this;
    const number = run.called[step] ?? -1;
    byId("call-title").textContent =
      number < 0 ? "Operation" : `Operation ${number + 1} of ${run.operations.names.length}`;
    byId("call").textContent = number < 0 ? "the run has ended" : run.operationText(number);
    byId("code").textContent = number < 0 ? "" : run.operations.lines[run.operations.places[number]][1];
    byId("code").hidden = !byId("code").textContent;
  }

  drawMarks() {
    const { run, step } = this;
    const marks = new Map(run.at("marks", step) ?? []);
    byId("elsewhere").replaceChildren(
      ...(run.at("elsewhere", step) ?? []).map((each) => element("li", { class: "warn" }, each)),
    );
    if (!run.data.source) return;
    const number = run.called[step] ?? -1;
    const next = number < 0 ? 0 : run.operations.numbers[run.operations.places[number]];
    const rows = byId("source").children;
    for (const row of this.marked ?? []) {
      row.classList.remove("here");
      row.firstChild.textContent = "";
    }
    this.marked = [];
    for (const line of new Set([...marks.keys(), next])) {
      const row = rows[line - 1];
      if (!row) continue;
      row.firstChild.textContent = marks.get(line) ?? "";
      row.classList.toggle("here", line === next);
      this.marked.push(row);
    }
    const shown = rows[(next || Math.max(0, ...marks.keys())) - 1];
    if (shown) byId("source").scrollTop = shown.offsetTop - byId("source").offsetTop - byId("source").clientHeight / 3;
  }

  drawLog() {
    const { run, step } = this;
    const numbers = run.upTo(run.printed[this.logRank] ?? [], step);
    const rows = numbers.slice(-2 * ROWS).map((number) => {
      const time = element("span", { class: "quiet" }, `${(run.logs.times[number] / 1e6).toFixed(2).padStart(7)}  `);
      const error = run.logs.errors.has(number) ? [element("span", { class: "warn" }, "err ")] : [];
      return element("li", {}, time, ...error, run.text(number));
    });
    const left = numbers.length - rows.length;
    if (left > 0) rows.unshift(element("li", { class: "quiet" }, `${left.toLocaleString("en")} earlier lines`));
    if (!rows.length) rows.push(element("li", { class: "quiet" }, `No output of rank ${this.logRank} was recorded.`));
    byId("log").replaceChildren(...rows);
    byId("log").scrollTop = byId("log").scrollHeight;
  }

  /** Draw the operations around this step as a table, which says what the timeline shows. */
  drawTable() {
    const { run } = this;
    const { names, more, places, lines, starts, lasted } = run.operations;
    const current = run.called[this.step] ?? names.length - 1;
    const from = Math.max(0, Math.min(current - ROWS / 2, names.length - ROWS));
    const rows = names
      .slice(from, from + ROWS)
      .map((name, at) => [from + at, name])
      .map(([number, name]) => {
        const button = element(
          "button",
          { type: "button", ...(number === current ? { "aria-current": "step" } : {}) },
          `${number + 1}`,
        );
        button.addEventListener("click", () => this.go(run.firstStep[number]));
        return [
          button,
          name,
          more[number],
          lines[places[number]][0],
          `${((starts[number] - this.lanes.first) / 1e6).toFixed(4)} s`,
          duration(lasted[number]),
        ];
      });
    const said = `${names.length.toLocaleString("en")} operations${names.length > ROWS ? `, ${ROWS} of them around this call` : ""}`;
    byId("table-body").replaceChildren(
      element("p", { class: "quiet" }, said),
      this.table(["number", "operation", "about", "line", "began", "lasted"], rows),
    );
  }

  drawPointer(found) {
    if (!found) return;
    const what =
      found.operation < 0
        ? []
        : [
            `operation ${found.operation + 1}`,
            this.run.operationText(found.operation),
            this.run.operations.lines[this.run.operations.places[found.operation]][1],
          ];
    byId("pointer").textContent = [`rank ${found.rank}`, `${found.kind} for ${duration(found.lasted)}`, ...what]
      .filter(Boolean)
      .join(" · ");
  }

  /** List the operations and lines that hold what is typed. */
  find() {
    const { run } = this;
    const query = byId("query").value.trim().toLowerCase();
    const found = [];
    const add = (text, step) => {
      if (found.length <= ROWS && text.toLowerCase().includes(query)) found.push([text, step]);
    };
    if (query) {
      run.operations.names.forEach((_, number) =>
        add(
          `operation ${number + 1} · ${run.operationText(number)} · ${run.operations.lines[run.operations.places[number]][1]}`,
          run.firstStep[number],
        ),
      );
      run.logs.texts.forEach((_, number) =>
        add(`rank ${run.logs.ranks[number]} · ${run.text(number)}`, run.logs.steps[number]),
      );
    }
    const some = found.slice(0, ROWS);
    const count = found.length > ROWS ? `the first ${ROWS}` : `${found.length} found`;
    byId("found-count").textContent = query ? count : "";
    byId("found").replaceChildren(
      ...some.map(([text, step]) => {
        const button = element("button", { type: "button" }, text.length > 300 ? `${text.slice(0, 300)} ...` : text);
        button.addEventListener("click", () => this.go(step));
        return element("li", {}, button);
      }),
    );
  }
}

load().then((data) => {
  const page = new Page(new Run(data));
  document.documentElement.dataset.ready = "yes";
  Object.assign(globalThis, { ddpquizPage: page, ddpquizReady: performance.now() }); // for a console, tests and benchmarks
});
