/* SPDX-License-Identifier: Apache-2.0 */
/* The upper canvas: what changes with the pointer and the selection. Outlines, the line of the
 * pointer's time, arrows of dependencies, and the steps of the critical path from lane to lane. */

class Overlay {
  constructor(canvas, painter) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.painter = painter;
  }

  /* marks: { hover, selected, marked, links: {into, out, peers}, pointer: x or null } */
  draw(view, layout, marks) {
    const {ctx, painter} = this;
    this.view = view;
    this.layout = layout;
    ctx.clearRect(0, 0, view.width, view.height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(GUTTER, TOP, view.width - GUTTER, view.height - TOP);
    ctx.clip();
    if (view.showPath) this.steps();
    if (marks.pointer !== null && marks.pointer > GUTTER) {
      ctx.fillStyle = painter.palette.faint;
      ctx.fillRect(Math.round(marks.pointer), TOP, 1, view.height);
    }
    if (marks.hover >= 0 && marks.hover !== marks.selected)
      this.outline(marks.hover, painter.palette.ink, 1);
    for (const event of marks.marked) this.outline(event, painter.palette.hit, 2);
    if (marks.selected >= 0) this.selection(marks.selected, marks.links);
    ctx.restore();
  }

  /* Rectangle of an event on the canvas, or null where its row is not shown. */
  box(event) {
    const {painter, layout, view} = this, {model} = painter;
    const at = layout.rowAt.get(model.rowOf(event));
    if (!at) return null;
    const x1 = painter.x(model.start[event]),
          x2 = painter.x(model.start[event] + model.duration[event]);
    return {x: x1, y: TOP + at.y - view.scroll, w: Math.max(x2 - x1, 1.5), h: at.h};
  }

  outline(event, color, width) {
    const box = this.box(event);
    if (!box) return;
    const x = Math.max(box.x, GUTTER - 5), w = Math.min(box.x + box.w, this.view.width + 5) - x;
    this.ctx.lineWidth = width;
    this.ctx.strokeStyle = color;
    this.ctx.strokeRect(x - 0.5, box.y - 0.5, w + 1, box.h + 1);
  }

  selection(event, links) {
    const {palette} = this.painter;
    for (const link of links.into) this.arrow(link.event, event, link.kind);
    for (const link of links.out) this.arrow(event, link.event, link.kind);
    this.ctx.setLineDash([4, 3]);
    for (const peer of links.peers) {
      this.outline(peer, palette.hit, 1.5);
      this.link(event, peer, palette.hit);
    }
    this.ctx.setLineDash([]);
    this.outline(event, palette.hit, 2);
  }

  /* From the point of `from` that the dependency ties to the start of `to`. A call ties its start.
   */
  arrow(from, to, kind) {
    const a = this.box(from), b = this.box(to), {ctx} = this;
    if (!a || !b) return;
    const early = kind === "launch" || kind === "control";
    const x1 = early ? a.x : a.x + a.w, y1 = a.y + a.h / 2;
    const x2 = kind === "sync" ? b.x + b.w : b.x, y2 = b.y + b.h / 2;
    const bend = Math.max(18, Math.min(90, Math.abs(x2 - x1) / 2));
    ctx.strokeStyle = ctx.fillStyle = this.painter.palette.hit;
    ctx.lineWidth = 1.4;
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 1, y2);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x2, y2);
    ctx.lineTo(x2 - 7, y2 - 4);
    ctx.lineTo(x2 - 7, y2 + 4);
    ctx.fill();
    ctx.beginPath();
    ctx.arc(x1, y1, 2.5, 0, 7);
    ctx.fill();
  }

  link(from, to, color) {
    const a = this.box(from), b = this.box(to), {ctx} = this;
    if (!a || !b) return;
    ctx.strokeStyle = color;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(a.x + a.w, a.y + a.h / 2);
    ctx.lineTo(b.x + b.w, b.y + b.h / 2);
    ctx.stroke();
  }

  /* Where the path leaves one lane for another: a line at that moment, fainter where there are
   * many. */
  steps() {
    const {painter, view, layout, ctx} = this, {path} = painter.model, lines = [];
    const {changes, row, start} = path;
    let at = 0, last = -1;
    for (let hi = changes.length; at < hi;) {
      const mid = (at + hi) >>> 1;
      if (start[changes[mid]] >= view.from)
        hi = mid;
      else
        at = mid + 1;
    }
    for (; at < changes.length && start[changes[at]] < view.to; at++) {
      const x = Math.round(painter.x(start[changes[at]]));
      if (x === last) continue;
      last = x;
      let before = changes[at] - 1;
      while (row[before] < 0) before--;
      const [a, b] =
          [row[before], row[changes[at]]].map((r) => layout.placeOf(r)).sort((p, q) => p.y - q.y);
      if (a !== b) lines.push([x, TOP + a.y + a.h - view.scroll, b.y + b.h - a.y - a.h]);
    }
    ctx.fillStyle = painter.palette.path;
    ctx.globalAlpha = lines.length > 120 ? 0.3 : 0.85;
    for (const [x, y, h] of lines) ctx.fillRect(x - 0.75, y, 1.5, h);
    ctx.globalAlpha = 1;
  }
}

/* All of the time on one strip: what each rank's busiest lane did, and where the view is. */
class Minimap {
  constructor(canvas, painter) {
    this.canvas = canvas;
    this.painter = painter;
  }

  draw(view) {
    const {model, palette} = this.painter, ctx = this.painter.ctx;
    const shown = model.ranks.slice(0, 6).filter((rank) => rank.lanes.length);
    const plot = view.width - GUTTER,
          h = Math.max(3, Math.floor((MINIMAP - 14) / Math.max(1, shown.length)) - 1);
    ctx.fillStyle = palette.page;
    ctx.fillRect(0, 0, view.width, MINIMAP);
    const painter = Object.create(this.painter);
    painter.view =
        {from: 0, to: model.span, showPath: false, matches: view.matches, width: view.width};
    painter.plot = plot;
    painter.perPx = model.span / plot;
    shown.forEach((rank, i) => {
      const lanes = rank.lanes.map((l) => model.lanes[l]);
      const lane = lanes.reduce(
          (a, b) => (b.device > a.device || (b.device === a.device && b.count > a.count) ? b : a));
      painter.row(model.rows[busiestRow(model, lane)], 6 + i * (h + 1), h);
    });
    const x1 = GUTTER + view.from / model.span * plot, x2 = GUTTER + view.to / model.span * plot;
    ctx.fillStyle = palette.page;
    ctx.globalAlpha = 0.62;
    ctx.fillRect(GUTTER, 0, x1 - GUTTER, MINIMAP);
    ctx.fillRect(x2, 0, view.width - x2, MINIMAP);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x1 + 0.75, 2.75, Math.max(3, x2 - x1 - 1.5), MINIMAP - 6.5);
    ctx.font = FONT;
    ctx.fillStyle = palette.soft;
    ctx.fillText(`${humanNs(model.span)} in all`, 18, MINIMAP / 2 + 4);
  }
}
