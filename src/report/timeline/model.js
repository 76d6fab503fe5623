/* SPDX-License-Identifier: Apache-2.0 */
/* The events, unpacked: typed arrays, row after row. timeline/pack.h says how they are packed. */

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpack(id) {
  const element = document.getElementById(id), packed = fromBase64(element.textContent.trim());
  element.remove();
  if (typeof DecompressionStream !== "function" || location.hash === "#inflate")
    return inflate(packed);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Numbers of seven bits a byte. Past 2^31 by multiplication: shifts would wrap. */
function varints(bytes, [begin, end]) {
  let at = begin;
  return {
    more: () => at < end,
    byte: () => bytes[at++],
    next() {
      let b = bytes[at++], value = b & 127;
      for (let scale = 128; b > 127; scale *= 128) {
        b = bytes[at++];
        value += (b & 127) * scale;
      }
      return value;
    },
    signed() {
      const value = this.next();
      return value % 2 ? -(value + 1) / 2 : value / 2;
    },
  };
}

/* Which colour a kind of node has: fewer than there are kinds, so that they can be told apart. */
const GROUP_OF_KIND = {
  "compute": "compute",
  "collective": "comm",
  "send": "comm",
  "recv": "comm",
  "copy": "memory",
  "set": "memory",
  "memory load": "memory",
  "memory store": "memory",
  "sync": "sync",
  "host operator": "host",
  "runtime call": "runtime",
  "python function": "python",
  "annotation": "note",
  "device annotation": "note",
  "profiler overhead": "overhead",
};
const GROUPS =
    ["compute", "comm", "memory", "sync", "host", "runtime", "python", "note", "overhead", "other"];
const GROUP_WORDS = {
  compute: "kernel",
  comm: "communication",
  memory: "copy, set",
  sync: "synchronisation",
  host: "host operator",
  runtime: "runtime call",
  python: "Python",
  note: "annotation",
  overhead: "profiler",
  other: "other",
};

class Model {
  constructor(meta, bytes) {
    const n = meta.events;
    this.meta = meta;
    this.bytes = bytes;
    this.n = n;
    this.start = new Float64Array(n);
    this.duration = new Float64Array(n);
    this.name = new Uint32Array(n);
    this.detail = new Uint32Array(n);
    this.busy = new Float64Array(n + 1); /* sum of durations before an event */
    this.group = Uint8Array.from(
        meta.names, (name) => GROUPS.indexOf(GROUP_OF_KIND[meta.kinds[name[2]]] || "other"));
    this.readRows();
    this.readEvents();
    this.readPath();
    this.buildWinners();
    this.edges = null;
  }

  readRows() {
    this.ranks = [];
    this.lanes = [];
    this.rows = [];
    let first = 0;
    for (const rank of this.meta.ranks) {
      const entry = {
        index: this.ranks.length,
        rank: rank.rank,
        alike: rank.alike,
        device: rank.device,
        lanes: []
      };
      for (const l of rank.lanes) {
        const lane = {rank: entry.index, label: l.label, device: l.device, rows: [], count: 0};
        l.rows.forEach((count, depth) => {
          lane.rows.push(this.rows.length);
          this.rows.push({first, end: first + count, lane: this.lanes.length, depth});
          first += count;
          lane.count += count;
        });
        entry.lanes.push(this.lanes.length);
        this.lanes.push(lane);
      }
      this.ranks.push(entry);
    }
  }

  readEvents() {
    const {gap, duration, name, detail} = this.meta.columns;
    const gaps = varints(this.bytes, gap), durations = varints(this.bytes, duration);
    const names = varints(this.bytes, name), details = varints(this.bytes, detail);
    let last = 0, sum = 0;
    for (const row of this.rows) {
      let end = 0;
      for (let i = row.first; i < row.end; i++) {
        const start = end + gaps.next(), length = durations.next();
        this.start[i] = start;
        this.duration[i] = length;
        this.name[i] = names.next();
        this.detail[i] = details.next();
        this.busy[i] = sum;
        sum += length;
        end = start + length;
      }
      last = Math.max(last, end);
    }
    this.busy[this.n] = sum;
    this.span = last || 1;
  }

  /* Pieces follow one another without gaps. */
  readPath() {
    const n = this.meta.path_pieces || 0;
    this.onPath = new Uint8Array(this.n);
    const column = varints(this.bytes, this.meta.columns.path);
    const path = {
      n,
      start: new Float64Array(n + 1),
      event: new Int32Array(n),
      bound: new Uint8Array(n),
      wait: new Uint8Array(n),
      name: new Uint32Array(n),
      rank: new Uint32Array(n),
    };
    let at = this.meta.path_start_ns || 0;
    for (let i = 0; i < n; i++) {
      path.rank[i] = column.next();
      path.event[i] = column.next() - 1;
      const how = column.next();
      path.bound[i] = how >> 1;
      path.wait[i] = how & 1;
      path.start[i] = at;
      at += column.next();
      path.name[i] = path.event[i] >= 0 ? this.name[path.event[i]] : column.next();
      if (path.event[i] >= 0 && !path.wait[i]) this.onPath[path.event[i]] = 1;
    }
    path.start[n] = at;
    this.path = path;
    this.pathOfRows();
    this.pathOfRanks();
  }

  /* The pieces of each row, by time: byRow.piece[byRow.first[r]] .. [byRow.first[r + 1] - 1]. */
  pathOfRows() {
    const {path} = this, first = new Uint32Array(this.rows.length + 2),
          row = new Int32Array(path.n).fill(-1);
    for (let i = 0; i < path.n; i++) {
      if (path.event[i] < 0 || path.wait[i]) continue;
      row[i] = this.rowOf(path.event[i]);
      first[row[i] + 2]++;
    }
    for (let r = 2; r < first.length; r++) first[r] += first[r - 1];
    const piece = new Uint32Array(first[first.length - 1]);
    for (let i = 0; i < path.n; i++)
      if (row[i] >= 0) piece[first[row[i] + 1]++] = i;
    path.row = row;
    path.byRow = {first, piece};
    path.changes = this.laneChanges(row);
  }

  /* Pieces whose lane is not that of the piece before. */
  laneChanges(row) {
    const changes = [];
    for (let i = 0, lane = -1; i < row.length; i++) {
      if (row[i] < 0) continue;
      if (lane >= 0 && this.rows[row[i]].lane !== lane) changes.push(i);
      lane = this.rows[row[i]].lane;
    }
    return Uint32Array.from(changes);
  }

  /* For each rank the stretches of time in which the path runs on it: [start, end, ...]. */
  pathOfRanks() {
    const {path} = this, runs = this.ranks.map(() => []);
    for (let i = 0; i < path.n; i++) {
      const run = runs[path.rank[i]];
      if (path.wait[i]) continue;
      if (run.length && run[run.length - 1] === path.start[i])
        run[run.length - 1] = path.start[i + 1];
      else
        run.push(path.start[i], path.start[i + 1]);
    }
    path.byRank = runs;
  }

  /* The rank that the path spends most time on; the first where there is no path. */
  mainRank() {
    const sums =
        this.path.byRank.map((run) => run.reduce((sum, ns, i) => sum + (i % 2 ? ns : -ns), 0));
    return Math.max(0, sums.indexOf(Math.max(...sums)));
  }

  /* The first piece, at `lo` or later, that ends after `ns`. */
  pieceAfter(ns, lo = 0) {
    const {path} = this;
    for (let hi = path.n; lo < hi;) {
      const mid = (lo + hi) >>> 1;
      if (path.start[mid + 1] > ns)
        hi = mid;
      else
        lo = mid + 1;
    }
    return lo;
  }

  /* The same among those of a row: an index of byRow.piece, from lo to end. */
  pieceInRowAfter(ns, lo, end) {
    const {start, byRow} = this.path;
    for (let hi = end; lo < hi;) {
      const mid = (lo + hi) >>> 1;
      if (start[byRow.piece[mid] + 1] > ns)
        hi = mid;
      else
        lo = mid + 1;
    }
    return lo;
  }

  /* winners[k][b]: the longest of events [b * 16^(k+1), (b + 1) * 16^(k+1)). */
  buildWinners() {
    this.winners = [];
    let below = null, n = this.n;
    while ((n >> 4) > 0) {
      const blocks = n >> 4, level = new Uint32Array(blocks);
      for (let b = 0; b < blocks; b++) {
        let best = below ? below[b * 16] : b * 16;
        for (let k = 1; k < 16; k++) {
          const other = below ? below[b * 16 + k] : b * 16 + k;
          if (this.duration[other] > this.duration[best]) best = other;
        }
        level[b] = best;
      }
      this.winners.push(level);
      below = level;
      n = blocks;
    }
  }

  /* The longest of events [lo, hi), lo < hi. */
  longest(lo, hi) {
    const {duration, winners} = this;
    let best = lo;
    while (lo < hi) {
      let size = 1, level = -1;
      while (level + 1 < winners.length && lo % (size * 16) === 0 && lo + size * 16 <= hi) {
        size *= 16;
        level++;
      }
      const other = level < 0 ? lo : winners[level][lo / size];
      if (duration[other] > duration[best]) best = other;
      lo += size;
    }
    return best;
  }

  /* The first event of [lo, hi) that ends after `ns`. */
  firstEnding(lo, hi, ns) {
    while (lo < hi) {
      const mid = (lo + hi) >>> 1;
      if (this.start[mid] + this.duration[mid] > ns)
        hi = mid;
      else
        lo = mid + 1;
    }
    return lo;
  }

  /* The first of [lo, hi) that starts at `ns` or later; quick when it is near lo. */
  firstStarting(lo, hi, ns) {
    let step = 1;
    while (lo + step < hi && this.start[lo + step] < ns) {
      lo += step;
      step *= 2;
    }
    hi = Math.min(hi, lo + step);
    while (lo < hi) {
      const mid = (lo + hi) >>> 1;
      if (this.start[mid] < ns)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  }

  rowOf(event) {
    let lo = 0, hi = this.rows.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >>> 1;
      if (this.rows[mid].first <= event)
        lo = mid;
      else
        hi = mid - 1;
    }
    while (this.rows[lo].end <= event) lo--; /* rows that hold nothing */
    return lo;
  }

  fullName(event) { return this.meta.names[this.name[event]][0]; }
  shortName(event) {
    const name = this.meta.names[this.name[event]];
    return name[1] || name[0];
  }
  kind(event) { return this.meta.kinds[this.meta.names[this.name[event]][2]]; }
  isOnPath(event) { return this.onPath[event] === 1; }
  args(event) {
    return this.meta.details[this.detail[event]].split("\n").filter(Boolean).map(
        (line) => line.split("\t"));
  }

  describe(event) {
    const row = this.rows[this.rowOf(event)], lane = this.lanes[row.lane];
    return {
      index: event,
      name: this.fullName(event),
      short: this.shortName(event),
      kind: this.kind(event),
      start_ns: this.start[event],
      duration_ns: this.duration[event],
      rank: this.ranks[lane.rank].rank,
      lane: lane.label,
      depth: row.depth,
      on_path: this.isOnPath(event),
      args: Object.fromEntries(this.args(event)),
    };
  }
}
