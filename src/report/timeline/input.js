/* SPDX-License-Identifier: Apache-2.0 */
/* Pointer, wheel and keys. A plain wheel scrolls, as everywhere; with Ctrl, or while the stage has
 * the focus, it zooms at the pointer; sideways and with Shift it pans. */

function listen(view) {
  const {stage, scroller} = view;
  let drag = null;

  const point = (e) => {
    const box = stage.getBoundingClientRect();
    return {x: e.clientX - box.left - stage.clientLeft, y: e.clientY - box.top - stage.clientTop};
  };

  scroller.addEventListener("wheel", (e) => {
    const {x} = point(e), sideways = e.shiftKey ? e.deltaY || e.deltaX : e.deltaX;
    if (e.ctrlKey || e.metaKey ||
        (stage.contains(document.activeElement) && !e.shiftKey &&
         Math.abs(e.deltaY) > Math.abs(e.deltaX))) {
      e.preventDefault();
      view.zoomAt(Math.max(x, GUTTER), Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.006));
    } else if (sideways) {
      e.preventDefault();
      view.pan(sideways);
    }
  }, {passive: false});
  scroller.addEventListener("scroll", () => view.touch());

  scroller.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || e.offsetX > scroller.clientWidth) return;
    const {x, y} = point(e);
    stage.focus({preventScroll: true});
    drag = {
      x,
      y,
      from: view.from,
      to: view.to,
      scroll: scroller.scrollTop,
      moved: false,
      onMap: y < MINIMAP && x > GUTTER
    };
    scroller.setPointerCapture(e.pointerId);
    if (drag.onMap) brush(x);
  });

  /* The minimap's window goes to the pointer. */
  function brush(x) {
    const at = (x - GUTTER) / (view.width - GUTTER) * view.model.span,
          half = (view.to - view.from) / 2;
    view.zoom(at - half, at + half);
  }

  scroller.addEventListener("pointermove", (e) => {
    const {x, y} = point(e);
    if (drag && drag.onMap) return brush(x);
    if (drag && (drag.moved || Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4)) {
      drag.moved = true;
      stage.classList.add("dragging");
      const ns = (drag.x - x) * (drag.to - drag.from) / (view.width - GUTTER);
      view.zoom(drag.from + ns, drag.to + ns);
      scroller.scrollTop = drag.scroll + drag.y - y;
      view.tip.hide();
      return;
    }
    hover(x, y);
  });

  function hover(x, y) {
    const event = view.hit(x, y), piece = view.pieceAt(x, y);
    view.pointer = y > MINIMAP ? x : null;
    view.hover = event;
    if (event >= 0 || piece >= 0)
      view.tip.show(event, piece, x, y, stage);
    else
      view.tip.hide();
    scroller.style.cursor = event >= 0 || x < GUTTER ? "pointer" : "";
    view.touch("over");
  }

  scroller.addEventListener("pointerup", (e) => {
    const {x, y} = point(e), was = drag;
    drag = null;
    stage.classList.remove("dragging");
    if (!was || was.moved || was.onMap) return;
    if (x < GUTTER || y < TOP) return toggleAt(y);
    view.select(view.hit(x, y));
  });

  function toggleAt(y) {
    const band = y > TOP ? view.layout.bandAt(y - TOP + scroller.scrollTop) : null;
    if (!band || band.type === "path" || band.type === "counter") return;
    view.layout.toggle(band);
    view.resize();
  }

  scroller.addEventListener("pointerleave", () => {
    view.hover = -1;
    view.pointer = null;
    view.tip.hide();
    view.touch("over");
  });

  scroller.addEventListener("dblclick", (e) => {
    const {x, y} = point(e), event = view.hit(x, y);
    if (event < 0) return;
    view.select(event);
    view.fit();
  });

  const center = () =>
      view.pointer !== null && view.pointer > GUTTER ? view.pointer : (GUTTER + view.width) / 2;
  const sideways = (part) =>
      view.glide(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const closer = (factor) => {
    const at = view.time(center());
    view.glide(at - (at - view.from) * factor, at + (view.to - at) * factor);
  };
  const keys = {
    a: () => sideways(-0.25),
    arrowleft: () => sideways(-0.25),
    d: () => sideways(0.25),
    arrowright: () => sideways(0.25),
    w: () => closer(0.55),
    "+": () => closer(0.55),
    "=": () => closer(0.55),
    s: () => closer(1.8),
    "-": () => closer(1.8),
    arrowup: () => scroller.scrollBy(0, -60),
    arrowdown: () => scroller.scrollBy(0, 60),
    f: () => view.fit(),
    "0": () => view.glide(0, view.model.span),
    escape: () => view.select(-1),
    c: () => document.getElementById("path-toggle").click(),
    "/": () => document.getElementById("query").focus(),
  };
  const anywhere = new Set(["/", "c", "f"]);
  document.addEventListener("keydown", (e) => {
    const key = e.key.toLowerCase();
    if (!isPlainKey(e) || !keys[key]) return;
    if (!stage.contains(document.activeElement) && !anywhere.has(key)) return;
    e.preventDefault();
    keys[key]();
  });

  document.getElementById("fit").addEventListener("click", () => view.fit());
  document.getElementById("zoom-in").addEventListener("click", () => closer(0.5));
  document.getElementById("zoom-out").addEventListener("click", () => closer(2));
  const toggle = document.getElementById("path-toggle");
  toggle.hidden = view.model.path.n === 0;
  toggle.addEventListener("click", () => {
    view.showPath = !view.showPath;
    toggle.setAttribute("aria-pressed", view.showPath);
    view.touch();
  });
}

