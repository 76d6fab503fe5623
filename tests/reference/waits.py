#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Waits that last longer do not move a replay.

Usage: waits.py ORRERY [--verbose] [NAME...]

Of every recording at hand the longest host waits, silences, polls and annotations are lengthened by
0.1 and by 10 ms, in the text of the recording, so that all that is recovered and measured is found
anew. The replay may move by a tenth of that, or `predict` must give the reason, which is one of two:

  read   it reads such time: what it moved by appears in its table `read_time`
  few    a constant rests on fewer than FEW moments, this one among them, and moved with it: as often
         as it was observed, that is what the replay moved by (table `constants`)

Recordings of other projects are read from
$ORRERY_SHARED; those of examples/ from $ORRERY_SOURCE.

What is lengthened, at most MOST of each kind in a recording:

  wait        a call that waits for a device returns later, and all that comes later moves
  silence     a thread with operators wakes later from a silence in which another thread worked, and
              all that comes later moves; no thread is at work at that moment
  poll        a query takes longer: of a thread that only polls, alone on it; else all that comes later
              moves, where no other thread is at work and the device has nothing left to do. (A device
              with work in its queue goes on while a thread is late. If it stood still for as long, as
              all that comes later moves, that recording could not have happened.)
  annotation  an annotation ends later, alone

Last, all times of a recording are made half and twice as long. What is measured in a recording grows with
it, and constants of the source do not: a replay that moves by more than STRETCH_MAY_SHOW of its length rests
on one of them.

