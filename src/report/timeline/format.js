/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them, as human.c writes them; and text that fits. */

function inUnit(value, units) {
  const size = Math.abs(value);
  let [scale, name] = units[0];
  for (const [s, unit] of units)
    if (size >= s * 0.99995) [scale, name] = [s, unit];
  if (scale === units[0][0] && Number.isInteger(value)) return `${value} ${name}`;
  const scaled = value / scale, left = Math.abs(scaled);
  return `${scaled.toFixed(left < 9.9995 ? 3 : left < 99.995 ? 2 : 1)} ${name}`;
}

const humanNs = (ns) => inUnit(ns, [[1, "ns"], [1e3, "us"], [1e6, "ms"], [1e9, "s"]]);
const humanBytes = (bytes) =>
    inUnit(bytes, [[1, "B"], [1024, "KiB"], [2 ** 20, "MiB"], [2 ** 30, "GiB"]]);

/* A time on the ruler, in the unit of the last one: as many digits as the step between marks needs.
 */
function tickLabel(ns, step, last) {
  const [scale, unit] = last >= 1e9 ? [1e9, "s"] :
      last >= 1e6                   ? [1e6, "ms"] :
      last >= 1e3                   ? [1e3, "us"] :
                                      [1, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale)));
  return `${(ns / scale).toLocaleString("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits
  })} ${unit}`;
}

/* 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10])
    if (power * factor >= least) return power * factor;
  return power * 10;
}

/* Text cut to a width; widths are measured once a text. */
class TextFit {
  constructor(font) {
    this.font = font;
    this.widths = new Map();
  }
  width(ctx, text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      ctx.font = this.font;
      width = ctx.measureText(text).width;
      if (this.widths.size > 20000) this.widths.clear();
      this.widths.set(text, width);
    }
    return width;
  }
  cut(ctx, text, room) {
    const width = this.width(ctx, text);
    if (width <= room) return text;
    const keep = Math.floor(text.length * room / width) - 1;
    return keep < 2 ? "" : text.slice(0, keep) + "…";
  }
}
