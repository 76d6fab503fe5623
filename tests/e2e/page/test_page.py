#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report page in a headless Chromium: opened, zoomed, hovered, selected, and what it then
shows held against the graph that make_page wrote it from.

Usage: test_page.py MAKE_PAGE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
import browser
from harness import SANITIZED, Skip, case, main

MAKE_PAGE = sys.argv[1]
folder = tempfile.TemporaryDirectory(prefix="orrery-page-")
opened = {}


def make(name, *args):
    """Path of a page, and what make_page said of it."""
    path = pathlib.Path(folder.name) / (name + ".html")
    said = subprocess.run([MAKE_PAGE, path, *args], check=True, capture_output=True, text=True)
    return path, json.loads(said.stdout)


def chromium():
    if "browser" not in opened:
        path = browser.find()
        if not path:
            raise Skip("no Chromium here (set ORRERY_CHROMIUM)")
        opened["browser"] = browser.Browser(path)
    return opened["browser"]


def small(anchor=""):
    """The small page, freshly opened."""
    page = chromium()
    if "small" not in opened:
        opened["small"] = make("small", "small")
    path, want = opened["small"]
    page.open("about:blank", ready="true")
    page.open(path.as_uri() + anchor)
    page.eval("document.documentElement.style.scrollBehavior = 'auto'")
    return page, want


def events(page):
    return page.eval("Array.from({length: orrery.state().events}, (_, i) => orrery.event(i))")


def find(page, name, rank=0):
    """Index of the first event whose short name or name is that, on a rank."""
    return next(e for e in events(page) if name in (e["name"], e["short"]) and e["rank"] == rank)


def stage_place(page):
    return page.eval("(({left, top}) => ({left, top}))"
                     "(document.getElementById('stage').getBoundingClientRect())")


def place(page, index):
    """Middle of an event in the window; it is scrolled to."""
    page.eval("document.getElementById('timeline').scrollIntoView()")
    box = page.eval(f"orrery.locate({index})")
    stage = stage_place(page)
    return stage["left"] + 1 + box["x"] + box["w"] / 2, stage["top"] + 1 + box["y"] + box["h"] / 2


def text(page, selector):
    return page.eval(f"document.querySelector({json.dumps(selector)}).innerText")


@case
def it_opens_without_a_complaint_or_a_request():
    page, _ = small()
    assert page.problems() == [], page.problems()
    asked = [url for url in page.requests() if not url.startswith("file://")]
    assert asked == [] and len(page.requests()) == 1, page.requests()


@case
def it_holds_every_event_of_the_graph():
    page, want = small()
    state = page.eval("orrery.state()")
    for key in ("events", "ranks", "lanes"):
        assert state[key] == want[key], (key, state, want)
    kernels = [e for e in events(page) if e["kind"] == "compute" and e["rank"] == 1]
    assert len(kernels) == 9
    assert sorted(e["duration_ns"] for e in kernels) == [60000] * 3 + [90000] * 3 + [180000] * 3
    starts = sorted(e["start_ns"] for e in kernels if e["name"] == "ampere_sgemm_128x64_tn")
    assert starts == [95000 + step * 1000000 for step in range(3)], starts


@case
def names_from_a_recording_are_text():
    page, want = small()
    assert page.eval("window.pwned") is None
    assert page.eval("document.images.length") == 0
    assert page.eval("document.querySelectorAll('script').length") == 1
    event = find(page, want["hostile"])
    x, y = place(page, event["index"])
    page.click(x, y)
    assert text(page, "#details h3") == want["hostile"]
    assert want["hostile"] in page.eval("document.title")
    assert page.eval("window.pwned") is None and page.problems() == []


@case
def the_tooltip_says_what_is_under_the_pointer():
    page, want = small()
    event = find(page, want["kernel"], rank=1)
    page.eval(f"orrery.zoom({event['start_ns'] - 50000}, {event['start_ns'] + 150000})")
    x, y = place(page, event["index"])
    page.mouse("mouseMoved", x, y)
    assert page.eval("orrery.state().hover") == event["index"]
    shown = text(page, "#tip")
    for words in (want["kernel"], "60.00 us", "compute", "rank 1", "stream 7"):
        assert words in shown, (words, shown)
    page.mouse("mouseMoved", x, y - 400)
    assert page.eval("document.getElementById('tip').hidden")


@case
def every_visible_event_can_be_hit():
    page, _ = small()
    for event in events(page):
        start, end = event["start_ns"], event["start_ns"] + event["duration_ns"]
        page.eval(f"orrery.zoom({start - 2000}, {end + 2000})")
        box = page.eval(f"orrery.locate({event['index']})")
        hit = page.eval(f"orrery.hit({box['x'] + box['w'] / 2}, {box['y'] + box['h'] / 2})")
        assert hit == event["index"], (event, hit, box)