Those that move all that comes later, and those that do not, are lengthened together first. Only where
that moves the replay, or what it reads, by a nanosecond or more, each is lengthened by itself.
"""
import argparse
import bisect
import collections
import concurrent.futures
import decimal
import gzip
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST = 4
LONGER_US = (100, 10000)
MAY_SHOW = 0.1
STRETCHED = (0.5, 2)
STRETCH_MAY_SHOW = 0.005
FEW = 16
WAITS = re.compile(r"^(cuda|cu|hip)(Stream|Device|Event|Ctx|Thread)Synchronize$|^synchronizeStream$")
POLLS = re.compile(r"^(cuda|cu|hip)(Event|Stream)Query$")
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "Kernel", "Memcpy", "Memset",
          "mtia_ccp_events"}
NUMBER = re.compile(r'"(ts|dur)"\s*:\s*"?(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)"?')


def ns_of(text):
    """Microseconds as text; floats would round times of day."""
    return int(decimal.Decimal(str(text)) * 1000)


def text_of(ns, was):
    return f"{ns // 1000}" if "." not in was and ns % 1000 == 0 else f"{ns // 1000}.{ns % 1000:03d}"


class Recording:
    """The text of a recording, cut at its times, so that it can be written with others."""

    def __init__(self, path):
        raw = path.read_bytes()
        self.text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
        document = json.loads(self.text, strict=False)
        events = document["traceEvents"] if isinstance(document, dict) else document
        self.pieces, self.slots = [], []
        last = 0
        for match in NUMBER.finditer(self.text):
            self.pieces.append(self.text[last:match.start(2)])
            self.slots.append((match[1], match[2]))
            last = match.end(2)
        self.pieces.append(self.text[last:])
        at = 0
        self.events, self.slot_of = [], []
        for event in events:
            where = {}
            for key in event:
                if key in ("ts", "dur"):
                    where[key] = at
                    if float(self.slots[at][1]) != float(event[key]):
                        raise ValueError(f"{path}: the times of an event are not where they were looked for")
                    at += 1
            if "ts" in event:
                self.events.append(event)
                self.slot_of.append(where)
        self.start = [ns_of(self.slots[where["ts"]][1]) for where in self.slot_of]
        self.end = [start + (ns_of(self.slots[where["dur"]][1]) if "dur" in where else 0)
                    for start, where in zip(self.start, self.slot_of)]
        self.host = [e.get("ph") == "X" and "dur" in e and e.get("cat") not in DEVICE and e.get("cat") != "Trace"
                     and isinstance(e.get("tid"), (int, str)) and e.get("pid") not in ("Spans", "Traces")
                     for e in self.events]
        self.busy = None  # spans in which the device has work

    def write(self, path, times):
        """`times`: (start, end) of each event, in ns."""
        out = [number for _, number in self.slots]
        for event, where in enumerate(self.slot_of):
            start, end = times[event]
            if start != self.start[event]:
                out[where["ts"]] = text_of(start, out[where["ts"]])
            if "dur" in where and end - start != self.end[event] - self.start[event]:
                out[where["dur"]] = text_of(end - start, out[where["dur"]])
        text = [""] * (2 * len(out) + 1)
        text[::2] = self.pieces
        text[1::2] = out
        path.write_text("".join(text), encoding="utf-8")

    def lane(self, event):
        return self.events[event].get("pid"), self.events[event].get("tid")

    def times(self, changes, longer):
        """(start, end) of each event after all the changes. A change of everybody moves what comes at or after
        its moment; the host nodes that span it take longer. One of a thread moves what the thread does later."""
        whole = sorted(c.at for c in changes if c.reach == "all")
        times = [(start + longer * bisect.bisect_right(whole, start),
                  end + longer * bisect.bisect_right(whole, end if host else start))
                 for start, end, host in zip(self.start, self.end, self.host)] if whole \
            else list(zip(self.start, self.end))
        for c in changes:
            if c.reach == "all":
                continue
            if c.reach == "thread":
                for i, (start, end) in enumerate(times):
                    if i != c.event and self.start[i] >= c.at and self.host[i] and self.lane(i) == self.lane(c.event):
                        times[i] = (start + longer, end + longer)
            times[c.event] = (times[c.event][0], times[c.event][1] + longer)
        return times

    def is_device_idle(self, at):
        """Has all that was launched before a moment ended by then?"""
        if self.busy is None:
            launched = {e["args"]["correlation"]: self.start[i] for i, e in enumerate(self.events)
                        if self.host[i] and "correlation" in e.get("args", {})}
            self.busy = merged((min(launched.get(e.get("args", {}).get("correlation"), start), start), end)
                               for e, start, end in zip(self.events, self.start, self.end)
                               if e.get("ph") == "X" and e.get("cat") in DEVICE - {"gpu_user_annotation", "cuda_sync"})
        return not within(self.busy, at)


# What is lengthened: from `at` on, of "all", of the event's "thread", or the "event" alone.
Change = collections.namedtuple("Change", "kind what at reach event")


def merged(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def within(spans, at):
    """Does a moment lie inside one of disjoint spans in order?"""
    i = bisect.bisect_left(spans, [at]) - 1
    return i >= 0 and spans[i][0] < at < spans[i][1]


def is_work(event):
    return event.get("cat") in ("cpu_op", "Operator", "cuda_runtime", "cuda_driver", "Runtime", "mtia_runtime") \
        and not event["name"].startswith("ProfilerStep")


def longest(found):
    return sorted(found, reverse=True)[:MOST]


def signs_of_life(r):
    """Of each thread with operators: sorted moments at which it did something, and the spans of its work."""
    threads = {}
    for i, event in enumerate(r.events):
        if r.host[i]:
            threads.setdefault((event.get("pid"), event.get("tid")), []).append(i)
    return {lane: rows for lane, rows in threads.items()
            if any(r.events[i].get("cat") in ("cpu_op", "Operator") for i in rows)}


def work_spans(r, rows):
    """Merged spans of operators and calls."""
    return merged((r.start[i], r.end[i]) for i in rows if is_work(r.events[i]))


def silences(r):
    """(length, moment of waking) of silences in which another thread worked for at least half of the time, and in
    which all were quiet just before the waking."""
    threads = signs_of_life(r)
    spans = {lane: work_spans(r, rows) for lane, rows in threads.items()}
    found = []
    for lane, rows in threads.items():
        marks = sorted({t for i in rows for t in (r.start[i], r.end[i])})
        for before, after in zip(marks, marks[1:]):
            if after - before < 300000 or any(s < after and e > before for s, e in spans[lane]):
                continue
            worked = {other: sum(min(e, after) - max(s, before) for s, e in spans[other] if s < after and e > before)
                      for other in spans if other != lane}
            if not worked or max(worked.values()) < (after - before) / 2:
                continue
            if any(s < after <= e for other in spans if other != lane for s, e in spans[other]):
                continue
            found.append((after - before, after))
    return found


def is_quiet(r, spans, event):
    """Is no other thread at work when the event ends?"""
    return not any(within(spans[other], r.end[event]) for other in spans if other != r.lane(event))


def can_be_late(r, spans, event):
    """Would all else that was recorded have been the same, but later, if the event had taken longer?"""
    return is_quiet(r, spans, event) and r.is_device_idle(r.end[event])


def changes(r):
    """All that is to be lengthened."""
    def named(pattern, least):
        return sorted(((r.end[i] - r.start[i], i) for i in range(len(r.events))
                       if r.host[i] and pattern.match(r.events[i]["name"]) and r.end[i] - r.start[i] >= least),
                      reverse=True)

    threads = signs_of_life(r)
    spans = {lane: work_spans(r, rows) for lane, rows in threads.items()}
    found = [Change("wait", r.events[i]["name"], r.end[i], "all", None) for _, i in named(WAITS, 50000)[:MOST]
             if is_quiet(r, spans, i)]
    found += [Change("silence", f"{length / 1e6:.1f} ms", at, "all", None) for length, at in longest(silences(r))]
    polls = (Change("poll", r.events[i]["name"], r.end[i], "all" if r.lane(i) in threads else "thread", i)
             for _, i in named(POLLS, 0) if r.lane(i) not in threads or can_be_late(r, spans, i))
    found += itertools.islice(polls, MOST)
    found += [Change("annotation", r.events[i]["name"], r.end[i], "event", i)
              for _, i in longest((r.end[i] - r.start[i], i) for i, e in enumerate(r.events)
                                  if r.host[i] and e.get("cat") == "user_annotation")]
    return found


def predict(orrery, path):
    said = subprocess.run([orrery, "predict", "-q", "--tolerant", "--format", "json", "-a", path], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    if said.returncode != 0:
        return None
    tables = json.loads(said.stdout)["tables"]
    span = max(row["predicted_ns"] for row in tables["ranks"]["rows"])
    read = sum(row["read_ns"] for row in tables.get("read_time", {"rows": []})["rows"])
    return span, read, {row["constant"]: (row["value_ns"], row["observations"]) for row in tables["constants"]["rows"]}


def moved_by_few(was, now):
    """ns by which constants of few observations may have moved a replay."""
    return sum(abs(now[name][0] - value) * max(n, now[name][1]) for name, (value, n) in was.items()
               if max(n, now[name][1]) < FEW)


def recordings():
    shared, source = os.environ.get("ORRERY_SHARED"), pathlib.Path(os.environ.get("ORRERY_SOURCE", "."))
    if shared:
        traces = pathlib.Path(shared) / "data" / "traces"
        for path in sorted((traces / "kineto").glob("*.json.gz")):
            yield path.name, path, path
        rank = traces / "dlrm_v100x8" / "rank0.device.json.gz"
        yield "dlrm_v100x8, rank 0", rank, rank  # in a job the others would have waited, too
    for folder in sorted((source / "examples" / "traces").iterdir()):
        device = folder / "rank0.device.json.gz"
        if device.exists():
            yield folder.name, folder, device


def judge(orrery, name, whole, device):
    """Rows (change, longer, moved, read, moved by few) of one recording."""
    r = Recording(device)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "job"
        if whole.is_dir():
            shutil.copytree(whole, copy)
            copy.chmod(0o755)
            changed = copy / device.name.removesuffix(".gz")
            (copy / device.name).unlink()
        else:
            copy.mkdir()
            changed = copy / "trace.json"
        subject = copy if whole.is_dir() else changed

        def after(some, longer):
            """What has moved when they are longer: the replay, what it reads, what rests on few."""
            r.write(changed, r.times(some, longer * 1000))
            now = predict(orrery, subject)
            if now is None:
                raise RuntimeError(f"{name}: {some[0].kind} {some[0].what} + {longer} us: no replay")
            return (now[0] - was[0]) / 1000, (now[1] - was[1]) / 1000, moved_by_few(was[2], now[2]) / 1000

        r.write(changed, list(zip(r.start, r.end)))
        was = predict(orrery, subject)
        everything = changes(r) if was is not None else []
        for group in ([c for c in everything if c.reach == "all"], [c for c in everything if c.reach != "all"]):
            for longer in LONGER_US if group else ():
                together = after(group, longer)
                alike = len(group) == 1 or together[:2] == (0, 0)
                rows += [(c, longer, *(together if alike else after([c], longer))) for c in group]
    return rows


def stretch(path, to, factor):
    """Writes a recording with all times as many times as long."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    first = next(ns_of(match[2]) for match in NUMBER.finditer(text) if match[1] == "ts") // 10**12 * 10**12

    def longer(match):
        zero = first if match[1] == "ts" else 0  # ranks of one job have one zero
        ns = zero + round((ns_of(match[2]) - zero) * factor)
        return text[match.start():match.start(2)] + text_of(ns, ".") + text[match.end(2):match.end()]

    to.write_text(NUMBER.sub(longer, text), encoding="utf-8")


