"""The page in a real browser: reviews, lists, drawings, keys; its layout and its accessibility."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

from browser import chromium, served
from fake_review import FakeReview
from selenium.webdriver.common.keys import Keys
from small import HOSTILE, hostile_run

import bilink

AXE = Path(__file__).parents[2] / "tools" / "page" / "node_modules" / "axe-core" / "axe.min.js"
QUESTION = "?head=Chile&relation=official+language"
WHY = "document.querySelector('#answers [aria-expanded]').click()"
LIKELY = (
    "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Likely links').click()"
)
UNFOLD = "document.querySelector('.folded').open = true"
COPY = "document.querySelectorAll('.take button')[2].click()"
DECIDE = "document.querySelector('.decide button').click()"


@pytest.fixture(scope="module")
def person():
    with chromium() as person:
        yield person


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "run"
    bilink.train("atlas", "distmult", 16, epochs=5, threads=1, out=out)
    return bilink.load(out)


@pytest.fixture(scope="module")
def fake(run):
    """A server for all tests."""
    made = []
    with served(run, lambda app: made.append(FakeReview(app)) or made[0]) as address:
        made[0].address = address
        yield made[0]


@pytest.fixture
def kept(person, fake):
    """Its address; what was decided does not matter."""
    person.screen()
    return fake.address


@pytest.fixture
def atlas(kept, fake):
    """Its address, when nothing is decided."""
    fake.forget()
    return kept


def js(person, script, *args):
    return person.driver.execute_script("return " + script, *args)


def each(selector, what):
    """A script: something of each of the elements."""
    return f"[...document.querySelectorAll({selector!r})].map((e) => {what})"


def names(person, selector=".arranged .rows .what"):
    return person.texts(selector)


def counts(person, words):
    person.until(lambda: words in " ".join(person.texts(".progress")))


# -- reviews --------------------------------------------------------------------------------------


def test_answers_are_decided_by_button_and_by_key(person, atlas):
    person.open(atlas + QUESTION)
    first, second, third = names(person)[:3]
    person.click(".decide [data-kind=accept]")
    counts(person, "1 accepted, 0 rejected")
    assert first in person.text(".undo")
    person.press("j")  # from the button to the next row
    assert person.focus() == second
    person.press("r")
    assert person.focus() == third  # a decision leads on
    person.press("u", "k", "k", "k")
    assert person.focus() == first
    counts(person, "1 accepted, 1 rejected, 1 unsure")
    person.open(atlas + QUESTION)  # the server keeps it
    marks = each(".arranged .rows > li", "e.dataset.decision ?? ''")
    assert js(person, marks)[:4] == ["accept", "reject", "unsure", ""]
    assert not person.find("#reviewbar").is_displayed()


def test_undo_says_what_it_takes_back(person, atlas):
    person.open(atlas + QUESTION)
    first = names(person)[0]
    person.press("j", "a")
    person.until(lambda: f": accept “Chile official language {first}”" in person.text(".undo"))
    person.press("r")
    counts(person, "1 rejected")
    person.press("z")
    counts(person, "1 accepted, 0 rejected")
    person.press(Keys.CONTROL, "z", Keys.NULL)
    person.until(lambda: not person.find("#reviewbar").is_displayed())
    assert not person.all(".rows [data-decision]")


def test_a_decision_that_the_server_refuses_is_not_shown(person, atlas, fake):
    person.open(atlas + QUESTION)
    fake.review = False
    person.click(".decide [data-kind=accept]")
    person.until(lambda: "was not kept" in person.text("#reviewbar [role=alert]"))
    assert not person.all("[data-decision]")


def test_the_queue_is_worked_through_by_keys(person, atlas):
    person.open(atlas + "?view=review")
    rows = person.until(lambda: names(person, ".queue .what"))
    assert len(rows) == 20
    person.press("j", "a", "r", "u", "a")
    counts(person, "4 decided: 2 accepted, 1 rejected, 1 unsure")
    person.until(lambda: "16 of these 20 left" in person.text("#answers"))
    person.click(".again")
    person.until(lambda: names(person, ".queue .what")[0] == rows[4])
    person.open(atlas + "?view=review&kind=doubts&order=learning")
    assert person.until(lambda: names(person, ".queue .what"))
    assert "disagree" in person.text(".queue .asked")


def test_decisions_are_listed_withdrawn_imported_and_lead_to_an_update(person, atlas):
    person.open(atlas + QUESTION)
    person.press("j", "a", "r")
    counts(person, "1 accepted, 1 rejected")
    person.open(atlas + "?view=review&part=decisions")
    person.until(lambda: len(names(person, ".decisions .what")) == 2)
    reason = person.find(".decisions .reason")
    reason.send_keys("Not <b>true</b>.", Keys.TAB)
    links = [a.get_attribute("href") for a in person.all("a[download]")]
    assert [re.search(r"format=(\w+)", link)[1] for link in links] == ["tsv", "csv", "nt", "json"]
    person.click(".decisions button", "Withdraw")
    counts(person, "1 decided: 1 accepted, 0 rejected")
    person.click(".decisions button", "Put back")
    counts(person, "2 decided")
    person.click(".importing summary")
    text = person.find(".importing textarea")
    person.driver.execute_script("arguments[0].value = 'Chile\\tborders\\tPeru\\nnonsense'", text)
    person.click(".importing button", "Import")
    counts(person, "2 accepted")
    person.until(lambda: len(names(person, ".decisions .what")) == 3)
    person.click(".parts-of a", "Update the model")
    person.until(lambda: person.all(".note .go"))
    person.click(".note .go")
    person.until(lambda: "Facts whose probability moved most" in person.text("#answers"))
    assert "If Y borders X, then X borders Y." in person.texts(".changes li span")
    person.click(".changes .go", "Open the updated run")
    person.settle()
    assert person.address() == "?run=0%2F1"


def test_without_review_nothing_can_be_decided(person, atlas, fake):
    fake.review = False
    person.open(atlas + QUESTION)
    assert len(names(person)) == 10
    assert not person.all(".decide")
    person.press("j", "a")
    assert not person.find("#reviewbar").is_displayed()


# -- lists ----------------------------------------------------------------------------------------


def test_new_answers_come_first_and_known_ones_are_folded(person, kept):
    person.open(kept + "?head=Germany&relation=borders")
    assert set(person.texts(".arranged .mark")) == {"new"}
    assert person.text(".folded summary") == "9 known answers"
    assert not person.find(".folded .rows").is_displayed()
    person.click(".pager a", "Show 10 more")
    person.until(lambda: len(names(person)) == 20)
    assert person.focus() == names(person)[10]
    assert "k=20" in person.address()


def test_lists_are_sorted_filtered_and_taken_away(person, kept):
    person.open(kept + "?view=new&k=50")
    rows = names(person)
    person.find(".ways input").send_keys("borders")
    person.until(lambda: len(names(person)) < len(rows))
    assert all("borders" in name for name in names(person))
    assert "find=borders" in person.address()
    person.open(kept + QUESTION + "&sort=name")
    assert names(person) == sorted(names(person))
    person.click(".take button", "curl")
    command = person.until(lambda: person.text(".copied pre"))
    assert command.startswith("curl 'http://127.0.0.1:")
    assert "head=Chile&relation=official+language" in command
    person.click(".take button", "Python")
    person.until(lambda: 'run.query(head="Chile"' in person.text(".copied pre"))
    person.open(kept + "?view=facts&head=Germany&relation=in+country&side=head&k=3")
    assert "1 to 3 of" in person.text(".pager")
    assert person.texts(".rows .what")[0]


def test_each_view_is_found_as_it_was_left(person, kept):
    person.open(kept + QUESTION + "&find=n")
    person.click("#views a", "Doubts")
    person.until(lambda: person.text("h1") == "Facts that look wrong")
    person.find(".ways input").send_keys("a")
    person.click("#views a", "Map")
    person.until(lambda: person.all("canvas"))
    person.click("#views a", "Ask")
    person.until(lambda: "Chile official language" in person.text("h1"))
    assert person.address() == QUESTION + "&find=n"
    assert person.find(".ways input").get_property("value") == "n"
    person.click("#views a", "Doubts")
    person.until(lambda: person.address() == "?view=doubts&find=a")


def test_several_runs_are_compared(person, kept):
    person.open(kept + "?view=compare&head=Chile&relation=official+language")
    assert person.texts(".compare thead th")[1:3] == ["run 0", "run 1"]
    assert len(person.all(".compare tbody tr")) == 10


def test_the_map_is_loaded_once(person, kept):
    person.open(kept + "?view=map")
    search = person.all(".tools input")[0]
    search.send_keys("Chile")
    person.until(lambda: person.texts(".tools [role=option] .label")[:1] == ["Chile"])
    search.send_keys(Keys.ENTER)
    person.until(lambda: person.text("#card h2") == "Chile")
    person.click("#views a", "Ask")
    person.until(lambda: person.all(".welcome"))
    person.click("#views a", "Map")
    person.until(lambda: person.all("canvas"))
    loaded = js(person, "performance.getEntriesByType('resource').map((e) => e.name)")
    assert len([name for name in loaded if re.search(r"/api/.*map\b", name)]) == 1


# -- keys -----------------------------------------------------------------------------------------


def test_from_the_question_to_a_card_and_back_in_a_few_keys(person, kept):
    person.open(kept + "?head=Chile")
    person.press("/")
    person.type("relation", "official l")
    person.until(lambda: person.options("relation") == ["official language"])
    person.press(Keys.ENTER)
    person.until(lambda: names(person) and person.focus() == names(person)[0])
    first = person.focus()
    person.press(Keys.ENTER)
    person.until(lambda: person.text("#card h2") == first)
    assert person.focus() == first
    person.press(Keys.ESCAPE)
    person.until(lambda: not person.find("#card").is_displayed())
    assert js(person, "Boolean(document.activeElement.closest('.rows'))")
    assert person.focus() == first
    person.press("w")
    person.until(lambda: person.text(".rows .why .for h2") == "For")
    assert person.text(".rows .why .against h2") == "Against"


# -- layout ---------------------------------------------------------------------------------------

OVERLAPS = """(() => {
  const frame = document.querySelector('.neighbourhood svg').getBoundingClientRect();
  const boxes = [...document.querySelectorAll('.neighbourhood svg text')]
    .map((e) => [e.textContent, e.getBoundingClientRect()]);
  const bad = [];
  boxes.forEach(([name, a], i) => {
    if (a.left < frame.left || a.top < frame.top) bad.push(name);
    if (a.right > frame.right || a.bottom > frame.bottom) bad.push(name);
    boxes.slice(0, i).forEach(([other, b]) => {
      const across = a.left < b.right && b.left < a.right;
      if (across && a.top < b.bottom && b.top < a.bottom) bad.push(`${name} / ${other}`);
    });
  });
  return [boxes.length, bad];
})()"""


def test_a_drawing_grows_and_no_label_clips_or_collides(person, kept):
    person.open(kept + "?view=graph&head=Germany")
    before = len(person.all(".node"))
    shown, bad = js(person, OVERLAPS)
    assert shown > 12
    assert bad == []
    person.driver.execute_script(
        "[...document.querySelectorAll('.node')].find((e) => e.dataset.name === 'Poland')"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    person.until(lambda: len(person.all(".node")) > before)
    assert "Poland" in person.text(".about-node")
    person.driver.execute_script(LIKELY)
    person.until(lambda: person.all(".edge.predicted"))
    assert js(person, OVERLAPS)[1] == []
    dashes = "getComputedStyle(document.querySelector('.edge.predicted')).strokeDasharray"
    assert js(person, dashes) != "none"
    assert person.texts(".chance")[0].endswith("%")
    colour = "getComputedStyle(e).backgroundColor"
    found = js(person, each(".neighbourhood .key i:not(.dashed)", colour))
    assert len(found) == len(set(found))


def test_a_drawing_is_a_file(person, kept):
    person.open(kept + "?view=graph&head=Chile")
    person.driver.execute_script(
        "window.kept = [];"
        "URL.createObjectURL = (blob) => { window.kept.push(blob); return 'data:,'; }"
    )
    person.click(".neighbourhood .take button", "SVG")
    person.click(".neighbourhood .take button", "PNG")
    person.until(lambda: js(person, "window.kept.length") == 2)
    assert js(person, "window.kept.map((b) => b.type)") == ["image/svg+xml", "image/png"]
    script = "const done = arguments[0]; window.kept[0].text().then(done)"
    text = person.driver.execute_async_script(script)
    assert text.startswith("<svg")
    assert "Santiago" in text
    assert "stroke=" in text


PHONE = (
    "",
    QUESTION,
    QUESTION + "&card=entity:Chile",
    "?head=Germany",
    "?view=new",
    "?view=doubts",
    "?view=map",
    "?view=review",
    "?view=review&part=decisions",
    "?view=graph&head=Chile",
    "?view=compare&head=Chile&relation=official+language",
    "?view=facts&head=Germany&relation=borders&side=tail",
)
SMALL = """(() => {
  const targets = 'a, button, input:not([type=checkbox]), select, summary, .switch';
  return [...document.querySelectorAll(targets)]
    .filter((e) => e.checkVisibility() && !e.closest('.sr, svg, .skip, .compare'))
    .map((e) => [e.getBoundingClientRect(), `${e.tagName} ${e.className} ${e.textContent}`])
    .filter(([box]) => box.width && box.height < 43.5)
    .map(([box, name]) => `${name} ${box.height}`);
})()"""


def test_on_a_phone_nothing_is_too_wide_or_too_small_to_touch(person, atlas):
    person.screen(375, 740, mobile=True)
    person.open(atlas + QUESTION)
    person.driver.execute_script(DECIDE)
    for view in PHONE:
        person.open(atlas + view)
        assert js(person, "document.documentElement.scrollWidth") <= 375, view
        assert js(person, SMALL) == [], view


def test_doubts_of_an_entity_have_room(person, kept):
    person.screen()
    person.open(kept + QUESTION + "&card=entity:Germany")
    widths = each("#card .doubts .what", "e.getBoundingClientRect().width")
    assert min(js(person, widths)) > 150


def test_titles_have_labels_and_headings_their_order(person, kept):
    person.open(kept + QUESTION)
    person.until(
        lambda: js(person, "document.title") == "Chile · official language · ? – bilink explorer"
    )
    person.open(kept + "?card=entity:Chile")
    assert len(person.all("h1")) == 1


# -- accessibility --------------------------------------------------------------------------------

STATES = (
    *((view, None) for view in PHONE if view not in ("?view=new", "?view=graph&head=Chile")),
    ("?view=graph&head=Chile", LIKELY),
    (QUESTION, f"{DECIDE}; {WHY}"),
    ("?head=Germany&relation=borders", f"{UNFOLD}; {COPY}"),
    ("?head=Austrla&relation=borders", None),
    ("?head=Austria&relation=borders&tail=Germany", None),
    ("?card=relation:borders", None),
    ("?view=review&kind=doubts", DECIDE),
    ("?view=review&part=update", None),
)


@pytest.mark.skipif(not AXE.is_file(), reason="`make page` installs axe-core")
def test_axe_finds_nothing(person, atlas):
    axe = AXE.read_text(encoding="utf-8")

    def check(**options):
        script = (
            "const done = arguments[1]; axe.run(document, arguments[0]).then((found) => "
            "done(found.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 160))])))"
        )
        options |= {"resultTypes": ["violations"], "preload": False}
        return person.driver.execute_async_script(script, options)

    found = []
    for i, (view, script) in enumerate(STATES):
        size = (375, 740, True) if i % 4 == 3 else (1280, 900)
        person.screen(*size)
        person.open(atlas + view)
        if script:
            person.driver.execute_script(script)
            person.settle()
        person.driver.execute_script(axe)
        found += [(view, "light", *row) for row in check()]
        person.screen(*size, dark=True)
        found += [(view, "dark", *row) for row in check(runOnly=["color-contrast"])]
    assert found == []
    person.driver.execute_script("document.querySelector('h1').style.color = '#333'")
    assert [name for name, _ in check()] == ["color-contrast"]


# -- names that mean harm -------------------------------------------------------------------------


def test_hostile_names_do_no_harm_anywhere(person):
    person.screen()
    odd = quote(HOSTILE[0])
    relation = quote("<svg onload=alert(2)>")
    with served(hostile_run(), FakeReview) as address:
        person.complaints()
        for view, script in (
            (f"?head={odd}&relation={relation}&any=1", DECIDE),
            (f"?head={odd}&relation={relation}&any=1", WHY),
            (f"?view=graph&head={odd}", LIKELY),
            (f"?view=facts&head={odd}&relation={relation}&side=tail", None),
            (f"?card=entity:{odd}", None),
            (f"?card=relation:{relation}", None),
            ("?view=review", DECIDE),
            ("?view=review&part=decisions", None),
            (f"?view=compare&head={odd}&relation={relation}", None),
            (f"?view={odd}&head={odd}&find={odd}&sort={odd}&run={odd}", None),
        ):
            person.open(address + view)
            if script:
                person.driver.execute_script(script)
                person.settle()
            assert not person.all("img, script:not([src]), [onerror], [onload]"), view
        assert not [text for text in person.complaints() if "404" not in text]


def test_names_from_right_to_left_leave_the_question_in_its_order(person):
    person.screen()
    name = "שלום (עולם)"
    with served(hostile_run((*HOSTILE, name))) as address:
        person.open(f"{address}?head={quote(name)}&relation=r0&any=1")
        assert person.text("h1").startswith(name)
        parts = "[...document.querySelector('h1').children].map((e) => e.getBoundingClientRect().x)"
        places = js(person, parts)
        assert places == sorted(places)
        assert len(places) == 3
