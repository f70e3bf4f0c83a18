"""The explorer in a real browser: a new user clicks through it."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("selenium", reason="selenium is not installed")

from browser import chromium, served
from small import HOSTILE, hostile_run, large_run

import bilink
from bilink.runs.audit import audit

DOWN, ENTER, ESCAPE, TAB = "\ue015", "\ue007", "\ue00c", "\ue004"
WRONG = [
    ("Chile", "in continent", "Europe"),
    ("Japan", "in continent", "Africa"),
    ("Kenya", "in continent", "Asia"),
    ("Canada", "in continent", "Africa"),
    ("Peru", "has capital", "Vienna"),
    ("Germany", "uses currency", "Peso"),
    ("Austria", "official language", "Swahili"),
    ("France", "official language", "Japanese"),
]
NEIGHBOURS = {"Germany", "Czechia", "Slovakia", "Hungary", "Slovenia", "Italy", "Switzerland"}


@pytest.fixture(scope="module")
def person():
    with chromium() as person:
        yield person


@pytest.fixture(scope="module")
def atlas(person, tmp_path_factory):
    """The explorer of a quickly trained and audited run of the atlas, with planted errors."""
    graph = bilink.load_graph("atlas")
    planted = [
        [graph.entities.find(h), graph.relations.find(r), graph.entities.find(t)]
        for h, r, t in WRONG
    ]
    graph = replace(graph, train=np.concatenate([graph.train, planted]))
    options = {"epochs": 30, "seed": 1, "threads": 1, "validation_triples": 0}
    out = tmp_path_factory.mktemp("page") / "run"
    run = bilink.train(graph, model="distmult", dim=100, preset="margin", out=out, **options)
    audit(run, 300)
    with served(bilink.load(out)) as address:
        yield address


@pytest.fixture(scope="module")
def hostile(person):
    with served(hostile_run()) as address:
        yield address


def answers(person):
    return person.texts(".rows li .what")


def test_a_new_user_asks_which_countries_border_austria(person, atlas):
    person.open(atlas)
    assert "What would you like to know?" in person.text("#answers")
    person.type("head", "austr")
    person.until(lambda: set(person.options("head")[:2]) == {"Austria", "Australia"})
    person.click(".box[data-role=head] [role=option]", "Austria")
    person.settle()
    assert person.text("#answers h1") == "Austria"  # one box alone shows its card
    person.type("relation", "bord", ENTER)  # faster than the list of matches
    person.until(lambda: "Austria borders ?" in person.text("#answers"))
    assert len(person.texts(".arranged .what")) == 10  # new ones first, known ones folded
    assert len(NEIGHBOURS & set(answers(person))) >= 5
    assert "known" in person.texts(".rows .mark")
    person.click(".switch")
    person.until(lambda: set(person.texts(".rows .mark")) == {"new"})
    assert person.address() == "?head=Austria&relation=borders&new=1"


def test_a_new_user_asks_which_new_facts_are_most_probable(person, atlas):
    person.open(atlas)
    person.click(".try", "Which new facts are most probable?")
    person.settle(90)
    assert person.text("h1") == "The most probable new facts"
    assert len(answers(person)) == 10
    assert set(person.texts(".rows .mark")) == {"new"}
    assert all(value.endswith("%") for value in person.texts(".rows .value"))


def test_a_new_user_asks_which_facts_look_wrong(person, atlas):
    person.open(atlas)
    person.click("#views a", "Doubts")
    person.until(lambda: "Facts that look wrong" in person.text("#answers"))
    doubted = person.texts(".rows li .what")
    assert len(doubted) == 30
    found = [fact for fact in WRONG if any("".join(fact) in text for text in doubted)]
    assert len(found) >= 3  # of eight; by chance it would be none
    person.open(atlas + f"?card=entity:{found[0][0]}")
    assert "IN DOUBT" in person.text("#card")


def test_all_four_questions_can_be_asked(person, atlas):
    for address, words in (
        ("?head=Austria&relation=borders", "Austria borders ?"),
        ("?relation=borders&tail=Austria", "? borders Austria"),
        ("?head=Austria&tail=Vienna", "Austria ? Vienna"),
        ("?relation=borders", "? borders ?"),
    ):
        person.open(atlas + address)
        assert person.text("h1") == words
        assert len(answers(person)) >= 10
    person.open(atlas + "?head=Austria&relation=borders&tail=Germany")
    assert "The graph holds this fact." in person.text("#answers")


def test_answers_can_be_explained(person, atlas):
    person.open(atlas + "?head=Austria&relation=borders&new=1")
    person.click(".rows li:first-child button", "why")
    person.until(lambda: "FACTS THAT HOLD IT UP" in person.text(".rows li:first-child .why"))
    assert "approximate" in person.text(".why").lower()


def test_an_address_can_be_shared_and_the_way_back_works(person, atlas):
    person.open(atlas + "?relation=uses+currency&tail=Euro&card=entity:Malta")
    assert person.text("h1") == "? uses currency Euro"
    assert person.text("#card h2") == "Malta"
    assert person.find(".box[data-role=tail] input").get_property("value") == "Euro"
    person.click("#card .group a.entity", "Valletta")
    person.until(lambda: person.text("#card h2") == "Valletta")
    person.driver.back()
    person.until(lambda: person.text("#card h2") == "Malta")
    person.click("#card .close")
    person.until(lambda: not person.find("#card").is_displayed())
    assert "card" not in person.address()


def test_an_entity_has_a_card_with_facts_neighbours_and_a_drawing(person, atlas):
    person.open(atlas + "?card=entity:Chile")
    person.until(lambda: person.all("#card .neighbourhood .node"))
    assert "Peru" in person.text("#card")
    assert "official language" in person.text("#card")
    names = person.texts("#card .neighbourhood text")
    assert "Santiago" in names
    assert len(names) > 10


def test_a_relation_has_a_card_with_numbers_and_a_verdict(person, atlas):
    person.open(atlas + "?card=relation:borders")
    card = person.text("#card")
    assert "N-N: many heads, many tails" in card
    assert "all of its facts hold both ways" in card
    assert "TransE must lose at least" in card


def test_it_works_by_keyboard_alone(person, atlas):
    person.open(atlas)
    person.type("relation", "official l")
    person.until(lambda: person.options("relation") == ["official language"])
    box = person.find(".box[data-role=relation] input")
    assert box.get_attribute("aria-expanded") == "true"
    active = box.get_attribute("aria-activedescendant")
    assert person.find(f"#{active}").get_attribute("aria-selected") == "true"
    person.type("relation", ESCAPE)
    assert box.get_attribute("aria-expanded") == "false"
    person.type("relation", DOWN)
    person.until(lambda: person.options("relation") == ["official language"])
    person.type("relation", DOWN, ENTER)
    person.type("head", "Peru")
    person.until(lambda: "Peru" in person.options("head")[:1])
    person.type("head", ENTER)
    person.until(lambda: "Peru official language ?" in person.text("#answers"))
    assert "Spanish" in person.texts(".folded .what")


def test_the_map_shows_entities_and_the_positions_of_a_relation(person, atlas):
    person.open(atlas + "?view=map")
    canvas = person.until(lambda: person.find("canvas"))
    inked = (
        "const c = document.querySelector('canvas'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
        "for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n"
    )
    assert person.until(lambda: person.driver.execute_script(inked)) > 1000
    assert canvas.size["width"] > 900
    person.open(atlas + "?view=map&relation=borders&card=entity:Chile")
    person.until(lambda: "head and tail (164)" in person.text(".key"))
    assert person.text("#card h2") == "Chile"


def test_a_wrong_name_gets_a_sentence_and_close_ones(person, atlas):
    person.open(atlas + "?head=Austrla&relation=borders")
    assert "Unknown entity 'Austrla'; did you mean" in person.text(".trouble")


def test_on_a_phone_nothing_is_wider_than_the_screen(person, atlas):
    size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    person.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for view in (
            "",
            "?head=Chile&relation=official+language&card=entity:Chile",
            "?card=relation:borders",
            "?view=map",
            "?view=new",
            "?view=doubts",
        ):
            person.open(atlas + view)
            script = "return document.documentElement.scrollWidth"
            assert person.driver.execute_script(script) <= 360, view
    finally:
        person.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_that_mean_harm_are_shown_as_they_are(person, hostile):
    person.complaints()
    person.open(
        hostile + "?head=e9&relation=%3Csvg%20onload%3Dalert(2)%3E&any=1&k=30&card=entity:e9"
    )
    assert HOSTILE[0] in answers(person)
    assert person.text("#card h2") == "e9"
    person.open(hostile + "?card=entity:%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert person.text("#card h2") == HOSTILE[0]
    person.open(hostile + "?view=map")
    person.open(hostile + "?head=%3Cscript%3Ealert(3)%3C/script%3E&relation=r0")
    assert "<script>" in person.text(".trouble")
    assert not person.all("img, script:not([src])")
    assert all("alert" not in text or "404" in text for text in person.complaints())


def test_the_page_uses_no_network_and_breaks_no_rule_of_its_own(person, atlas):
    person.complaints()
    person.open(atlas + "?head=Chile&relation=official+language&card=relation:borders")
    script = "return performance.getEntriesByType('resource').map((e) => e.name)"
    for name in person.driver.execute_script(script):
        assert name.startswith((atlas, "data:")), name
    assert person.complaints() == []


def test_100_000_entities_are_no_burden(person):
    with served(large_run()) as address:
        person.open(address)
        person.type("head", "thing 0999")
        person.until(lambda: all("0999" in name for name in person.options("head")))
        person.type("head", DOWN, ENTER)
        person.settle()
        person.type("relation", "7", DOWN, ENTER)
        person.until(lambda: len(person.texts(".arranged .what")) == 10)