def stretched(orrery, whole):
    """The largest share of its length by which the replay moves."""
    lengths = []
    for factor in (1, *STRETCHED):
        with tempfile.TemporaryDirectory() as folder:
            for i, path in enumerate(sorted(whole.glob("*.device.json.gz")) if whole.is_dir() else [whole]):
                stretch(path, pathlib.Path(folder) / f"rank{i}.json", factor)
            now = predict(orrery, folder)
        if now is None:
            return 0
        lengths.append(now[0] / factor)
    return max(abs(length / lengths[0] - 1) for length in lengths)


def show(name, rows, verbose):
    """(told why, not told) of those that show."""
    if verbose:
        for change, longer, moved, read, _ in rows:
            print(f"{name}: {change.kind} {change.what} + {longer} us: moved {moved:.1f}, read {read:.1f}")
    shown = [row for row in rows if abs(row[2]) > MAY_SHOW * row[1]]
    silent = [row for row in shown if row[3] / row[2] < 0.9 and row[4] < 0.9 * abs(row[2])]
    worst = max((abs(row[2]) / row[1] for row in rows), default=0)
    print(f"{name}: {len(rows)} waits made longer, at most {100 * worst:.1f} % shows; {len(shown)} over a tenth, "
          f"{len(shown) - len(silent)} of them told why")
    for change, longer, moved, read, _ in silent:
        print(f"   {change.kind} {change.what} + {longer} us: the replay moves by {moved:.1f} us, {read:.1f} us told as read")
    return len(shown) - len(silent), len(silent)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("orrery")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    wrong = n = told = rests = 0
    if not os.environ.get("ORRERY_SHARED"):
        print("ORRERY_SHARED is not set: recordings of other projects are not lengthened")
    chosen = [(name, whole, device) for name, whole, device in recordings()
              if not args.names or any(word in name for word in args.names)]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        in_order = sorted(chosen, key=lambda of: -of[2].stat().st_size)
        judged = {name: pool.submit(judge, args.orrery, name, whole, device) for name, whole, device in in_order}
        moved = {name: pool.submit(stretched, args.orrery, whole) for name, whole, _ in in_order}
        for name, _, _ in chosen:
            rows = judged[name].result()
            why, not_told = show(name, rows, args.verbose)
            n, told, wrong = n + len(rows), told + why, wrong + not_told
            share = moved[name].result()
            rests += share > STRETCH_MAY_SHOW
            print(f"   with times half and twice as long the replay moves by {100 * share:.2f} % at most")
    print(f"{n} waits made longer: {n - told - wrong} do not show, {told} are told as read or of few moments, {wrong} are not")
    print(f"{rests} of {len(chosen)} recordings rest on a constant")
    sys.exit(wrong > 0 or rests > 0)


if __name__ == "__main__":
    main()
