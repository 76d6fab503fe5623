/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of tables that lead to events. The address says which are shown, "#event-12,57", so that
 * the way back works and others can be sent there. */

function followLinks(view) {
  const section = document.getElementById("timeline");

  function show() {
    const named = /^#event-(\d+(?:,\d+)*)$/.exec(location.hash);
    const events = named ? named[1].split(",").map(Number).filter((i) => i < view.model.n) : [];
    if (!events.length) return;
    section.scrollIntoView();
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
  addEventListener("hashchange", show);
  show();
}
