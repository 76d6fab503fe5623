/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of tables that lead to events. The address says which are shown, "#event-12,57", so that
 * the way back works and others can be sent there; so can they to a node that a cell is about, by
 * rank and number: "#node-0-977". */

function followLinks(view) {
  const section = document.getElementById("timeline");

  /* "12,57", or "" where the address names none. */
  function named() {
    const [, node] = /^#node-(\d+-\d+)$/.exec(location.hash) || [],
          [, events] = /^#event-(\d+(?:,\d+)*)$/.exec(location.hash) || [];
    const cell = node && document.querySelector(`a[data-node="${node}"]`);
    return cell ? cell.dataset.events : events || "";
  }

  function show(behavior = "auto") {
    const events = named().split(",").filter(Boolean).map(Number).filter((i) => i < view.model.n);
    if (!events.length) return;
    section.scrollIntoView({behavior});
    view.mark(events);
    view.stage.focus({preventScroll: true});
  }

  const links = document.querySelectorAll("a[data-events]");
  if (links.length) history.scrollRestoration = "manual"; /* the way back goes to the timeline */
  for (const link of links)
    link.addEventListener("click", (e) => {
      const wanted = `#event-${link.dataset.events}`, there = location.hash === wanted;
      e.preventDefault();
      location.hash = wanted; /* tells of itself, unless it was so */
      if (there) show();
    });
  addEventListener("hashchange", () => show());
  show("instant");
}
