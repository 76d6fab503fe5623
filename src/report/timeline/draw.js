/* SPDX-License-Identifier: Apache-2.0 */
/* The lower canvas: everything that changes only when the view does. What is narrower than a
 * pixel is gathered into bins that are fixed in time, so that colours hold still while one pans;
 * a row costs at most two rectangles a pixel, however many events it has. */

const FONT = "11px ui-sans-serif, system-ui, -apple-system, \"Segoe UI\", Roboto, sans-serif";
const TINTS = 4, SHADES = 4;

/* "#3b76c4" lighter (amount > 0) or darker. */
function shift(hex, amount) {
  const to = amount > 0 ? 255 : 0, part = Math.abs(amount);
  return "#" +
      [1, 3, 5]
          .map((i) => {
            const c = parseInt(hex.slice(i, i + 2), 16);
            return Math.round(c + (to - c) * part).toString(16).padStart(2, "0");
          })
          .join("");
}

function mix(a, b, part) {
  return "#" +
      [1, 3, 5]
          .map((i) => {
            const x = parseInt(a.slice(i, i + 2), 16), y = parseInt(b.slice(i, i + 2), 16);
            return Math.round(x * part + y * (1 - part)).toString(16).padStart(2, "0");
          })
          .join("");
}

/* The colours of the style sheet, and those that follow from them. */
class Palette {
  constructor() {
    for (const name of ["page", "panel", "ink", "soft", "faint", "line", "path", "accent", "hit"])
      this[name] = themeColor(name);
    this.fill = GROUPS.map((group) => {
      const base = themeColor("k-" + group);
      return [0, 0.12, -0.09, 0.22].slice(0, TINTS).map((amount) => shift(base, amount));
    });
    /* bins less than full are nearer to the panel's colour */
    this.shade =
        this.fill.map((tints) => [0.4, 0.6, 0.8, 1].map((part) => mix(tints[0], this.panel, part)));
    this.dim = this.fill.map((tints) => mix(tints[0], this.panel, 0.16));
    this.bounds = {};
    for (const [bound, group] of Object.entries(GROUP_OF_BOUND))
      this.bounds[bound] = themeColor("k-" + group);
  }
}

const GROUP_OF_BOUND = {
  cpu_bound: "host",
  gpu_compute_bound: "compute",
  gpu_communication_bound: "comm",
  gpu_memory_bound: "memory",
  gpu_kernel_kernel_overhead: "overhead",
  gpu_kernel_launch_overhead: "runtime",
  between_operators: "other",
  data_loading: "python",
  waiting_for_peer: "peer",
  none: "other",
};
const BOUND_WORDS = {
  cpu_bound: "host (CPU)",
  gpu_compute_bound: "computation",
  gpu_communication_bound: "communication",
  gpu_memory_bound: "memory",
  gpu_kernel_kernel_overhead: "gap between kernels",
  gpu_kernel_launch_overhead: "launch delay",
  between_operators: "between operators",
  data_loading: "data loading",
  waiting_for_peer: "waiting for a peer",
  none: "nothing recorded",
};

