"""Made-up project memories from a seed, to fill a scope up with: what a large team's notes may sound like.

Composed of parts, so that fifty thousand are distinct and no two of a kind say the same of the same thing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_PARTS = (
    *("invoice", "ledger", "catalogue", "checkout", "refund", "shipment", "warehouse", "tariff", "claim", "policy"),
    *("patient", "roster", "ticket", "survey", "grade", "lecture", "sensor", "meter", "turbine", "valve", "parcel"),
    *("camera", "playlist", "caption", "subtitle", "thumbnail", "article", "comment", "newsletter", "donation"),
    *("booking", "itinerary", "seat map", "fare", "loyalty", "coupon", "voucher", "auction", "bid", "listing"),
    *("mortgage", "payroll", "expense", "budget", "tax form", "audit trail", "contract", "signature", "archive"),
    *("genome", "assay", "spectrum", "telescope", "weather", "tide", "soil", "harvest", "recipe", "menu", "route"),
)
_THINGS = (
    *("importer", "exporter", "worker", "scheduler", "cache", "index", "queue", "gateway", "dashboard", "report"),
    *("parser", "validator", "renderer", "mailer", "webhook", "crawler", "replica", "backup", "migration", "feed"),
    *("form", "search page", "settings page", "API client", "test suite", "fixture set", "pipeline", "notebook"),
    *("schema", "lookup table", "permission check", "rate limiter", "upload", "preview", "archive job", "sync"),
)
_NAMES = (
    *(
        "Amara",
        "Bence",
        "Chidi",
        "Dagny",
        "Eloise",
        "Farid",
        "Greta",
        "Hiro",
        "Ilse",
        "Jonas",
        "Keiko",
        "Lucia",
        "Mateo",
    ),
    *("Nadia", "Oskar", "Priya", "Quentin", "Rosa", "Selim", "Tamsin", "Umberto", "Vera", "Wanjiru", "Xenia", "Yusuf"),
)
_TOOLS = (
    *(
        "PostgreSQL",
        "Redis",
        "RabbitMQ",
        "Kafka",
        "SQLite",
        "MongoDB",
        "Elasticsearch",
        "Terraform",
        "Ansible",
        "Docker",
    ),
    *(
        "Kubernetes",
        "Jenkins",
        "GitLab",
        "Grafana",
        "Prometheus",
        "Sentry",
        "nginx",
        "Celery",
        "Airflow",
        "dbt",
        "Spark",
    ),
    *("pytest", "Vitest", "Playwright", "Storybook", "webpack", "Vite", "Gradle", "Maven", "CMake", "Poetry", "uv"),
)
_WHYS = (
    "since an outage of {month} lost {n} records",
    "because {name} saw it fail twice under load",
    "as the auditors of {month} asked for it",
    "since customers of the {part} complained",
    "because two jobs ran at once in {month}",
    "as {tool} is slower there by a factor of {few}",
    "since the old way cost {n} euros a month",
    "because nobody could read the logs",
)
_MONTHS = ("January", "February", "March", "April", "May", "June", "August", "September", "October", "November")
_SENTENCES = (
    "The {part} {thing} retries {few} times and then parks the message, {why}.",
    "{name} owns the {part} {thing}; ask there before changing its interface.",
    "We moved the {part} {thing} from {tool} to {tool2} in {month}, {why}.",
    "The {part} {thing} reads its settings from config/{slug}.toml and nowhere else.",
    "Never run the {part} {thing} against production before {hour} o'clock, {why}.",
    "The {part} {thing} listens on port {port} on the staging host.",
    "Times in the {part} {thing} are UTC with milliseconds; the {part2} {thing2} still sends seconds.",
    "Amounts of the {part} {thing} are kept in cents as integers, {why}.",
    "The nightly {part} {thing} takes about {n} minutes and must end before the {part2} {thing2} starts.",
    "Tests of the {part} {thing} need {tool} and the fixture {slug}_{n}.json.",
    "Run `make {slug}-{verb}` after every change of the {part} {thing}.",
    "A bug in the {part} {thing} was an index that started at one; the {part2} {thing2} has the same code.",
    "Feature flag {slug}_{verb} hides the new {part} {thing} from everyone but {name}'s team.",
    "The {part} {thing} keeps {n} days of history, the {part2} {thing2} keeps all of it.",
    "Names in the {part} {thing} are snake_case, in the {part2} {thing2} they are camelCase, {why}.",
    "We decided against {tool} for the {part} {thing}, {why}.",
    "Rows of the {part} {thing} are never deleted but closed with a date, {why}.",
    "The {part} {thing} may use at most {n} MB of memory, {why}.",
    "Reviews of the {part} {thing} go to {name} and one person of the {part2} team.",
    "{tool} {few}.{few2} breaks the {part} {thing}; stay on {few}.{few3} until {month}.",
    "Deploys of the {part} {thing} happen on {day} only, {why}.",
    "The {part} {thing} answers 409 when a second {part2} of the same key comes in.",
    "Errors of the {part} {thing} go to the channel #{slug}-alerts and page {name} after {n} in an hour.",
    "The word {part} means the {part2} of a customer here, not the one in the {thing}.",
)
_VERBS = ("check", "seed", "replay", "verify", "reset", "rebuild", "lint", "snapshot", "publish", "dry-run")
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays")


def fillings(seed: int, count: int) -> list[str]:
    """`count` distinct sentences, the same for the same seed."""
    made: dict[str, None] = {}
    for sentence in _sentences(random.Random(seed)):
        made.setdefault(sentence)
        if len(made) == count:
            break
    return list(made)


def _sentences(chance: random.Random) -> Iterator[str]:
    while True:
        part, part2 = chance.sample(_PARTS, 2)
        thing, thing2 = chance.sample(_THINGS, 2)
        tool, tool2 = chance.sample(_TOOLS, 2)
        few, few2, few3 = chance.sample(range(2, 10), 3)
        values = {
            "part": part, "part2": part2, "thing": thing, "thing2": thing2, "tool": tool, "tool2": tool2,
            "few": few, "few2": few2, "few3": few3, "name": _one(chance, _NAMES), "month": _one(chance, _MONTHS),
            "verb": _one(chance, _VERBS), "day": _one(chance, _DAYS), "n": chance.randrange(10, 900),
            "port": chance.randrange(3000, 9999), "hour": chance.randrange(6, 22), "slug": f"{part}_{thing}".replace(" ", "_"),
        }  # fmt: skip
        values["why"] = _one(chance, _WHYS).format(**values)
        yield _one(chance, _SENTENCES).format(**values)


def _one(chance: random.Random, choices: Sequence[str]) -> str:
    return chance.choice(choices)
