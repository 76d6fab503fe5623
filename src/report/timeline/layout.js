/* SPDX-License-Identifier: Apache-2.0 */
/* Where things stand on the stage: from top to bottom the minimap, the ruler, and then a list of
 * bands that scrolls: the critical path, each rank's heading, its lanes and its memory. */

const GUTTER = 176, MINIMAP = 40, RULER = 26, TOP = MINIMAP + RULER;
const ROW = 17, STRIP = 7, RANK_HEAD = 26, COUNTER = 40, LANE_GAP = 7, ROWS_AT_FIRST = 8;

/* The row that tells most of a lane: of a stream the outermost, of a thread (where that may be one
 * annotation from end to end) the one with most events. */
function busiestRow(model, lane) {
  const size = (row) => model.rows[row].end - model.rows[row].first;
  return lane.device ? lane.rows[0] : lane.rows.reduce((a, b) => (size(b) > size(a) ? b : a));
}

class Layout {
  constructor(model) {
    this.model = model;
    const open = model.mainRank(); /* of many ranks one is open at first */
    this.closedRanks = new Set(model.ranks.map((rank) => rank.index)
                                   .filter((rank) => model.ranks.length > 2 && rank !== open));
    this.openLanes = new Set(); /* those that show rows deeper than ROWS_AT_FIRST */
    this.update();
  }

  update() {
    this.bands = [];
    this.height = 6;
    if (this.model.path.n) this.add({type: "path", label: "Critical path", h: ROW + 3}, 10);
    for (const rank of this.model.ranks) this.addRank(rank);
    this.rowAt = new Map(); /* row -> { y, h } in the scrolled list, for finding an event */
    this.closedAt = new Map();
    for (const band of this.bands) {
      if (band.type === "strips")
        this.closedAt.set(band.rank.index, {y: band.y + band.h - 4, h: 3});
      for (const row of band.rows || []) this.rowAt.set(row.row, {y: band.y + row.y, h: row.h});
    }
    this.height += 8;
  }

  add(band, gap) {
    band.y = this.height;
    this.bands.push(band);
    this.height += band.h + gap;
  }

  addRank(rank) {
    const closed = this.closedRanks.has(rank.index);
    const alike = rank.alike > 1 ? ` and ${rank.alike - 1} alike` : "";
    this.add({type: "rank", rank, closed, label: `rank ${rank.rank}${alike}`, h: RANK_HEAD}, 2);
    if (closed) {
      this.addStrips(rank);
      return;
    }
    for (const lane of rank.lanes) this.addLane(lane);
    this.addCounters(this.model.meta.counters.filter((counter) => counter.rank === rank.rank));
    this.height += 6;
  }

  /* "cuda:0 allocated" and "cuda:0 reserved" share a band. */
  addCounters(counters) {
    const bands = new Map();
    for (const {label, points} of counters) {
      const device = label.split(" ")[0],
            band = bands.get(device) || {type: "counter", series: [], most: 1, h: COUNTER};
      const line = label.endsWith("reserved");
      for (let i = 1; i < points.length; i += 2) band.most = Math.max(band.most, points[i]);
      if (!line) band.peak = Math.max(...points.filter((_, i) => i % 2));
      band.series.push({points, line});
      bands.set(device, band);
    }
    for (const [device, band] of bands)
      this.add(
          {...band, label: `memory ${device}`, more: `peak ${humanBytes(band.peak || band.most)}`},
          LANE_GAP);
  }

  /* A closed rank: its busiest lanes, thin; streams where it has any. */
  addStrips(rank) {
    const lanes = rank.lanes.map((l) => this.model.lanes[l]);
    const some = lanes.some((lane) => lane.device) ? lanes.filter((lane) => lane.device) : lanes;
    const rows =
        [...some]
            .sort((a, b) => b.count - a.count)
            .slice(0, 3)
            .map((lane, i) => ({row: busiestRow(this.model, lane), y: i * (STRIP + 1), h: STRIP}));
    this.add({type: "strips", rank, rows, label: "", h: rows.length * (STRIP + 1) + 5}, 3);
  }

  /* Where a row stands: itself or, while it is hidden, the one above it that is shown; in a closed
   * rank the line of the path. */
  placeOf(row) {
    const {lane, depth} = this.model.rows[row];
    for (let r = row; r >= row - depth; r--)
      if (this.rowAt.has(r)) return this.rowAt.get(r);
    return this.closedAt.get(this.model.lanes[lane].rank);
  }

  addLane(index) {
    const lane = this.model.lanes[index], open = this.openLanes.has(index);
    const n = open ? lane.rows.length : Math.min(lane.rows.length, ROWS_AT_FIRST);
    const rows = lane.rows.slice(0, n).map((row, i) => ({row, y: i * ROW, h: ROW - 1}));
    const hidden = lane.rows.length - n;
    const more = hidden ? `${hidden} deeper rows` :
        open && lane.rows.length > ROWS_AT_FIRST ? "fewer rows" :
                                                   "";
    this.add({type: "lane", lane, index, rows, label: lane.label, more, h: n * ROW}, LANE_GAP);
  }

  /* The band at a height of the list, or undefined. */
  bandAt(y) { return this.bands.find((band) => y >= band.y - 2 && y < band.y + band.h + 2); }

  toggle(band) {
    const [set, key] = band.type === "rank" || band.type === "strips" ?
        [this.closedRanks, band.rank.index] :
        [this.openLanes, band.index];
    if (!set.delete(key)) set.add(key);
    this.update();
  }

  /* Make a row of an event visible; true when that changed the list. */
  reveal(row) {
    if (this.rowAt.has(row)) return false;
    const lane = this.model.rows[row].lane;
    this.closedRanks.delete(this.model.lanes[lane].rank);
    if (this.model.rows[row].depth >= ROWS_AT_FIRST) this.openLanes.add(lane);
    this.update();
    return true;
  }
}
