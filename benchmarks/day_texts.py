"""The texts of a day's work, for `day.py`: three projects' memories, a person's own, and what they type. All made from a seed.

A memory is one fact of one kind about one part of a project (`berth importer`, `patient cache`), with a value and, for
most, a reason. Some parts exist in more than one project under the same name with other values, and some of those in
one project only by name: asking there for what another project knows must be answered by nobody.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

PROJECTS = ("quayside", "surgery", "glasshouse")
Place = str
"""A project's name, or empty for the person's own."""
Kind = Literal["need", "again", "command", "thanks", "general", "commit", "look-alike"]

_OWN_THINGS = {
    "quayside": (
        "berth", "tide", "crane", "container", "manifest", "pilot", "tugboat", "customs", "gate", "yard", "reefer", "vessel",
        "lashing", "bunker", "mooring", "stowage", "hazmat", "weighbridge", "railcar", "harbour fee", "draught", "shift",
    ),
    "surgery": (
        "patient", "referral", "prescription", "vaccine", "allergy", "triage", "dentist", "lab result", "insurance", "ward",
        "waiting room", "x-ray", "dosage", "consent", "appointment", "blood test", "discharge", "nurse", "symptom", "pharmacy",
        "home visit", "reminder",
    ),
    "glasshouse": (
        "tomato", "irrigation", "humidity", "vent", "shade screen", "fertiliser", "seedling", "pest", "harvest", "pump",
        "lamp", "boiler", "soil probe", "crop", "greenhouse", "weather", "valve", "pollinator", "substrate", "nutrient",
        "frost", "drone",
    ),
}  # fmt: skip
_SHARED_THINGS = (
    "invoice",
    "account",
    "report",
    "e-mail",
    "search",
    "audit",
    "upload",
    "payment",
    "backup",
    "calendar",
)
_ROLES = {
    "importer": "the code that reads {} data in",
    "exporter": "the code that writes {} data out",
    "scheduler": "the planning of {} jobs",
    "cache": "the fast lookup of {} data",
    "endpoint": "the HTTP side of {}",
    "worker": "the {} background process",
    "form": "the screen for {} details",
    "validator": "the checks on {} input",
    "archive": "the long-term storage of {} records",
    "sync": "the thing that keeps {} copies the same",
}

_NAMES = (
    "Marta", "Olu", "Henrik", "Priya", "Tomás", "Ines", "Kofi", "Yuki", "Dilan", "Agnes", "Ravi", "Sofia", "Lars", "Noor",
    "Bram", "Chidi", "Elif", "Gwen", "Hugo", "Jana",
)  # fmt: skip
_MONTHS = ("January", "March", "April", "June", "July", "September", "October", "November")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS = tuple(map(str, (2, 3, 4, 5, 6, 7, 9, 12, 15, 18, 20, 25, 40, 45, 60, 75, 90, 120, 250, 400)))
_PORTS = tuple(str(port) for port in range(4100, 9900, 137))
_FORMATS = (
    "Parquet",
    "CSV with semicolons",
    "Avro",
    "newline-delimited JSON",
    "XML",
    "MessagePack",
    "fixed-width text",
    "YAML",
)
_TOOLS = (
    "Redis",
    "RabbitMQ",
    "SQLite",
    "Kafka",
    "DuckDB",
    "NATS",
    "Postgres",
    "etcd",
    "MinIO",
    "Memcached",
    "ClickHouse",
)
_WHY = (
    "after the outage in {month}", "because {name} measured it in {month}", "since the vendor throttles us", "as {name} asked",
    "because the old way lost records", "for the auditors", "until {name}'s rewrite lands", "since version {number}",
    "to keep the bill below {number} euros a day", "because the night shift works offline", "on the advice of {name}",
    "after a long argument in {month}", "because staging is slow", "so that {name}'s team can replay it",
    "because of a bug in the driver", "for the customers in Norway", "since nobody trusts the clock there",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FactKind:
    """One kind of fact. `said`: ways to state it; `asked`: ways to need it, in other words; `values`: what it can be."""

    said: tuple[str, ...]
    asked: tuple[str, ...]
    values: tuple[str, ...]
    category: str = "general"


_KINDS = (
    FactKind(("The {part} listens on port {value}", "{value} is the port of the {part}"),
             ("Which port do I connect to for {it}?", "curl can't reach {it}, what number should be behind the colon?"), _PORTS, "environment"),
    FactKind(("The {part} gives up after {value} retries", "We try {value} times in the {part} before we call it failed"),
             ("How often does {it} attempt a call again until it stops?", "Write the error handling of {it} with the agreed number of attempts"), _NUMBERS, "decisions"),
    FactKind(("{value} owns the {part}", "Questions on the {part} go to {value}"),
             ("Who is responsible for {it}?", "Whom should I put as reviewer on a change of {it}?"), _NAMES, "people"),
    FactKind(("The {part} writes {value}", "Output of the {part} has to be {value}"),
             ("In what format do we emit the result of {it}?", "Add a test that parses the files coming out of {it}"), _FORMATS, "architecture"),
    FactKind(("The {part} times out after {value} seconds", "{value} seconds is the limit for a request to the {part}"),
             ("How long may a call to {it} take?", "Set the deadline for {it} as we agreed"), _NUMBERS, "decisions"),
    FactKind(("The {part} keeps its state in {value}", "State of the {part} lives in {value}"),
             ("What stores the data behind {it}?", "Where does {it} remember what it has done?"), _TOOLS, "architecture"),
    FactKind(("The {part} runs every {value}", "Each {value} the {part} is started by cron"),
             ("On which weekday does {it} go off?", "When is the weekly run of {it}?"), _DAYS, "workflow"),
    FactKind(("Never deploy the {part} on a {value}", "No releases of the {part} on a {value}"),
             ("Ship the new {it} now, or is there a day to avoid?", "Is there a freeze for rolling out {it}?"), _DAYS, "deployment"),
    FactKind(("Tests of the {part} need the fixture {value}_small", "Load {value}_small before the {part} is tested"),
             ("What sample data do I need so that the specs of {it} pass?", "The suite for {it} fails with an empty database, what did I forget to seed?"),
             tuple(f"{a}_{b}" for a in ("north", "winter", "legacy", "tiny", "broken") for b in ("season", "week", "site", "batch")), "testing"),
    FactKind(("The {part} must not log the {value}", "Keep the {value} out of the logs of the {part}"),
             ("Print everything about the request in {it}", "What is confidential in the output of {it}?"),
             ("phone number", "home address", "date of birth", "licence plate", "bank details", "signature", "passport scan", "salary", "session cookie"), "security"),
    FactKind(("The {part} is switched off by the flag {value}", "Feature flag {value} guards the {part}"),
             ("How do I turn {it} off for one customer?", "Which toggle is in front of {it}?"),
             tuple(f"{a}-{b}" for a in ("amber", "cobalt", "olive", "ruby", "ivory", "teal") for b in ("fox", "heron", "lynx", "otter", "wren")), "environment"),
    FactKind(("Batches of the {part} hold {value} rows at most", "{value} rows is the largest batch of the {part}"),
             ("How big can one chunk in {it} get?", "Split the work of {it} into pieces of the size we settled on"), _NUMBERS, "performance"),
    FactKind(("The {part} fails silently when {value}", "{value} breaks the {part} without any error"),
             ("{it} does nothing and prints nothing, what is the known cause?", "Debug why {it} quietly stops"),
             ("the disk is nearly full", "the clock jumps back", "the proxy strips a header", "a name holds an umlaut", "the token is older than a day",
              "two of them start at once", "the config has a trailing comma", "IPv6 is on", "the queue is empty at midnight"), "debugging"),
    FactKind(("We replaced {value} in the {part} with code of our own", "{value} is gone from the {part}"),
             ("Can I use the library we had in {it} before?", "Which dependency did we throw out of {it}?"),
             ("lodash", "pandas", "moment", "celery", "axios", "jinja", "gevent", "chrono", "boost", "guava", "dplyr", "sinatra"), "dependencies"),
    FactKind(("Amounts in the {part} are kept in {value}", "The {part} counts in {value}"),
             ("What unit do the numbers in {it} have?", "Convert the figures of {it} for the chart, what are they in?"),
             ("cents", "kilograms", "litres", "millimetres", "quarter hours", "pallets", "degrees Kelvin", "basis points", "nautical miles"), "conventions"),
    FactKind(("The {part} is rebuilt with `make {value}`", "`make {value}` makes the {part} anew"),
             ("What is the command that regenerates {it}?", "How do I get a fresh {it} after a pull?"),
             tuple(f"{a}-{b}" for a in ("prep", "seed", "bake", "spin", "roll") for b in ("one", "all", "night", "edge", "core")), "commands"),
    FactKind(("The {part} keeps records for {value} days", "After {value} days the {part} deletes a record"),
             ("How far back can I look in {it}?", "When does old stuff vanish from {it}?"), _NUMBERS, "decisions"),
    FactKind(("Calls to the {part} carry the header X-{value}", "The {part} rejects what lacks the header X-{value}"),
             ("{it} answers 403 to me, what must a request bring along?", "Write a client for {it} that gets past its gateway"),
             ("Tenant", "Origin-Site", "Trace", "Shift", "Lane", "Region", "Badge", "Epoch", "Caller"), "api"),
    FactKind(("{value} wants the {part} rewritten before {month}", "The rewrite of the {part} is promised to {value} for {month}"),
             ("Is there a date by which {it} has to be redone?", "Plan the work on the new {it}: who is waiting for it?"), _NAMES, "tasks"),
    FactKind(("Users of the {part} see {value} when it is down", "The {part} falls back to {value}"),
             ("What do people get to see while {it} is unavailable?", "Implement the outage behaviour of {it}"),
             ("yesterday's numbers", "a grey page", "a read-only copy", "the paper form", "a phone number to ring", "an empty table", "a queue ticket"), "architecture"),
)  # fmt: skip

_PREFERENCES = (
    "I prefer {a} to {b} for {topic}", "For {topic} show me {a} first, {b} only when I ask", "{a} over {b}, always, when it is about {topic}",
)  # fmt: skip
_TOPICS = (
    "small scripts", "shell work", "diagrams", "commit messages", "code review", "naming", "database migrations", "release notes",
    "dates", "error messages", "logging", "pull requests", "charts", "documentation", "test names", "refactoring", "benchmarks",
    "containers", "editor settings", "meeting notes",
)  # fmt: skip
_CHOICES = (
    "short answers", "tables", "plain text", "examples", "British spelling", "step lists", "one-liners", "long names", "tabs", "fish", "zsh",
    "mermaid", "graphviz", "early returns", "guard clauses", "composition", "small functions", "ISO dates", "squash merges", "rebase",
)  # fmt: skip
_PERSONAL = (
    FactKind(("My {topic} notes are in the notebook called {value}",), ("Where did I write down things on {topic}?", "Find my notebook about {topic}"),
             ("Larch", "Basalt", "Cedar", "Flint", "Quartz", "Willow", "Heath", "Moss", "Slate", "Fern", "Amber", "Thistle")),
    FactKind(("I talk to {value} about {topic} every second week",), ("With whom do I meet regularly on {topic}?",), _NAMES),
    FactKind(("My machine for {topic} is the one with {value} GB",), ("Which computer do I use when I do {topic}, how much memory has it?",), _NUMBERS),
    FactKind(("I learnt {topic} from {value} and still have the slides",), ("Who taught me {topic}?",), _NAMES),
    FactKind(("My time for {topic} is {value} morning, nothing else then",), ("When in the week do I reserve hours for {topic}?",), _DAYS),
    FactKind(("The password hint for my {topic} account is the {value} story",), ("What helps me remember the login of my {topic} account?",),
             ("lighthouse", "tractor", "violin", "igloo", "parrot", "canoe", "bakery", "glacier", "meteor")),
)  # fmt: skip
_HOBBIES = (
    "beekeeping", "sailing", "chess", "bread baking", "choir", "photography", "woodwork", "Portuguese", "climbing", "gardening", "astronomy",
    "pottery", "cycling", "calligraphy", "fencing", "radio", "genealogy", "origami", "cartography", "juggling", "typography", "winemaking",
    "3D printing", "drawing", "Icelandic", "archery", "knitting", "electronics", "geology", "accounting",
)  # fmt: skip

_COMMANDS = (
    "run the tests", "run the linter and fix what it says", "commit this", "push the branch", "rename that variable to `count`",
    "undo the last change", "add a docstring to this function", "extract lines 40 to 60 into a method", "format the file",
    "git status please", "merge main into this branch", "show me the diff", "delete the commented-out code", "sort the imports",
    "make this function async", "add type hints here", "stop", "try again", "open a pull request", "bump the patch version",
    "split this file in two", "inline that helper", "remove the debug prints", "use a set instead of the list here", "revert that",
)  # fmt: skip
_THANKS = (
    "thanks", "great, thank you!", "perfect", "yes", "ok go on", "looks good to me", "no, leave it", "that works now", "nice work",
    "hm, I see", "never mind", "all right, next one", "good morning", "done for today, bye", "wow that was quick",
)  # fmt: skip
_GENERAL = (
    "What is the difference between a process and a thread?", "How do I reverse a list in Python?", "Explain what a monad is",
    "What does HTTP status 418 mean?", "Write a regex that matches an ISO date", "How do I center a div in CSS?",
    "What is the time complexity of merge sort?", "Explain the borrow checker in Rust", "How does git bisect work?",
    "Give me an example of a left join in SQL", "What are the SOLID principles?", "How do I read a file line by line in Go?",
    "What is the capital of Mongolia?", "Convert 37 degrees Celsius to Fahrenheit", "Who invented the B-tree?",
    "How do generics work in TypeScript?", "What is eventual consistency?", "Write a haiku about compilers",
    "How can I exit vim?", "What does idempotent mean?", "Explain TCP slow start", "How do I make a virtual environment in Python?",
    "Is quicksort stable?", "What is the difference between UTF-8 and UTF-16?", "Explain the CAP theorem in two sentences",
)  # fmt: skip
_COMMITS = (
    "Write a commit message for: renamed three variables, no behaviour changed", "commit with message 'fix typo in readme'",
    "git commit -m 'tidy up whitespace'", "Draft a one-line changelog entry: smaller bundle, fewer requests",
    "Write the PR description: moved constants to the top of the module", "commit message for the diff above please",
    "squash the last two commits and call it 'clean up'", "Write a commit message: pinned the formatter's version",
    "amend the commit, the subject is too long", "tag this as a release candidate", "git commit -am 'wip'",
    "message for the merge commit please, keep it short", "Describe the staged changes in one sentence",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fact:
    """A memory as it is told, and the ways it is asked for. `place`: whose it is. `named`: whether what asks for it calls
    its subject by the name it has in the memory.
    """

    text: str
    place: Place
    category: str
    asked: tuple[str, ...] = ()
    named: bool = True


@dataclass(frozen=True, slots=True)
class Prompt:
    """Something typed in a session. `fact`: the memory it needs, None where it needs nothing."""

    session: int
    kind: Kind
    text: str
    fact: Fact | None = None


def facts(seed: int, per_project: int, of_the_person: int) -> tuple[list[Fact], dict[Place, list[str]]]:
    """The memories of all projects and the person, shuffled, and for each project the questions only others can answer."""
    dice = random.Random(seed)
    found: list[Fact] = []
    elsewhere: dict[Place, list[str]] = {}
    missing = _missing_parts(dice)
    shared = list(product(_SHARED_THINGS, _ROLES))
    for project in PROJECTS:
        parts = [*product(_OWN_THINGS[project], _ROLES), *(part for part in shared if part not in missing[project])]
        chosen = dice.sample(list(product(parts, _KINDS)), per_project)
        found += [_fact(dice, project, part, kind) for part, kind in chosen]
    for project in PROJECTS:
        of_others = [
            fact
            for fact in found
            if fact.place not in (project, "") and any(_name(part) in fact.text for part in missing[project])
        ]
        elsewhere[project] = [dice.choice(fact.asked) for fact in dice.sample(of_others, min(40, len(of_others)))]
    found += _of_the_person(dice, of_the_person)
    dice.shuffle(found)
    return found, elsewhere


def prompts(
    seed: int, known: Sequence[Fact], elsewhere: dict[Place, list[str]], *, count: int, sessions: int
) -> list[Prompt]:
    """A day: `count` prompts of `sessions` interleaved sessions, session s in project s mod 3, half of them in need."""
    dice = random.Random(seed + 1)
    askable = {place: [fact for fact in known if fact.asked and fact.place == place] for place in ("", *PROJECTS)}
    for of_place in askable.values():
        dice.shuffle(of_place)
    quiet: dict[Kind, list[str]] = {
        "command": [*_COMMANDS], "thanks": [*_THANKS], "general": [*_GENERAL], "commit": [*_COMMITS],
    }  # fmt: skip
    asked: dict[int, list[Fact]] = {session: [] for session in range(sessions)}
    day: list[Prompt] = []
    for session in _interleaved(dice, count, sessions):
        project = PROJECTS[session % len(PROJECTS)]
        if dice.random() < 0.5:
            again = bool(asked[session]) and dice.random() < 0.12
            fact = dice.choice(asked[session]) if again else askable["" if dice.random() < 0.12 else project].pop()
            asked[session].append(fact)
            # Asked again in another way where there is one, so that it is not the words that are recognised.
            day.append(Prompt(session, "again" if again else "need", fact.asked[-1 if again else 0], fact))
            continue
        kind: Kind = dice.choice(("command", "thanks", "general", "commit", "look-alike"))
        text = elsewhere[project].pop() if kind == "look-alike" else dice.choice(quiet[kind])
        day.append(Prompt(session, kind, text))
    return day


def _interleaved(dice: random.Random, count: int, sessions: int) -> Iterator[int]:
    """Whose turn it is: each session speaks equally often, in bursts, as somebody with several terminals works."""
    left = {session: count // sessions + (session < count % sessions) for session in range(sessions)}
    while left:
        session = dice.choice(sorted(left))
        for _ in range(min(dice.randint(1, 4), left[session])):
            yield session
            left[session] -= 1
        if not left[session]:
            del left[session]


def _missing_parts(dice: random.Random) -> dict[Place, set[tuple[str, str]]]:
    """For each project the shared parts it does not have; the other two do."""
    shared = list(product(_SHARED_THINGS, _ROLES))
    dice.shuffle(shared)
    size = len(shared) // (2 * len(PROJECTS))
    return {project: set(shared[i * size : (i + 1) * size]) for i, project in enumerate(PROJECTS)}


def _fact(dice: random.Random, project: Place, part: tuple[str, str], kind: FactKind) -> Fact:
    value, month = dice.choice(kind.values), dice.choice(_MONTHS)
    said = dice.choice(kind.said).format(part=_name(part), value=value, month=month)
    if dice.random() < 0.7:
        said += ", " + dice.choice(_WHY).format(
            name=dice.choice(_NAMES), month=dice.choice(_MONTHS), number=dice.choice(_NUMBERS)
        )
    # Half of the questions do not call the part by its name.
    named = dice.random() < 0.5
    it = f"the {_name(part)}" if named else _ROLES[part[1]].format(part[0])
    asked = [_sentence(question.format(it=it)) for question in kind.asked]
    dice.shuffle(asked)
    return Fact(f"{_sentence(said)}.", project, kind.category, tuple(asked), named)


def _of_the_person(dice: random.Random, count: int) -> list[Fact]:
    """Preferences, which belong to the start of each session, and facts of their own, which are asked for."""
    personal = [
        Fact(f"{_sentence(kind.said[0].format(topic=topic, value=dice.choice(kind.values)))}.", "", "general",
             tuple(question.format(topic=topic) for question in kind.asked))
        for kind, topic in product(_PERSONAL, _HOBBIES)
    ]  # fmt: skip
    wanted: dict[str, Fact] = {}
    while len(wanted) < count - len(personal):
        a, b = dice.sample(_CHOICES, 2)
        text = f"{_sentence(dice.choice(_PREFERENCES).format(a=a, b=b, topic=dice.choice(_TOPICS)))}."
        wanted[text] = Fact(text, "", "preferences")
    return personal[:count] + list(wanted.values())


def _name(part: tuple[str, str]) -> str:
    return " ".join(part)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