/* Find by name: matching events keep their colour, the others fade. */
class Search {
  constructor(view) {
    this.view = view;
    this.query = document.getElementById("query");
    this.count = document.getElementById("matches");
    this.query.addEventListener("input", () => this.find(this.query.value));
    this.query.addEventListener("keydown", (e) => {
      if (e.key === "Escape") {
        this.query.value = "";
        this.find("");
        view.stage.focus();
      }
      if (e.key === "Enter") this.step(e.shiftKey ? -1 : 1);
    });
    document.getElementById("search").addEventListener("submit", (e) => e.preventDefault());
    document.getElementById("next").addEventListener("click", () => this.step(1));
    document.getElementById("prev").addEventListener("click", () => this.step(-1));
  }

  find(text) {
    const {model} = this.view, wanted = text.trim().toLowerCase();
    this.view.matches = null;
    if (wanted) {
      const names = Uint8Array.from(
          model.meta.names,
          (name) => name[0].toLowerCase().includes(wanted) ||
                  (name[1] && name[1].toLowerCase().includes(wanted)) ?
              1 :
              0);
      const before = new Uint32Array(model.n + 1);
      for (let i = 0; i < model.n; i++) before[i + 1] = before[i] + names[model.name[i]];
      this.view.matches = {names, before};
    }
    const n = wanted ? this.view.matches.before[model.n] : 0;
    this.count.textContent = wanted ? `${n.toLocaleString("en")} event${n === 1 ? "" : "s"}` : "";
    this.view.touch();
    return n;
  }

  /* To the next match in time after the selection, on any lane. */
  step(direction) {
    const {model, matches, selected} = this.view;
    if (!matches) return;
    const at = selected >= 0 ? model.start[selected] : direction > 0 ? -1 : Infinity;
    let best = -1;
    for (let i = 0; i < model.n; i++) {
      if (!matches.names[model.name[i]] || i === selected) continue;
      const ahead = direction * (model.start[i] - at) || (i - selected) * direction * 1e-9;
      if (ahead > 0 && (best < 0 || direction * (model.start[i] - model.start[best]) < 0)) best = i;
    }
    if (best >= 0) this.view.go(best);
  }
}