@case
def a_click_selects_and_shows_what_is_waited_for():
    page, _ = small()
    event = find(page, "ampere_sgemm_128x64_tn")
    x, y = place(page, event["index"])
    page.click(x, y)
    assert page.eval("orrery.state().selected") == event["index"]
    shown = text(page, "#details")
    for words in ("ampere_sgemm_128x64_tn", "180.0 us (180,000 ns)", "cudaLaunchKernel",
                  "launch, rank 0"):
        assert words in shown, (words, shown)
    page.eval("document.querySelector('#details .link').click()")
    call = page.eval("orrery.event(orrery.state().selected)")
    assert call["name"] == "cudaLaunchKernel" and call["rank"] == 0


@case
def a_collective_is_tied_to_its_peers():
    page, _ = small()
    event = next(e for e in events(page) if e["kind"] == "collective" and e["rank"] == 0)
    assert event["args"]["collective"] == "all_reduce"
    assert event["args"]["in"] == "25.00 MiB (26214400 bytes)"
    peers = page.eval(f"orrery.links({event['index']}).peers")
    other = page.eval(f"orrery.event({peers[0]})")
    assert len(peers) == 1 and other["rank"] == 1 and other["kind"] == "collective"
    assert other["start_ns"] + other["duration_ns"] == event["start_ns"] + event["duration_ns"]


@case
def wheel_drag_and_keys_change_the_view():
    page, _ = small()
    page.eval("document.getElementById('timeline').scrollIntoView()")
    stage = stage_place(page)
    x, y = stage["left"] + 700, stage["top"] + 300
    before = page.eval("orrery.state()")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240, modifiers=2)
    page.eval("new Promise(done => setTimeout(done, 100))")
    zoomed = page.eval("orrery.state()")
    length = zoomed["to"] - zoomed["from"]
    assert length < 0.8 * (before["to"] - before["from"]), zoomed
    page.mouse("mousePressed", x, y, button="left", clickCount=1)
    page.mouse("mouseMoved", x - 100, y, button="left")
    page.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    panned = page.eval("orrery.state()")
    assert panned["from"] > zoomed["from"] and abs(panned["to"] - panned["from"] - length) < 1
    assert panned["selected"] == -1, "a drag is no click"
    for key, changed in (("w", lambda a, b: b["to"] - b["from"] < a["to"] - a["from"]),
                         ("d", lambda a, b: b["from"] > a["from"]),
                         ("a", lambda a, b: b["from"] < a["from"]),
                         ("0", lambda a, b: (b["from"], b["to"]) == (0, before["span_ns"]))):
        a = page.eval("orrery.state()")
        page.key(key)
        page.eval("new Promise(done => setTimeout(done, 350))")
        b = page.eval("orrery.state()")
        assert changed(a, b), (key, a, b)


@case
def search_counts_and_steps_through_matches():
    page, _ = small()
    assert page.eval("orrery.find('sgemm')") == 6
    assert text(page, "#matches") == "6 events"
    seen = []
    for _ in range(6):
        page.eval("document.getElementById('next').click()")
        seen.append(page.eval("orrery.state().selected"))
    assert len(set(seen)) == 6
    starts = [page.eval(f"orrery.event({i}).start_ns") for i in seen]
    assert starts == sorted(starts)
    assert page.eval("orrery.find('no such event')") == 0


@case
def the_critical_path_is_whole():
    page, _ = small()
    state = page.eval("orrery.state()")
    assert state["path_pieces"] > 5
    pieces = page.eval("Array.from({length: orrery.state().path_pieces}, (_, i) => orrery.path(i))")
    for a, b in zip(pieces, pieces[1:]):
        assert a["to"] == b["from"], (a, b)
    for piece in pieces:
        if piece["event"] >= 0 and not piece["wait"]:
            event = page.eval(f"orrery.event({piece['event']})")
            assert event["on_path"]
            assert event["start_ns"] <= piece["from"]
            assert piece["to"] <= event["start_ns"] + event["duration_ns"]
    page.key("c")
    assert not page.eval("orrery.state().show_path")


@case
def a_closed_rank_shows_strips_and_opens_where_an_event_is_wanted():
    page, _ = small()
    event = find(page, "cudaDeviceSynchronize")
    box = page.eval(f"orrery.locate({event['index']})")
    stage = stage_place(page)
    rows = page.eval("orrery.layout().map(band => band.type)")
    head = page.eval("orrery.layout().find(band => band.type === 'rank')")
    page.eval("document.getElementById('lanes').scrollTop = 0")
    page.eval("document.getElementById('timeline').scrollIntoView()")
    stage = stage_place(page)
    page.click(stage["left"] + 30, stage["top"] + head["y"] + 10)
    closed = page.eval("orrery.layout().map(band => band.type)")
    assert rows.count("strips") == 0 and closed.count("strips") == 1, closed
    assert closed.count("lane") == rows.count("lane") - 3
    again = page.eval(f"orrery.locate({event['index']})")
    assert again["h"] == box["h"]
    assert page.eval("orrery.layout().map(band => band.type)") == rows


