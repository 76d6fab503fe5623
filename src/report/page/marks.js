/* SPDX-License-Identifier: Apache-2.0 */
/* Words of marks in pictures, and of texts that were cut in tables: shown in one box when pointed
 * at, tapped, or reached by keys. A picture is one stop of the tab key; arrows go from mark to mark
 * within it. */

class Words {
  constructor() {
    this.box = document.body.appendChild(element("div"));
    this.box.id = "words";
    this.box.setAttribute("role", "status");
    this.box.hidden = true;
    for (const picture of document.querySelectorAll("svg.picture")) this.addPicture(picture);
    for (const cell of document.querySelectorAll("td[title]")) this.addCell(cell);
    document.addEventListener("keydown", (e) => e.key === "Escape" && this.hide());
    addEventListener("scroll", () => this.hide(), true);
  }

  show(mark, words) {
    const {left, right, top, bottom} = mark.getBoundingClientRect();
    this.box.textContent = words;
    this.box.hidden = false;
    const w = this.box.offsetWidth, h = this.box.offsetHeight, middle = (left + right) / 2;
    const below = bottom + 8 + h < innerHeight;
    this.box.style.left = `${Math.max(4, Math.min(middle - w / 2, innerWidth - w - 4))}px`;
    this.box.style.top = `${below ? bottom + 8 : Math.max(4, top - h - 8)}px`;
  }

  hide() { this.box.hidden = true; }

  /* The browser's own tooltip goes: it would cover ours, and keys do not reach it. */
  addPicture(picture) {
    const marks = [...picture.querySelectorAll("title")].map((title) => {
      const mark = title.parentElement;
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("role", "img");
      mark.setAttribute("tabindex", "-1");
      title.remove();
      return mark;
    });
    if (!marks.length) return;
    const box = picture.parentElement, say = (mark) => this.show(mark, mark.ariaLabel);
    box.setAttribute("aria-description", `${marks.length} marks: arrow keys go from one to the next`);
    box.addEventListener("keydown", (e) => {
      const to = this.next(marks, marks.indexOf(document.activeElement), e.key);
      if (!to) return;
      e.preventDefault();
      to.focus({preventScroll: true});
      to.scrollIntoView({block: "nearest", inline: "nearest", behavior: "instant"});
      requestAnimationFrame(() => say(to)); /* after the scrolling, which hides it */
    });
    picture.addEventListener("pointerover", (e) => {
      const mark = e.target.closest("[tabindex]");
      if (mark && picture.contains(mark)) say(mark);
      else this.hide();
    });
    picture.addEventListener("pointerleave", () => this.hide());
    /* On the box: listeners for focus would make the picture itself a stop of the tab key. */
    box.addEventListener("focusin", (e) => e.target !== box && say(e.target));
    box.addEventListener("focusout", () => this.hide());
  }

  /* The mark that a key leads to from the one at `from` (-1: none yet), or undefined. */
  next(marks, from, key) {
    const last = marks.length - 1;
    if (key === "Home") return marks[0];
    if (key === "End") return marks[last];
    if (key === "ArrowRight") return marks[Math.min(from + 1, last)];
    if (key === "ArrowLeft") return marks[Math.max(from - 1, 0)];
    if (from < 0 || (key !== "ArrowUp" && key !== "ArrowDown")) return undefined;
    return this.beyond(marks, marks[from], key === "ArrowDown" ? 1 : -1);
  }

  /* The nearest mark of the row above (-1) or below (1). */
  beyond(marks, from, direction) {
    const here = from.getBoundingClientRect();
    let best, least = Infinity;
    for (const mark of marks) {
      const {left, right, top} = mark.getBoundingClientRect(), down = direction * (top - here.top);
      const across = Math.abs(left + right - here.left - here.right) / 2;
      if (down < 2 || 100 * down + across >= least) continue;
      [best, least] = [mark, 100 * down + across];
    }
    return best;
  }

  addCell(cell) {
    cell.dataset.whole = cell.title;
    cell.removeAttribute("title");
    cell.tabIndex = 0;
    const say = () => this.show(cell, cell.dataset.whole);
    for (const event of ["pointerenter", "focus", "click"]) cell.addEventListener(event, say);
    for (const event of ["pointerleave", "blur"]) cell.addEventListener(event, () => this.hide());
  }
}
new Words();
