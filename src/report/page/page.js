/* SPDX-License-Identifier: Apache-2.0 */
/* What every page has: light or dark, and helpers that the other scripts share. */

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/* A key that is pressed for itself: in no field, with no modifier. */
const isPlainKey = (e) => !e.target.closest("input, textarea, select") && !e.ctrlKey &&
    !e.metaKey && !e.altKey;

/* A colour of the style sheet as "#rrggbb", in the theme that holds now: for canvases, which do
 * not know light-dark(). */
function themeColor(name) {
  const probe = document.body.appendChild(element("i"));
  probe.style.color = `var(--${name})`;
  const parts = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3);
  probe.remove();
  return "#" + parts.map((part) => Number(part).toString(16).padStart(2, "0")).join("");
}

/* The theme is the system's until the reader chooses the other one. The choice is remembered where
 * the browser allows a page to; choosing what the system has forgets it. Elsewhere the event
 * "themechange" of the document tells of it. */
const theme = {
  key: "orrery-theme",
  dark: matchMedia("(prefers-color-scheme: dark)"),
  button: document.getElementById("theme"),

  system() { return this.dark.matches ? "dark" : "light"; },

  chosen() {
    try {
      return localStorage.getItem(this.key);
    } catch {
      return null;
    }
  },

  show(name) {
    document.documentElement.dataset.theme = name;
    this.button.textContent = name === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new Event("themechange"));
  },

  toggle() {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      if (name === this.system()) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, name);
    } catch { /* then it holds until the page is closed */
    }
    this.show(name);
  },

  start() {
    this.button.hidden = false;
    this.button.addEventListener("click", () => this.toggle());
    this.dark.addEventListener("change", () => this.show(this.chosen() || this.system()));
    document.addEventListener("keydown", (e) => {
      if (e.key.toLowerCase() === "t" && isPlainKey(e)) this.toggle();
    });
    this.show(this.chosen() || this.system());
  },
};
theme.start();
