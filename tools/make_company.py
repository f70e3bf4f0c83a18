"""Make `examples/company.csv`, an invented company, and the facts that were taken out of it.

    python tools/make_company.py

The company is small and tidy: teams sit in offices, use systems and run projects, and most of what
a person has follows from the team, but not all of it.
"""

import csv
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent.parent / "examples"
SEED = 4
HIDDEN = 0.1  # share of the facts about people that is taken out

FIRST = [
    "Ada",
    "Bela",
    "Chidi",
    "Dagny",
    "Emil",
    "Farah",
    "Goran",
    "Hanna",
    "Ines",
    "Jonas",
    "Kalina",
    "Liam",
    "Mira",
    "Nadia",
    "Olu",
    "Petra",
    "Quentin",
    "Rosa",
    "Sami",
    "Tove",
    "Uma",
    "Viktor",
    "Wanda",
    "Xenia",
    "Yusuf",
    "Zora",
]
LAST = [
    "Abara",
    "Berg",
    "Castro",
    "Dimov",
    "Eriksen",
    "Fontaine",
    "Grau",
    "Horvat",
    "Ito",
    "Jansen",
    "Kovac",
    "Lindqvist",
    "Moreau",
    "Novak",
    "Okafor",
    "Pires",
    "Quist",
    "Rossi",
    "Silva",
    "Tamm",
    "Urban",
    "Vogel",
    "Weiss",
    "Yilmaz",
    "Zielinski",
]
OFFICES = {
    "Lisbon": "Portugal",
    "Tallinn": "Estonia",
    "Leeds": "United Kingdom",
    "Lyon": "France",
    "Turin": "Italy",
}
DEPARTMENTS = {
    "Engineering": ["Platform", "Search", "Mobile", "Data", "Security"],
    "Sales": ["North Sales", "South Sales", "Partners"],
    "Finance": ["Accounting", "Controlling"],
    "Operations": ["Support", "Logistics", "Facilities", "People"],
}
SYSTEMS = {
    "Engineering": ["Build Server", "Code Review", "Incident Desk", "Data Lake", "Feature Flags"],
    "Sales": ["Customer Desk", "Price Book", "Contract Vault", "Travel Desk"],
    "Finance": ["Ledger", "Payroll", "Contract Vault", "Invoice Inbox"],
    "Operations": ["Ticket Queue", "Stock Book", "Room Planner", "Hiring Board", "Travel Desk"],
}
SKILLS = {
    "Engineering": ["Python", "Rust", "SQL", "Networks", "Statistics", "Testing"],
    "Sales": ["Negotiation", "Portuguese", "French", "Contracts", "Presentations"],
    "Finance": ["Bookkeeping", "Tax", "SQL", "Contracts", "Forecasting"],
    "Operations": ["Planning", "Languages", "First Aid", "Purchasing", "Mediation"],
}
PEOPLE = 150


def company() -> list[tuple[str, str, str]]:
    """All facts, those about people last."""
    random = np.random.default_rng(SEED)

    def some(values: list[str], low: int, high: int) -> list[str]:
        count = min(int(random.integers(low, high + 1)), len(values))
        return [str(each) for each in random.permutation(values)[:count]]

    names = [f"{first} {last}" for first in FIRST for last in LAST]
    people = [str(name) for name in random.permutation(names)[:PEOPLE]]
    teams = [(team, department) for department, teams in DEPARTMENTS.items() for team in teams]
    facts = [(city, "lies in", country) for city, country in OFFICES.items()]
    uses, needs, runs, office, members = {}, {}, {}, {}, {}
    for i, (team, department) in enumerate(teams):
        office[team] = some(list(OFFICES), 1, 1)[0]
        uses[team] = some(SYSTEMS[department], 2, 4)
        needs[team] = some(SKILLS[department], 2, 3)
        runs[team] = [f"Project {name}" for name in some(["Alder", "Birch", "Cedar", "Elm"], 1, 3)]
        runs[team] = [f"{project} ({team})" for project in runs[team]]
        members[team] = people[i :: len(teams)]
        facts += [(team, "part of", department), (team, "based in", office[team])]
        facts += [(team, "uses", system) for system in uses[team]]
        facts += [(team, "needs", skill) for skill in needs[team]]
        facts += [(team, "runs", project) for project in runs[team]]
    heads = {department: members[teams[0]][0] for department, teams in DEPARTMENTS.items()}
    for team, department in teams:
        lead = members[team][0]
        for person in members[team]:
            above = heads[department] if person == lead else lead
            place = office[team] if random.random() < 0.96 else some(list(OFFICES), 1, 1)[0]
            facts += [(person, "member of", team), (person, "works in", place)]
            facts += [(person, "reports to", above)] if above != person else []
            skills = [skill for skill in needs[team] if random.random() < 0.7]
            skills += some([s for s in SKILLS[department] if s not in skills], 0, 1)
            facts += [(person, "has access to", system) for system in uses[team]]
            facts += [(person, "knows", skill) for skill in skills]
            facts += [(person, "works on", project) for project in some(runs[team], 1, 2)]
    return facts


def main() -> None:
    """Write both files."""
    facts = company()
    random = np.random.default_rng(SEED)
    about_people = [i for i, fact in enumerate(facts) if fact[1] in ("has access to", "works in")]
    hidden = set(random.permutation(about_people)[: round(HIDDEN * len(about_people))].tolist())
    kept = [fact for i, fact in enumerate(facts) if i not in hidden]
    write(FOLDER / "company.csv", [kept[i] for i in random.permutation(len(kept))])
    write(FOLDER / "company_hidden.csv", [facts[i] for i in sorted(hidden)])
    print(f"{len(kept)} facts, and {len(hidden)} that were taken out")


def write(path: Path, facts: list[tuple[str, str, str]]) -> None:
    """One line for each fact, with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("head", "relation", "tail"), *facts])


if __name__ == "__main__":
    main()
