#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the HTML pages have in common, in a headless Chromium: header, light and dark, narrow
windows, paper, keys, and words of marks without a mouse.
"""
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
import browser
from harness import BIN, EXAMPLES, Skip, case, main

folder = tempfile.TemporaryDirectory(prefix="orrery-pages-")
opened = {}
PLAN = "tp=2,pp=4,micro_batches=8"
COMMANDS = {
    "recording": ["demo"],
    "plan": ["simulate", "llama3.2-1b", "--cluster", "dgx_h100", "--plan", PLAN],
    "comparison": ["compare", f"llama3.2-1b@dgx_h100:{PLAN}", "llama3.2-1b@dgx_h100:pp=8,micro_batches=8"],
    "exploration": ["explore", "llama3.2-1b", "--cluster", "dgx_h100", "--batch", "32", "--seq", "2k",
                    "--front", "devices", "--sensitivity", "--baselines", "all"],
    "experts": ["experts", EXAMPLES.parent / "routes" / "small_moe.csv.gz", "-c", "dgx_h100", "--ranks", "4",
                "--slots", "1", "--policy", "eplb"],
    "diagnosis": ["diagnose", EXAMPLES / "moe_gloo_w2"],
    "fleet": ["fleet", "--days", "3", "--repetitions", "2", "--replicas", "8,12", "--sensitivity"],
}


@functools.cache
def made(name):
    path = pathlib.Path(folder.name) / (name + ".html")
    command, *rest = COMMANDS[name]
    subprocess.run([BIN, command, "-q", *rest, "--html", path], check=True, stdout=subprocess.DEVNULL,
                   timeout=200)
    return path


def each_page():
    """(name, browser) of each page, freshly opened in a wide light window."""
    if "browser" not in opened:
        path = browser.find()
        if not path:
            raise Skip("no Chromium here (set ORRERY_CHROMIUM)")
        opened["browser"] = browser.Browser(path)
    page = opened["browser"]
    for name in COMMANDS:
        page.theme("light")
        page.resize(1200)
        reopen(page, name)
        yield name, page


def reopen(page, name):
    page.open("about:blank", ready="true")
    page.open(made(name).as_uri(), ready="document.readyState == 'complete' && document.querySelector('footer')")
    page.eval("document.documentElement.style.scrollBehavior = 'auto'")


def settle(page):
    """Lets a frame pass: changes of the theme and of the scrolling are told of with the next one."""
    time.sleep(0.06)


def is_dark(page, wanted):
    """Whether the page's background comes to be dark, or light, as wanted."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        red = page.eval("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        if red < 60 if wanted else red > 200:
            return True
        settle(page)
    return False


