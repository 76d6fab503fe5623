#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `orrery diagnose` in a headless Chromium: causes and evidence lead to their nodes on the timeline."""
import atexit
import functools
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
import browser
from harness import BIN, EXAMPLES, Skip, case, main

folder = tempfile.TemporaryDirectory(prefix="orrery-diagnosis-")
atexit.register(folder.cleanup)
HTML = pathlib.Path(folder.name) / "diagnosis.html"
CAUSE = "[data-schema='orrery.causes/1'] [data-events]"
PIECE = "[data-schema='orrery.evidence/1'] [data-events]"


@functools.cache
def opened():
    path = browser.find()
    if not path:
        raise Skip("no Chromium here (set ORRERY_CHROMIUM)")
    page = browser.Browser(path)
    atexit.register(page.close)
    return page


@functools.cache
def diagnosed():
    """The tables of the same answer as JSON."""
    result = subprocess.run([BIN, "diagnose", "-q", "--all", "--format", "json", "--html", HTML,
                             EXAMPLES / "moe_gloo_w2"], check=True, capture_output=True, text=True, timeout=200)
    return {name: table["rows"] for name, table in json.loads(result.stdout)["tables"].items()}


def fresh(hash=""):
    page, _ = opened(), diagnosed()
    page.open("about:blank", ready="true")
    page.theme("light")
    page.open(HTML.as_uri() + hash)
    page.eval("document.documentElement.style.scrollBehavior = 'auto'")
    return page


def events_of(page, selector):
    return page.eval(f"[...document.querySelectorAll(\"{selector}\")].map(a => a.dataset.events.split(',').map(Number))")


def settled(page, events):
    """Waits until the page shows these events and nothing moves; they are in the window, and so is the timeline."""
    page.until(f"orrery.state().marked.join() === '{','.join(map(str, events))}'", "the events are not marked")
    page.until("!orrery.state().moving", "it moves")
    state = page.eval("orrery.state()")
    assert state["selected"] == events[0], state
    for event in events:
        described = page.eval(f"orrery.event({event})")
        assert state["from"] <= described["start_ns"], (event, described, state)
        assert described["start_ns"] + described["duration_ns"] <= state["to"], (event, described, state)
        assert page.eval(f"!!orrery.locate({event})"), event
    top = page.eval("document.getElementById('stage').getBoundingClientRect().top")
    assert 0 <= top < 400, top
    assert page.eval("document.activeElement.id") == "stage"


@case
def evidence_leads_to_its_node():
    page, evidence = fresh(), diagnosed()["evidence"]
    events = events_of(page, PIECE)
    assert len(events) == len(evidence) > 6
    for i, row in enumerate(evidence):
        assert len(events[i]) == 1
        there = page.eval(f"orrery.event({events[i][0]})")
        assert there["name"] == row["name"] and there["rank"] == row["rank"], (row, there)
        assert there["start_ns"] <= row["start_ns"] < there["start_ns"] + there["duration_ns"], (row, there)
    for i in (0, len(evidence) - 1):
        page.eval(f"document.querySelectorAll(\"{PIECE}\")[{i}].click()")
        settled(page, events[i])
    assert page.problems() == []


@case
def an_address_of_a_node_leads_to_it():
    """Made of what the answer as JSON says."""
    page = fresh()
    events = events_of(page, PIECE)
    for row, shown in list(zip(diagnosed()["evidence"], events))[:3]:
        settled(fresh(f"#node-{row['rank']}-{row['node']}"), shown)


@case
def a_cause_leads_to_all_of_its_evidence():
    page, tables = fresh(), diagnosed()
    events = events_of(page, CAUSE)
    assert len(events) == len(tables["causes"]) >= 3
    pieces = iter(events_of(page, PIECE))
    for row, shown in zip(tables["causes"], events):
        own = [next(pieces)[0] for piece in tables["evidence"] if piece["place"] == row["place"]]
        assert shown == own and len(own) > 1, (row, shown, own)
    for i, shown in enumerate(events):
        page.eval(f"document.querySelectorAll(\"{CAUSE}\")[{i}].click()")
        settled(page, shown)
    page.key("Escape")
    page.until("orrery.state().marked.length === 0 && orrery.state().selected === -1", "Escape does not end it")


@case
def the_keyboard_the_way_back_and_the_address_do_the_same():
    page = fresh()
    shown = events_of(page, CAUSE)
    last = len(shown) - 1
    first, second = shown[0], shown[last]
    assert first != second
    for i, events in ((0, first), (last, second)):
        page.eval(f"document.querySelectorAll(\"{CAUSE}\")[{i}].focus()")
        page.key("Enter")
        settled(page, events)
    page.eval("history.back()")
    settled(page, first)
    assert page.eval("location.hash") == f"#event-{','.join(map(str, first))}", page.eval("location.hash")
    page.eval(f"document.querySelectorAll(\"{CAUSE}\")[0].click()")  # where it is already
    settled(page, first)
    settled(fresh(f"#event-{','.join(map(str, second))}"), second)
    for wrong in ("#event-", "#event-x", "#event-99999999", "#node-9-9", "#node-0", "#timeline"):
        page = fresh(wrong)
        assert page.eval("orrery.state().selected") == -1 and page.problems() == [], wrong


main()
