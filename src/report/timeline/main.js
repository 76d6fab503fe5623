/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the timeline together. window.orrery is for tests and the curious: what is shown, and ways to
 * ask. */

function showLegend(model) {
  const used = new Set();
  for (let i = 0; i < model.n; i++) used.add(model.group[model.name[i]]);
  document.getElementById("kinds").replaceChildren(
      ...GROUPS.filter((group, i) => used.has(i)).map((group) => {
        const item = element("li", "", GROUP_WORDS[group]);
        item.prepend(swatch(group));
        return item;
      }));
}

function showNotes(meta) {
  const notes = [], add = (n, text) => n && notes.push(`${n.toLocaleString("en")} ${text}`);
  add(meta.thinned,
      "events are not drawn: of each run of neighbours in a lane the longest stay. " +
          "Tables and critical path rest on all of them.");
  add(meta.untimed, "nodes have no recorded start and no place on the timeline.");
  add(meta.details_left_out,
      "events are shown without their arguments, which would take too much room.");
  const box = document.getElementById("thinned");
  box.textContent = notes.join(" ");
  box.hidden = !notes.length;
}

function api(view, search, times) {
  const {model} = view;
  return {
    ready: true,
    state: () => ({
      events: model.n,
      ranks: model.ranks.length,
      lanes: model.lanes.length,
      rows: model.rows.length,
      span_ns: model.span,
      from: view.from,
      to: view.to,
      hover: view.hover,
      selected: view.selected,
      marked: view.marked,
      moving: !!view.gliding,
      show_path: view.showPath,
      path_pieces: model.path.n,
      thinned: model.meta.thinned,
      scroll: view.scroller.scrollTop,
      theme: document.documentElement.dataset.theme,
      draw_ms: view.drawMs,
      ...times,
    }),
    zoom: (from, to) => {
      view.gliding = null;
      view.zoom(from, to);
      view.draw();
    },
    draw: () => {
      view.draw();
      return view.drawMs;
    },
    hit: (x, y) => view.hit(x, y),
    event: (i) => model.describe(i),
    links: (i) => neighbours(model, i),
    /* bands as they stand on the stage now */
    layout: () => view.layout.bands.map(
        ({type, y, h}) => ({type, y: TOP + y - view.scroller.scrollTop, h})),
    x: (ns) => view.painter.x(ns),
    select: (i) => view.select(i),
    find: (text) => search.find(text),
    /* where an event is, in the coordinates of the stage; it is scrolled to first */
    locate: (i) => {
      const row = model.rowOf(i);
      if (view.layout.reveal(row)) view.resize();
      view.scroller.scrollTop = Math.max(0, view.layout.rowAt.get(row).y - (view.height - TOP) / 2);
      view.draw();
      return view.overlay.box(i);
    },
    path: (i) => ({
      event: model.path.event[i],
      bound: model.meta.bounds[model.path.bound[i]],
      wait: !!model.path.wait[i],
      from: model.path.start[i],
      to: model.path.start[i + 1]
    }),
  };
}

async function start() {
  const began = performance.now();
  const [json, bytes] = [await unpack("data-meta"), await unpack("data-events")];
  const meta = JSON.parse(new TextDecoder().decode(json)), unpacked = performance.now();
  const model = new Model(meta, bytes);
  document.getElementById("wait").remove();
  showLegend(model);
  showNotes(meta);
  if (!model.n) document.getElementById("timeline").hidden = true;
  const view = new View(model);
  document.addEventListener("themechange", () => view.setTheme());
  listen(view);
  followLinks(view);
  window.orrery = api(view, new Search(view), {
    unpack_ms: unpacked - began,
    load_ms: performance.now() - began,
    since_navigation_ms: performance.now(),
  });
}

start().catch((error) => {
  const wait = document.getElementById("wait");
  if (wait) wait.textContent = `The timeline cannot be shown: ${error.message}`;
  throw error;
});