@case
def they_have_one_header_and_whole_links():
    headers = set()
    for name, page in each_page():
        assert page.problems() == [], (name, page.problems())
        assert all(url.startswith("file:") for url in page.requests()), (name, page.requests())
        headers.add(page.eval("document.querySelector('.brand svg').outerHTML + "
                              "[...document.querySelector('.top').children].map(e => e.tagName)"))
        ids = page.eval("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)), (name, sorted(i for i in ids if ids.count(i) > 1))
        links = page.eval("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
        assert len(links) >= 2 and all(link[1:] in ids for link in links), (name, links)
        assert page.eval("document.querySelectorAll('svg.picture').length") >= 2, name
    assert len(headers) == 1, headers


@case
def a_narrow_window_shows_all_at_a_legible_size():
    for name, page in each_page():
        page.resize(420)
        assert page.eval("document.documentElement.scrollWidth") <= 420, name
        sizes = page.eval("""[...document.querySelectorAll('svg.picture text')].map(t =>
            parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().d)""")
        turned = page.eval("[...document.querySelectorAll('svg.picture text[transform]')].length")
        assert len(sizes) > turned and sum(size < 9 for size in sizes) <= turned, (name, min(sizes))
        # A picture that is wider than its box scrolls in it.
        stuck = page.eval("""[...document.querySelectorAll('svg.picture')].map(p => p.parentElement).filter(box => {
            box.scrollLeft = 1e4;
            return box.scrollWidth > box.clientWidth && box.scrollLeft < box.scrollWidth - box.clientWidth - 2;
        }).length""")
        assert stuck == 0, name


@case
def the_theme_follows_the_system_until_the_reader_chooses():
    for name, page in each_page():
        assert is_dark(page, False), name
        page.theme("dark")
        assert is_dark(page, True), name
        page.eval("document.getElementById('theme').click()")
        assert is_dark(page, False), name
        reopen(page, name)
        assert is_dark(page, False), f"{name}: the choice is not remembered"
        page.key("t")
        assert is_dark(page, True), name
        page.theme("light")
        assert is_dark(page, False), f"{name}: a choice that is the system's is none"


@case
def without_scripts_they_are_dark_where_the_system_is():
    for name, page in each_page():
        page.send("Emulation.setScriptExecutionDisabled", value=True)
        try:
            page.theme("dark")
            reopen(page, name)
            assert is_dark(page, True), name
            assert page.eval("document.querySelectorAll('th button').length") == 0, name
            assert page.eval("document.getElementById('theme').hidden"), name
        finally:
            page.send("Emulation.setScriptExecutionDisabled", value=False)
    opened.pop("browser").close()  # Chromium may stay without answer in a tab that had no scripts


@case
def paper_has_all_rows_and_headings_and_is_light():
    for name, page in each_page():
        page.theme("dark", media="print")
        assert is_dark(page, False), name
        page.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.problems() == [], (name, page.problems())  # the timeline has no width now
        headings = page.eval("[...document.querySelectorAll('th')].map(h => h.innerText.trim())")
        assert headings and all(headings), (name, headings)
        hidden = page.eval("[...document.querySelectorAll('th, th button, tbody tr, svg.picture')]"
                           ".filter(e => !e.getClientRects().length).length")
        assert hidden == 0, (name, hidden)
        shown = page.eval("[...document.querySelectorAll('nav, #theme, .more, .tools, #timeline')]"
                          ".filter(e => e.getClientRects().length).map(e => e.className || e.id)")
        assert shown == [], (name, shown)
        cut = page.eval("[...document.querySelectorAll('svg.picture')].filter(p => "
                        "p.getBoundingClientRect().width > p.parentElement.clientWidth + 1).length")
        assert cut == 0, name


@case
def keys_reach_every_control_and_show_where_they_are():
    for name, page in each_page():
        page.key("Tab")
        assert page.eval("document.activeElement.className") == "skip", name
        assert page.eval("document.activeElement.getBoundingClientRect().left") >= 0, name
        page.key("Enter")
        assert page.eval("document.activeElement.id") == "main", name
        reopen(page, name)
        wanted = page.eval("""(window.left = new Set([...document.querySelectorAll(
            'a, button, input, select, [tabindex="0"]')].filter(e => e.getClientRects().length && !e.disabled))).size""")
        assert wanted > 5, name
        for _ in range(wanted + 5):
            page.key("Tab")
            style = page.eval("""(e => (left.delete(e), e === document.body ? 'outline' :
                e.matches('a, button, input, select, [tabindex="0"]') ? getComputedStyle(e).outlineStyle : 'stray'))
                (document.activeElement)""")
            assert style not in ("none", "stray"), (name, style, page.eval("document.activeElement.outerHTML")[:200])
        missed = page.eval("[...left].map(e => e.outerHTML.slice(0, 200))")
        assert missed == [], (name, missed)


@case
def words_of_marks_come_by_keys_and_by_mouse():
    for name, page in each_page():
        pictures = page.eval("(window.boxes = [...document.querySelectorAll('svg.picture')].map(p => p.parentElement)"
                             ".filter(box => box.querySelector('[role=img]'))).length")
        assert pictures > 0, name
        assert page.eval("document.querySelectorAll('svg.picture title').length") == 0, name
        for i in range(pictures):
            page.eval(f"boxes[{i}].scrollIntoView(), boxes[{i}].focus()")
            seen = []
            for key in ("ArrowRight", "ArrowRight", "End", "Home"):
                page.key(key)
                settle(page)
                words = page.eval("document.activeElement.ariaLabel")
                said = page.eval("(box => box.hidden ? null : box.textContent)(document.getElementById('words'))")
                assert words and said == words, (name, i, key, words, said)
                seen.append(page.eval("[...boxes[%d].querySelectorAll('[role=img]')].indexOf(document.activeElement)" % i))
            many = page.eval(f"boxes[{i}].querySelectorAll('[role=img]').length")
            assert seen == [0, min(1, many - 1), many - 1, 0], (name, i, seen)
        page.key("Escape")
        assert page.eval("document.getElementById('words').hidden"), name
        # The first mark that is large enough to be hit, by mouse.
        box = page.eval("""(mark => (mark.scrollIntoView({block: 'center', inline: 'center'}),
            window.mark = mark, (({x, y, width, height}) => [x + width / 2, y + height / 2])
            (mark.getBoundingClientRect())))([...boxes[0].querySelectorAll('[role=img]')].find(m =>
            m.getBoundingClientRect().width > 4))""")
        settle(page)
        page.mouse("mouseMoved", 2, 2)
        page.mouse("mouseMoved", *box)
        assert page.eval("document.getElementById('words').textContent === mark.ariaLabel && "
                         "!document.getElementById('words').hidden"), name


@case
def words_of_cut_cells_come_by_focus():
    found = 0
    for name, page in each_page():
        if not page.eval("!!(window.cell = [...document.querySelectorAll('td[data-whole]')]"
                         ".find(c => c.getClientRects().length))"):
            continue
        found += 1
        page.eval("cell.scrollIntoView({block: 'center'})")
        settle(page)
        page.send("Emulation.setFocusEmulationEnabled", enabled=True)
        page.eval("cell.focus({preventScroll: true})")
        assert page.eval("document.getElementById('words').textContent === cell.dataset.whole && "
                         "!document.getElementById('words').hidden"), name
    assert found > 0


try:
    main()
finally:
    if "browser" in opened:
        opened["browser"].close()
    folder.cleanup()
