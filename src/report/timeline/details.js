/* SPDX-License-Identifier: Apache-2.0 */
/* The words about an event: the tooltip, and the panel of the selection. Text is set as text,
 * never as markup: names come from a recording. */

function swatch(group) { return element("i", "swatch k-" + group); }

class Tip {
  constructor(box, model) {
    this.box = box;
    this.model = model;
    this.hide();
  }

  /* Of an event, of a piece of the critical path, or of both (-1: none). */
  show(event, piece, x, y, stage) {
    if (event !== this.event || piece !== this.piece) {
      this.box.replaceChildren(
          ...(piece >= 0 ? this.ofPiece(piece) : []), ...(event >= 0 ? this.ofEvent(event) : []));
      [this.event, this.piece] = [event, piece];
    }
    this.box.hidden = false;
    const w = this.box.offsetWidth, h = this.box.offsetHeight;
    this.box.style.left = `${Math.max(4, Math.min(x + 14, stage.clientWidth - w - 8))}px`;
    this.box.style.top = `${y + 18 + h > stage.clientHeight ? Math.max(4, y - h - 12) : y + 18}px`;
  }

  ofEvent(event) {
    const {model} = this, d = model.describe(event), head = element("b", "", d.short);
    head.prepend(swatch(GROUPS[model.group[model.name[event]]]));
    const lines = [
      head, element("p", "", `${humanNs(d.duration_ns)} from ${humanNs(d.start_ns)}`),
      element(
          "p", "soft",
          `${d.kind} · rank ${d.rank}, ${d.lane}${d.on_path ? " · on the critical path" : ""}`)
    ];
    for (const [key, value] of model.args(event).slice(0, 6)) {
      const line = element("p", "arg");
      line.append(element("span", "soft", key), ` ${value}`);
      lines.push(line);
    }
    return lines;
  }

  ofPiece(piece) {
    const {model} = this, {path} = model, bound = model.meta.bounds[path.bound[piece]];
    const head = element("p", "", `Critical path: ${BOUND_WORDS[bound]}`),
          name = model.meta.names[path.name[piece]];
    head.prepend(swatch(GROUP_OF_BOUND[bound]), " ");
    const wait = path.wait[piece] ? "wait before" : "in";
    return [
      head,
      element(
          "p", "soft",
          `${humanNs(path.start[piece + 1] - path.start[piece])} ${wait} ${name[1] || name[0]}`)
    ];
  }

  hide() {
    this.event = this.piece = -1;
    this.box.hidden = true;
  }
}

class Details {
  /* go(event): select it and bring it into view */
  constructor(box, model, go) {
    this.box = box;
    this.model = model;
    this.go = go;
  }

  show(event, links) {
    const {model, box} = this;
    box.hidden = event < 0;
    if (event < 0) return;
    const d = model.describe(event), list = element("dl", "facts");
    const fact = (key, value) => list.append(element("dt", "", key), element("dd", "", value));
    const head = element("h3", "", d.short);
    head.prepend(swatch(GROUPS[model.group[model.name[event]]]));
    fact("kind", d.kind);
    fact("duration", `${humanNs(d.duration_ns)} (${d.duration_ns.toLocaleString("en")} ns)`);
    fact("start", `${humanNs(d.start_ns)} (${d.start_ns.toLocaleString("en")} ns)`);
    fact("where", `rank ${d.rank}, ${d.lane}${d.depth ? `, ${d.depth} deep` : ""}`);
    if (d.on_path) fact("critical path", "yes");
    if (d.short !== d.name) fact("full name", d.name);
    for (const [key, value] of model.args(event)) fact(key, value);
    const sides = element("div", "sides");
    sides.append(this.links("Waits for", links.into), this.links("Is waited for by", links.out));
    if (links.peers.length)
      sides.append(this.links(
          "The same communication on", links.peers.map((peer) => ({event: peer, kind: ""}))));
    box.replaceChildren(head, list, sides);
  }

  links(title, links) {
    const {model} = this, box = element("div"), list = element("ul");
    box.append(element("h4", "", `${title} (${links.length})`), list);
    for (const link of links.slice(0, 24)) {
      const item = element("li"), d = model.describe(link.event);
      const button = element("button", "link", d.short);
      button.type = "button";
      button.title = d.name;
      button.addEventListener("click", () => this.go(link.event));
      item.append(
          swatch(GROUPS[model.group[model.name[link.event]]]), button,
          element(
              "span", "soft",
              ` ${link.kind ? link.kind + ", " : ""}rank ${d.rank}, ${d.lane}, ${
                  humanNs(d.duration_ns)}`));
      list.append(item);
    }
    if (links.length > 24) list.append(element("li", "soft", `and ${links.length - 24} more`));
    if (!links.length) list.append(element("li", "soft", "nothing beyond the order of its lane"));
    return box;
  }
}
