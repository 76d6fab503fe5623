/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at, and how people change it. One frame is drawn per change, however many
 * events of the pointer there were. */

class View {
  constructor(model) {
    this.model = model;
    this.stage = document.getElementById("stage");
    this.scroller = document.getElementById("lanes");
    this.spacer = document.getElementById("spacer");
    this.base = document.getElementById("base");
    this.over = document.getElementById("over");
    this.layout = new Layout(model);
    this.painter = new Painter(this.base, model);
    this.overlay = new Overlay(this.over, this.painter);
    this.minimap = new Minimap(this.base, this.painter);
    this.tip = new Tip(document.getElementById("tip"), model);
    this.details =
        new Details(document.getElementById("details"), model, (event) => this.go(event));
    this.from = 0;
    this.to = model.span;
    this.hover = this.selected = -1;
    this.links = {into: [], out: [], peers: []};
    this.marked = []; /* events that a link leads to */
    this.pointer = null;
    this.showPath = true;
    this.matches = null;
    this.drawMs = 0;
    this.dirty = new Set();
    new ResizeObserver(() => this.resize()).observe(this.stage);
    this.resize();
  }

  resize() {
    const tall = Math.min(this.layout.height + TOP, Math.max(320, Math.round(innerHeight * 0.72)));
    this.stage.style.height = `${tall}px`;
    this.spacer.style.height = `${this.layout.height}px`;
    this.width = this.scroller.clientWidth;
    this.height = tall - 2;
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${this.height}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.draw();
  }

  relayout() {
    this.layout.update();
    this.resize();
  }

  look() {
    return {
      from: this.from,
      to: this.to,
      scroll: this.scroller.scrollTop,
      width: this.width,
      height: this.height,
      showPath: this.showPath,
      matches: this.matches
    };
  }

  /* On paper, or in a window as narrow as the names of lanes, there is no room for any event. */
  draw() {
    if (this.width <= GUTTER) return this.dirty.clear();
    const began = performance.now(), look = this.look();
    this.dirty.clear();
    this.painter.draw(look, this.layout);
    this.minimap.draw(look);
    this.drawOver();
    document.getElementById("range").textContent =
        `${humanNs(this.from)} to ${humanNs(this.to)} · ${humanNs(this.to - this.from)}`;
    this.drawMs = performance.now() - began;
  }

  drawOver() {
    if (this.width > GUTTER) this.overlay.draw(this.look(), this.layout, this);
  }

  /* Draw with the next frame: "all", or only the upper canvas ("over"). */
  touch(what = "all") {
    if (!this.dirty.size)
      requestAnimationFrame(() => {
        if (this.dirty.has("all"))
          this.draw();
        else if (this.dirty.size)
          this.drawOver();
        this.dirty.clear();
      });
    this.dirty.add(what);
  }

  /* Show [from, to), within what there is; no closer than ten ns across. */
  zoom(from, to) {
    const span = this.model.span, length = Math.min(Math.max(to - from, 10), span * 1.04);
    from = (from + to - length) / 2;
    this.from = Math.max(-span * 0.02, Math.min(from, span * 1.02 - length));
    this.to = this.from + length;
    this.touch();
  }