class Painter {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d", {alpha: false});
    this.model = model;
    this.fit = new TextFit(FONT);
    this.palette = new Palette();
    this.tint = Uint8Array.from(model.meta.names, (name) => hash(name[1] || name[0]) % TINTS);
  }

  /* view: { from, to, scroll, width, height, showPath, matches } */
  draw(view, layout) {
    const {ctx, palette} = this;
    this.view = view;
    this.plot = view.width - GUTTER;
    this.perPx = (view.to - view.from) / this.plot;
    ctx.fillStyle = palette.panel;
    ctx.fillRect(0, TOP, view.width, view.height);
    this.grid();
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, TOP, view.width, view.height - TOP);
    ctx.clip();
    for (const band of layout.bands) {
      const y = TOP + band.y - view.scroll;
      if (y + band.h < TOP - 4 || y > view.height) continue;
      this.band(band, y);
    }
    ctx.restore();
    this.ruler();
  }

  x(ns) { return GUTTER + (ns - this.view.from) / this.perPx; }

  band(band, y) {
    const {ctx, view, palette} = this;
    if (band.type === "rank") {
      this.rankHead(band, y);
      return;
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(GUTTER, y, this.plot, band.h + 4);
    ctx.clip();
    if (band.type === "path")
      this.pathBand(y, band.h - 3);
    else if (band.type === "counter")
      this.counters(band, y);
    else
      for (const row of band.rows) {
        this.row(this.model.rows[row.row], y + row.y, row.h);
        if (view.showPath && band.type === "lane") this.pathInRow(row.row, y + row.y, row.h);
      }
    if (view.showPath && band.type === "strips") this.pathInRank(band.rank.index, y + band.h - 4);
    ctx.restore();
    if (band.type === "strips") return;
    ctx.font = FONT;
    ctx.fillStyle = palette.ink;
    ctx.fillText(this.fit.cut(ctx, band.label, GUTTER - 30), 18, y + 12);
    if (band.more && band.h >= 2 * ROW) {
      ctx.fillStyle = band.type === "lane" ? palette.accent : palette.soft;
      ctx.fillText(this.fit.cut(ctx, band.more, GUTTER - 30), 18, y + 12 + ROW);
    }
    ctx.fillStyle = palette.line;
    if (view.height > y + band.h)
      ctx.fillRect(0, Math.round(y + band.h + LANE_GAP / 2), view.width, 1);
  }

  rankHead(band, y) {
    const {ctx, palette, view} = this;
    ctx.fillStyle = palette.page;
    ctx.fillRect(0, y, view.width, band.h);
    ctx.fillStyle = palette.soft;
    ctx.beginPath();
    const [cx, cy] = [10, y + band.h / 2];
    if (band.closed)
      ctx.moveTo(cx - 2, cy - 4), ctx.lineTo(cx + 3, cy), ctx.lineTo(cx - 2, cy + 4);
    else
      ctx.moveTo(cx - 4, cy - 2), ctx.lineTo(cx, cy + 3), ctx.lineTo(cx + 4, cy - 2);
    ctx.fill();
    ctx.font = "600 " + FONT;
    ctx.fillStyle = palette.ink;
    ctx.fillText(band.label, 20, cy + 4);
    const lanes = band.rank.lanes.length,
          about = [`${lanes} lane${lanes === 1 ? "" : "s"}`, band.rank.device];
    ctx.font = FONT;
    ctx.fillStyle = palette.soft;
    ctx.fillText(about.filter(Boolean).join(" · "), GUTTER, cy + 4);
  }

  /* One row of a lane: wide events one by one, the others by bins; neighbours of one colour
   * together. */
  row(row, y, h) {
    const {model, view, perPx, ctx} = this, {start, duration} = model;
    const wide = perPx * 1.5, offset = Math.round(GUTTER - view.from / perPx),
          run = {color: "", from: 0, to: 0};
    const flush = () => {
      ctx.fillStyle = run.color;
      if (run.to > run.from) ctx.fillRect(run.from, y, run.to - run.from, h);
      run.from = run.to = 0;
    };
    for (let i = model.firstEnding(row.first, row.end, view.from);
         i < row.end && start[i] < view.to;) {
      if (duration[i] >= wide) {
        flush();
        this.event(i++, y, h);
        continue;
      }
      const bin = Math.floor(start[i] / perPx), x = bin + offset;
      let j = Math.max(i + 1, model.firstStarting(i, row.end, (bin + 1) * perPx));
      if (j - i > 1 && duration[j - 1] >= wide) j--;
      const color = this.binColor(i, j);
      if (x !== run.to || color !== run.color) {
        flush();
        run.from = x;
        run.color = color;
      }
      run.to = x + 1;
      i = j;
    }
    flush();
  }

  /* Of events [i, j), which share a pixel: the kind of the longest, paler where they do not fill
   * it. */
  binColor(i, j) {
    const {model, view, palette} = this, {matches} = view;
    const kind = model.group[model.name[j - i === 1 ? i : model.longest(i, j)]];
    if (matches && matches.before[j] === matches.before[i]) return palette.dim[kind];
    const full = (model.busy[j] - model.busy[i]) / this.perPx * SHADES;
    return palette.shade[kind][Math.min(SHADES - 1, Math.floor(full))];
  }

  /* Where the critical path spends its time in a row. */
  pathInRow(r, y, h) {
    const {model, view, ctx, palette} = this, {first, piece} = model.path.byRow,
                             {start} = model.path;
    const end = first[r + 1];
    let at = model.pieceInRowAfter(view.from, first[r], end);
    ctx.fillStyle = palette.path;
    while (at < end && start[piece[at]] < view.to) {
      const x1 = Math.max(this.x(start[piece[at]]), GUTTER - 1);
      const x2 = Math.max(this.x(start[piece[at] + 1]), x1 + 1);
      ctx.fillRect(x1, y + h - 3, x2 - x1, 3);
      at = model.pieceInRowAfter(
          view.from + (x2 - GUTTER) * this.perPx, at + 1, end); /* past this pixel */
    }
  }

  event(i, y, h) {
    const {model, view, ctx, palette} = this;
    const x1 = Math.max(this.x(model.start[i]), GUTTER - 1);
    const x2 = Math.min(this.x(model.start[i] + model.duration[i]), view.width + 1);
    const width = x2 - x1 - (x2 - x1 > 3 ? 0.7 : 0), name = model.name[i],
          group = model.group[name];
    const lit = !view.matches || view.matches.names[name];
    ctx.fillStyle = lit ? palette.fill[group][this.tint[name]] : palette.dim[group];
    ctx.fillRect(x1, y, width, h);
    if (width < 26 || h < ROW - 1) return;
    const text = this.fit.cut(ctx, model.shortName(i), width - 8);
    ctx.font = FONT;
    ctx.fillStyle = lit ? textOn(GROUPS[group]) : palette.soft;
    ctx.fillText(text, x1 + 4, y + 12);
  }

  pathInRank(rank, y) {
    const {model, view, ctx, palette} = this, runs = model.path.byRank[rank];
    ctx.fillStyle = palette.path;
    for (let i = 0, last = -1; i < runs.length && runs[i] < view.to; i += 2) {
      const x1 = Math.max(this.x(runs[i]), GUTTER - 1), x2 = this.x(runs[i + 1]);
      if (x2 <= last || x2 < GUTTER) continue;
      last = Math.max(x2, x1 + 1);
      ctx.fillRect(x1, y, last - x1, 3);
    }
  }

  /* The path as a lane of its own, by what bounds each piece. */
  pathBand(y, h) {
    const {model, view, ctx, palette, perPx} = this, {path} = model;
    for (let i = model.pieceAfter(view.from); i < path.n && path.start[i] < view.to;) {
      const x1 = Math.max(this.x(path.start[i]), GUTTER - 1);
      const j = Math.max(i + 1, model.pieceAfter(path.start[i] + perPx, i));
      let best = i; /* pieces of one pixel: the longest of some of them stands for all */
      for (let k = i, step = Math.ceil((j - i) / 16); k < j; k += step)
        if (path.start[k + 1] - path.start[k] > path.start[best + 1] - path.start[best]) best = k;
      const x2 = Math.min(this.x(path.start[j]), view.width + 1);
      const bound = model.meta.bounds[path.bound[best]];
      ctx.fillStyle =
          path.wait[best] ? mix(palette.bounds[bound], palette.panel, 0.45) : palette.bounds[bound];
      ctx.fillRect(x1, y, Math.max(1, x2 - x1 - (x2 - x1 > 3 ? 0.7 : 0)), h);
      if (j === i + 1 && x2 - x1 > 26) {
        const name = model.meta.names[path.name[i]];
        ctx.font = FONT;
        ctx.fillStyle = path.wait[i] ? palette.ink : textOn(GROUP_OF_BOUND[bound]);
        ctx.fillText(
            this.fit.cut(ctx, (path.wait[i] ? "wait: " : "") + (name[1] || name[0]), x2 - x1 - 8),
            x1 + 4, y + 12);
      }
      i = j;
    }
  }

  /* Memory of one device: what is allocated as an area, what is reserved as a line, one scale. */
  counters(band, y) {
    const {ctx, palette} = this;
    for (const {points, line} of band.series) {
      const bottom = y + band.h, top = (i) => bottom - points[i + 1] / band.most * (band.h - 2);
      ctx.beginPath();
      ctx.moveTo(this.x(points[0]), line ? top(0) : bottom);
      for (let i = 0; i < points.length; i += 2) {
        ctx.lineTo(this.x(points[i]), top(i));
        ctx.lineTo(i + 2 < points.length ? this.x(points[i + 2]) : this.x(this.model.span), top(i));
      }
      if (!line) ctx.lineTo(this.x(this.model.span), bottom);
      ctx.fillStyle = mix(palette.fill[GROUPS.indexOf("memory")][0], palette.panel, 0.35);
      ctx.strokeStyle = palette.faint;
      ctx.lineWidth = 1;
      if (line)
        ctx.stroke();
      else
        ctx.fill();
    }
  }

  marks() {
    const step = niceStep(this.perPx * 110), marks = [];
    for (let t = Math.ceil(this.view.from / step) * step; t <= this.view.to; t += step)
      marks.push(t);
    return {step, marks};
  }

  grid() {
    this.ctx.fillStyle = this.palette.line;
    for (const t of this.marks().marks)
      this.ctx.fillRect(Math.round(this.x(t)), TOP, 1, this.view.height);
  }

  ruler() {
    const {ctx, palette, view} = this, {step, marks} = this.marks();
    ctx.fillStyle = palette.panel;
    ctx.fillRect(0, MINIMAP, view.width, RULER);
    ctx.fillStyle = palette.line;
    ctx.fillRect(0, TOP - 1, view.width, 1);
    ctx.font = FONT;
    for (const t of marks) {
      const x = Math.round(this.x(t));
      ctx.fillStyle = palette.faint;
      ctx.fillRect(x, TOP - 6, 1, 6);
      ctx.fillStyle = palette.soft;
      ctx.fillText(tickLabel(t, step, view.to), x + 4, TOP - 9);
    }
  }
}

/* Text on a filled event: what the style sheet says is readable on that colour. */
let textColors = {};
function textOn(group) {
  return textColors[group] || (textColors[group] = themeColor("t-" + group));
}

function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 8;
}
