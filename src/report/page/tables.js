/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: sorted by a click on a heading, filtered by rank and by text, long ones folded. */

const ROWS_FOLDED = 12;

function cellValue(row, column) {
  const cell = row.cells[column];
  return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent;
}

function sortBy(table, column) {
  const head = table.tHead.rows[0].cells, body = table.tBodies[0];
  const number = head[column].classList.contains("num"),
        now = head[column].getAttribute("aria-sort");
  const up = now ? now === "descending" : !number; /* numbers: the largest first */
  for (const cell of head) cell.removeAttribute("aria-sort");
  head[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows].map((row) => [cellValue(row, column), row]);
  rows.sort(([a], [b]) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return (up ? 1 : -1) *
        (typeof a === "number" && typeof b === "number" ? a - b :
                                                          String(a).localeCompare(String(b)));
  });
  body.append(...rows.map(([, row]) => row));
}

class Table {
  constructor(card) {
    this.table = card.querySelector("table");
    this.rows = [...this.table.tBodies[0].rows];
    this.open = false;
    const head = this.table.tHead.rows[0].cells;
    [...head].forEach((cell, i) => this.addSorting(cell, i));
    this.rankColumn = [...head].findIndex((cell) => cell.dataset.col === "rank");
    this.addTools(card.querySelector("header"));
    if (this.rows.length > ROWS_FOLDED) {
      this.more = element("button", "more");
      this.more.type = "button";
      this.more.addEventListener("click", () => {
        this.open = !this.open;
        this.show();
      });
      card.querySelector(".scroll").after(this.more);
    }
    this.show();
  }

  addSorting(cell, column) {
    const button = element("button", "", cell.textContent);
    button.type = "button";
    button.addEventListener("click", () => {
      sortBy(this.table, column);
      this.rows = [...this.table.tBodies[0].rows];
      this.show();
    });
    cell.replaceChildren(button);
  }

  addTools(header) {
    const tools = element("div", "tools");
    const ranks = this.rankColumn < 0 ?
        [] :
        [...new Set(this.rows.map((row) => row.cells[this.rankColumn].textContent))];
    if (ranks.length > 1) {
      this.rank = element("select");
      this.rank.setAttribute("aria-label", "Rank");
      this.rank.append(
          new Option("all ranks", ""), ...ranks.map((rank) => new Option("rank " + rank, rank)));
      this.rank.addEventListener("change", () => this.show());
      tools.append(this.rank);
    }
    if (this.rows.length > ROWS_FOLDED) {
      this.text = element("input");
      this.text.type = "search";
      this.text.placeholder = "Filter";
      this.text.setAttribute("aria-label", "Filter rows by text");
      this.text.addEventListener("input", () => this.show());
      tools.append(this.text);
    }
    if (tools.childElementCount) header.append(tools);
  }

  matches(row) {
    if (this.rank && this.rank.value && row.cells[this.rankColumn].textContent !== this.rank.value)
      return false;
    if (!this.text || !this.text.value) return true;
    const wanted = this.text.value.toLowerCase();
    return [...row.cells].some(
        (cell) => (cell.dataset.whole || cell.textContent).toLowerCase().includes(wanted));
  }

  show() {
    let n = 0;
    for (const row of this.rows) {
      const matches = this.matches(row);
      row.hidden = !matches || (!this.open && n >= ROWS_FOLDED);
      n += matches;
    }
    if (!this.more) return;
    this.more.hidden = n <= ROWS_FOLDED;
    this.more.textContent = this.open ? "Show fewer" : `Show all ${n}`;
  }
}

for (const table of document.querySelectorAll("article.card table")) new Table(table.closest("article"));
