/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies, read when the first event is selected: `into` what an event waits for, `out` what
 * waits for it, `peers` the events of the same communication. */

function readEdges(model) {
  const column = varints(model.bytes, model.meta.columns.edge);
  const to = [], from = [], kind = [];
  for (let event = 0; column.more();) {
    event += column.next();
    to.push(event);
    from.push(event + column.signed());
    kind.push(column.byte());
  }
  return {
    to: Uint32Array.from(to),
    from: Uint32Array.from(from),
    kind: Uint8Array.from(kind),
    byFrom: order(from, model.n),
    peerOf: readPeers(model),
  };
}

/* Indexes of `keys` in the order of their values. */
function order(keys, n) {
  const first = new Uint32Array(n + 2), sorted = new Uint32Array(keys.length);
  for (const key of keys) first[key + 2]++;
  for (let i = 2; i < first.length; i++) first[i] += first[i - 1];
  for (let i = 0; i < keys.length; i++) sorted[first[keys[i] + 1]++] = i;
  return {first, sorted};
}

function readPeers(model) {
  const column = varints(model.bytes, model.meta.columns.peer), peerOf = new Map();
  for (let event = 0; column.more();) {
    const members = [];
    for (let n = column.next(); n > 0; n--) members.push(event += column.signed());
    for (const member of members) peerOf.set(member, members);
  }
  return peerOf;
}

function neighbours(model, event) {
  const edges = model.edges || (model.edges = readEdges(model));
  const into = [], out = [], {to, from, kind, byFrom} = edges;
  let lo = 0;
  for (let hi = to.length; lo < hi;) {
    const mid = (lo + hi) >>> 1;
    if (to[mid] < event)
      lo = mid + 1;
    else
      hi = mid;
  }
  for (; lo < to.length && to[lo] === event; lo++)
    into.push({event: from[lo], kind: model.meta.deps[kind[lo]]});
  for (let i = byFrom.first[event]; i < byFrom.first[event + 1]; i++) {
    const edge = byFrom.sorted[i];
    out.push({event: to[edge], kind: model.meta.deps[kind[edge]]});
  }
  return {into, out, peers: (edges.peerOf.get(event) || []).filter((peer) => peer !== event)};
}
