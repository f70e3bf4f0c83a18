"""The page in a real browser: reviews, lists, drawings, keys; its layout and its accessibility."""

import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

from browser import chromium, served
from selenium.webdriver.common.keys import Keys
from small import HOSTILE, hostile_run

import bilink
from bilink.runs.combined import combine
from bilink.runs.folder import AUDIT, DECISIONS, RunFolder

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


def doubt_neighbours(run):
    """Write down that nine neighbours of Germany are in doubt, and half of them Peru was meant."""
    rows = [
        answer for answer in run.query(head="Germany", relation="borders", k=60) if answer.known
    ]
    doubts = [
        {
            **{name: getattr(row, name) for name in ("head", "relation", "tail")},
            **{f"{name}_label": getattr(row, name) for name in ("head", "relation", "tail")},
            "probability": 0.1 + i / 15,
            "score": 1.0,
            "side": "tail",
            "suggestion": {"name": "Peru", "label": "Peru", "probability": 0.95} if i % 2 else None,
        }
        for i, row in enumerate(rows)
    ]
    (run.path / AUDIT).mkdir()
    found = {"graph": run.graph.fingerprint, "doubts": doubts}
    RunFolder(run.path / AUDIT).write_doubts(found, run.digest)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model with rules and doubts, and each alone."""
    here = tmp_path_factory.mktemp("page")
    model = bilink.train("atlas", "distmult", 16, epochs=5, threads=1, out=here / "distmult")
    rules = bilink.train("atlas", "paths", out=here / "paths")
    doubt_neighbours(combine([model, rules], out=here / "both"))
    return here / "both", here / "distmult", here / "paths"


@pytest.fixture(scope="module")
def address(folders):
    """A server for all tests that do not update."""
    with served([bilink.load(folder) for folder in folders], review=True) as address:
        yield address


@pytest.fixture
def kept(person, address):
    """Its address; what was decided does not matter."""
    person.screen()
    return address


@pytest.fixture
def decisions(folders):
    """The file of decisions, when nothing is decided."""
    path = folders[0] / DECISIONS
    path.unlink(missing_ok=True)
    yield path
    if path.is_symlink():
        path.unlink()


@pytest.fixture
def atlas(kept, decisions):
    """The address, when nothing is decided."""
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


def test_a_decision_that_the_server_refuses_is_not_shown(person, atlas, decisions, tmp_path):
    person.open(atlas + QUESTION)
    decisions.symlink_to(tmp_path / "elsewhere")
    person.click(".decide [data-kind=accept]")
    person.until(lambda: "was not kept" in person.text("#reviewbar [role=alert]"))
    assert "is a link to another file" in person.text("#reviewbar [role=alert]")
    assert not person.all("[data-decision]")


def test_a_doubtful_fact_is_replaced_and_both_decisions_are_taken_back(person, atlas, decisions):
    person.open(atlas + "?view=doubts")
    person.click(".doubts .fix button", "Replace")
    counts(person, "2 decided: 1 accepted, 1 rejected")
    assert [line.split("\t")[1] for line in decisions.read_text().splitlines()[2:]] == [
        "reject",
        "accept",
    ]
    person.until(lambda: ": accept “Germany borders Peru”" in person.text(".undo"))
    person.press("z")
    person.until(lambda: ": reject “Germany borders" in person.text(".undo"))
    person.press("z")
    person.until(lambda: not person.find("#reviewbar").is_displayed())
    assert not person.all("[data-decision]")


def test_the_queue_is_worked_through_by_keys(person, atlas):
    person.open(atlas + "?view=review")
    rows = person.until(lambda: names(person, ".queue .what"))
    assert len(rows) == 20
    person.press("j", "a", "r", "u", "a")
    counts(person, "4 decided: 2 accepted, 1 rejected, 1 unsure")
    person.until(lambda: "16 of these 20 left" in person.text("#answers"))
    person.click(".again")
    person.until(lambda: names(person, ".queue .what")[:1] == rows[4:5])
    person.open(atlas + "?view=review&order=learning")
    assert person.until(lambda: names(person, ".queue .what"))
    assert all(text.endswith(".") for text in person.texts(".queue .asked"))
    person.open(atlas + "?view=review&kind=doubts")
    assert person.until(lambda: len(names(person, ".queue .what"))) >= 7
    assert "Perhaps Peru was meant." in person.texts(".queue .asked")


def test_decisions_are_listed_withdrawn_and_imported(person, atlas, decisions):
    person.open(atlas + QUESTION)
    person.press("j", "a", "r")
    counts(person, "1 accepted, 1 rejected")
    person.open(atlas + "?view=review&part=decisions")
    person.until(lambda: len(names(person, ".decisions .what")) == 2)
    reason = person.find(".decisions .reason")
    reason.send_keys("Not <b>true</b>.", Keys.TAB)
    person.until(lambda: "Not <b>true</b>." in decisions.read_text())
    links = [a.get_attribute("href") for a in person.all("a[download]")]
    assert [re.search(r"format=(\w+)", link)[1] for link in links] == ["tsv", "csv", "nt", "json"]
    person.click(".decisions button", "Withdraw")
    counts(person, "1 decided: 1 accepted, 0 rejected")
    person.click(".decisions button", "Put back")
    counts(person, "2 decided")
    person.open(atlas + "?view=review&part=decisions")
    assert "Not <b>true</b>." in js(person, each(".decisions .reason", "e.value"))
    person.click(".importing summary")
    given = "Chile\\tborders\\tPeru\\nChile\\tborders\\tEcuador\\treject\\nChle\\tborders\\tPeru"
    text = person.find(".importing textarea")
    person.driver.execute_script(f"arguments[0].value = '{given}'", text)
    person.click(".importing button", "Import")
    counts(person, "2 rejected")
    person.until(lambda: len(names(person, ".decisions .what")) == 3)
    said = person.until(lambda: person.text(".imported"))
    assert "1 decision imported, 1 was there already." in said  # Chile does border Peru
    assert "unknown entity 'Chle'" in said


def test_an_update_says_what_it_changed(person, folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "run")
    (folder / DECISIONS).unlink(missing_ok=True)
    run = bilink.load(folder)
    *accepted, rejected = [(a.head, a.relation, a.tail) for a in run.new_facts(4)]
    for fact in accepted:
        run.decisions.accept(*fact)
    run.decisions.reject(*rejected)
    with served(bilink.load(folder), review=True) as address:
        person.screen()
        person.open(address + "?view=review&part=update")
        person.click(".note .go")
        person.until(lambda: "The model is updated: 3 facts accepted, 1 rejected." in said(person))
        person.until(lambda: "Facts whose probability moved most" in said(person))
        assert person.texts(".changed .moved")
        assert "Rules that rose" in said(person)
        person.click(".changes .go", "Open the updated run")
        person.settle()
        assert person.address() == "?run=1"
        assert person.texts("#run option") == ["run", "run, update 1"]
        head, relation, tail = map(quote, accepted[0])
        person.open(f"{address}?run=1&head={head}&relation={relation}&tail={tail}")
        assert "The graph holds this fact." in said(person)


def said(person):
    return person.text("#answers")


def test_without_review_nothing_can_be_decided(person, folders, decisions):
    person.screen()
    with served(bilink.load(folders[0])) as address:
        person.open(address + QUESTION)
        assert len(names(person)) == 10
        assert not person.all(".decide")
        person.press("j", "a")
        assert not person.find("#reviewbar").is_displayed()
        person.open(address + "?view=review")
        assert "bilink serve RUN --review" in said(person)
    assert not decisions.exists()


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
    assert person.texts(".compare thead th")[1:4] == ["both", "distmult", "paths"]
    assert 10 <= len(person.all(".compare tbody tr")) <= 30


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


def test_hostile_names_do_no_harm_anywhere(person, tmp_path):
    person.screen()
    odd = quote(HOSTILE[0])
    relation = quote("<svg onload=alert(2)>")
    run = hostile_run()
    run.path = tmp_path  # for the decisions
    with served([run, hostile_run()], review=True) as address:
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
        harmless = re.compile("status of (404|422)")  # names that are unknown or too long
        assert not [text for text in person.complaints() if not harmless.search(text)]


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