  zoomAt(x, factor) {
    const at = this.time(x);
    this.zoom(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(pixels) {
    const ns = pixels * (this.to - this.from) / (this.width - GUTTER);
    this.zoom(this.from + ns, this.to + ns);
  }

  /* The same over a few frames, so that the eye can follow. */
  glide(from, to) {
    const [from0, to0, began] = [this.from, this.to, performance.now()];
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden)
      return this.zoom(from, to);
    const step = (now) => {
      if (this.gliding !== step) return;
      const t = Math.min(1, (now - began) / 160), part = t * (2 - t);
      this.zoom(from0 + (from - from0) * part, to0 + (to - to0) * part);
      if (t < 1)
        requestAnimationFrame(step);
      else
        this.gliding = null;
    };
    this.gliding = step;
    requestAnimationFrame(step);
  }

  fit() {
    if (this.selected < 0) return this.glide(0, this.model.span);
    const start = this.model.start[this.selected],
          length = Math.max(this.model.duration[this.selected], 20);
    this.glide(start - length * 0.4, start + length * 1.4);
  }

  time(x) { return this.from + (x - GUTTER) / (this.width - GUTTER) * (this.to - this.from); }

  /* The event at a point of the stage, or -1. */
  hit(x, y) {
    const inList = y - TOP + this.scroller.scrollTop,
          band = y > TOP && x >= GUTTER ? this.layout.bandAt(inList) : null;
    if (!band) return -1;
    const piece = this.pieceAt(x, y);
    if (piece >= 0) return this.model.path.event[piece];
    const at = (band.rows ||
                []).find((row) => inList >= band.y + row.y && inList < band.y + row.y + row.h + 1);
    if (!at) return -1;
    const {model} = this, row = model.rows[at.row],
          perPx = (this.to - this.from) / (this.width - GUTTER);
    const ns = this.time(x), reach = perPx * 1.5, first = model.firstEnding(row.first, row.end, ns);
    if (first < row.end && model.start[first] <= ns) return first;
    const lo = model.firstEnding(row.first, row.end, ns - reach);
    let hi = lo;
    while (hi < row.end && hi < lo + 4096 && model.start[hi] < ns + reach) hi++;
    return hi > lo ? model.longest(lo, hi) : -1;
  }

  /* The piece of the critical path at a point of its band, or -1. */
  pieceAt(x, y) {
    const band =
        y > TOP && x >= GUTTER ? this.layout.bandAt(y - TOP + this.scroller.scrollTop) : null;
    if (!band || band.type !== "path") return -1;
    const ns = this.time(x), piece = this.model.pieceAfter(ns);
    return piece < this.model.path.n && this.model.path.start[piece] <= ns ? piece : -1;
  }

  select(event) {
    this.selected = event;
    if (event < 0) this.marked = [];
    this.links = event < 0 ? {into: [], out: [], peers: []} : neighbours(this.model, event);
    this.details.show(event, this.links);
    this.touch("over");
  }

  /* Select and bring into view, sideways and upright; not nearer than it was. */
  go(event) {
    const {model} = this, row = model.rowOf(event);
    if (this.layout.reveal(row)) this.resize();
    const {y} = this.layout.rowAt.get(row), room = this.height - TOP;
    if (y < this.scroller.scrollTop + 10 || y > this.scroller.scrollTop + room - 40)
      this.scroller.scrollTop = Math.max(0, y - room / 2);
    const start = model.start[event], end = start + model.duration[event],
          length = this.to - this.from;
    if (end - start > length || end - start < length / 5000)
      this.glide(start - (end - start) * 2, end + (end - start) * 2);
    else if (start < this.from || end > this.to)
      this.glide((start + end - length) / 2, (start + end + length) / 2);
    this.select(event);
  }

  /* Mark these events, select the first, and show all of them. */
  mark(events) {
    const {model} = this, rows = events.map((event) => model.rowOf(event));
    for (const row of rows) this.layout.reveal(row);
    this.resize();
    const {y} = this.layout.rowAt.get(rows[0]);
    this.scroller.scrollTop = Math.max(0, y - (this.height - TOP) / 2);
    const from = Math.min(...events.map((event) => model.start[event])),
          to = Math.max(...events.map((event) => model.start[event] + model.duration[event])),
          margin = Math.max(to - from, 20) * (events.length > 1 ? 0.05 : 2);
    this.glide(from - margin, to + margin);
    this.select(events[0]);
    this.marked = events;
    this.touch("over");
  }

  setTheme() {
    textColors = {};
    this.painter.palette = new Palette();
    this.touch();
  }
}