@case
def the_band_of_the_path_says_what_bounds_it():
    page, _ = small()
    pieces = page.eval("Array.from({length: orrery.state().path_pieces}, (_, i) => orrery.path(i))")
    page.eval("document.getElementById('timeline').scrollIntoView()")
    band = page.eval("orrery.layout().find(band => band.type === 'path')")
    longest = max(pieces, key=lambda piece: piece["to"] - piece["from"])
    length = longest["to"] - longest["from"]
    page.eval(f"orrery.zoom({longest['from'] - length}, {longest['to'] + length})")
    stage = stage_place(page)
    x = page.eval(f"orrery.x({(longest['from'] + longest['to']) / 2})")
    page.mouse("mouseMoved", stage["left"] + x, stage["top"] + band["y"] + 8)
    assert text(page, "#tip").strip().startswith("Critical path: "), text(page, "#tip")
    assert page.eval("orrery.state().hover") == longest["event"]


@case
def tables_sort_and_filter():
    page, _ = small()
    column = ("[...document.querySelectorAll('#gpu_kernels tbody tr')]"
              ".filter(row => !row.hidden).map(row => row.cells[{}].{})")
    names = page.eval("[...document.querySelectorAll('#gpu_kernels th')].map(h => h.dataset.col)")
    total = names.index("sum_ns")
    sums = page.eval(column.format(total, "dataset.v"))
    assert sums and [int(s) for s in sums] == sorted((int(s) for s in sums), reverse=True)
    page.eval(f"document.querySelectorAll('#gpu_kernels th button')[{total}].click()")
    page.eval(f"document.querySelectorAll('#gpu_kernels th button')[{total}].click()")
    sums = page.eval(column.format(total, "dataset.v"))
    assert [int(s) for s in sums] == sorted(int(s) for s in sums)
    assert page.eval("document.querySelector('#gpu_kernels th[aria-sort]').dataset.col") == "sum_ns"
    page.eval("(select => { select.value = '1'; select.dispatchEvent(new Event('change')); })"
              "(document.querySelector('#gpu_kernels select'))")
    ranks = page.eval(column.format(names.index("rank"), "textContent"))
    assert ranks and set(ranks) == {"1"}


@case
def light_and_dark_follow_the_system_and_the_button():
    page, _ = small()
    colors = {}
    for theme in ("light", "dark"):
        page.theme(theme)
        page.until(f"orrery.state().theme == '{theme}'", f"it does not turn {theme}")
        colors[theme] = page.eval("getComputedStyle(document.body).backgroundColor")
    assert colors["light"] != colors["dark"]
    page.eval("document.getElementById('theme').click()")
    assert page.eval("orrery.state().theme") == "light"
    page.theme("light")


@case
def it_opens_where_the_browser_cannot_inflate():
    page, want = small("#inflate")
    assert page.eval("orrery.state().events") == want["events"] and page.problems() == []


@case
def headline_and_tables_need_no_script():
    page, _ = small()
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open("about:blank", ready="true")
        page.open(opened["small"][0].as_uri(), ready="document.querySelector('footer')")
        shown = text(page, "body")
        for words in ("Step time", "900.0 us", "2 of 2", "ampere_sgemm_128x64_tn", "default_pg"):
            assert words in shown, words
        assert page.eval("document.querySelectorAll('svg.picture rect').length") >= 6
    finally:
        page.send("Emulation.setScriptExecutionDisabled", value=False)


def core_s(page):
    """Seconds of a core that the page's main thread has used."""
    metrics = page.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "ThreadTime")


def shown_in_core_s(page, path):
    page.open("about:blank", ready="true")
    before = core_s(page)
    page.open(path.as_uri())
    after = core_s(page)
    return after - before if after > before else after  # it may be another process, which began at 0


@case
def a_million_events_load_and_draw():
    page = chromium()
    page.send("Performance.enable")
    many = 200_000 if SANITIZED else 1_000_000
    tenth = shown_in_core_s(page, make("tenth", "large", str(many // 10))[0])
    path, want = make("large", "large", str(many))
    load = shown_in_core_s(page, path)
    state = page.eval("orrery.state()")
    assert state["events"] == want["events"] and page.problems() == []
    draws = []
    for part in (1, 0.5, 0.1, 0.01, 0.001):
        page.eval(f"orrery.zoom({state['span_ns'] * 0.4}, {state['span_ns'] * (0.4 + 0.6 * part)})")
        for _ in range(3):
            before = core_s(page)
            page.eval("orrery.draw()")
            draws.append(core_s(page) - before)
    draws.sort()
    print(f"# {want['events']} events: {path.stat().st_size / want['events']:.2f} bytes each in the page, shown "
          f"{state['since_navigation_ms']:.0f} ms after navigation, in {load:.2f} s of a core; a tenth of them in "
          f"{tenth:.2f} s; draw median {1e3 * draws[len(draws) // 2]:.1f} ms, worst {1e3 * draws[-1]:.1f} ms")
    # Neither is quadratic, nor does a drawing look at every event: whatever the machine.
    assert load < 15 * tenth and draws[len(draws) // 2] < load / 2


try:
    main()
finally:
    if "browser" in opened:
        opened["browser"].close()
    folder.cleanup()
