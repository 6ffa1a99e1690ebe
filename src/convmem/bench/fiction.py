"""What the synthetic world is made of: kinds of entities, their names, their relations, and sentences about them.

Data only. ``{s}`` is an article's entity, ``{o}`` what it is related to, ``{other}`` someone of no importance.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """How entities of a kind are named (``word`` is invented) and introduced."""

    pattern: str
    parts: tuple[str, ...]
    openings: tuple[str, ...]


class Relation(NamedTuple):
    """A fact that an article on a ``subject`` can state.

    ``object`` is a kind of entity or of number; ``phrase`` names the object by its subject.
    """

    subject: str
    object: str
    phrase: str
    statements: tuple[str, ...]


NAMES = {
    "ship": Kind("the {word} {part}", ("Star", "Dawn", "Rose", "Tern", "Maiden", "Comet"),
                 ("{s} is a {adjective} sailing ship.", "{s} was a {adjective} vessel with {small} masts.")),
    "book": Kind("The {part} of {word}", ("Clock", "Mirror", "Orchard", "Lighthouse", "Ledger", "Winter"),
                 ("{s} is a {adjective} novel.", "{s} is a {adjective} book in {small} parts.")),
    "company": Kind("{word} {part}", ("Works", "Brothers", "and Daughters", "Company", "Foundry", "Union"),
                    ("{s} is a {adjective} company.", "{s} is a {adjective} house that deals in {goods}.")),
    "person": Kind("{part} {word}", ("Anselka", "Borvin", "Cathra", "Dovrin", "Elsbet", "Farrol", "Gisma", "Hartvin",
                                     "Ilvane", "Jorrit", "Kesta", "Lorvan", "Mirelda", "Nokos", "Oswena", "Pellam"),
                   ("{s} was a {adjective} {trade}.", "{s} was a {trade} who also dealt in {goods}.")),
    "town": Kind("{part} {word}", ("Upper", "Lower", "Old", "Port", "Fort", "Great", "Little", "Outer"),
                 ("{s} is a {adjective} town.", "{s} is a {adjective} market town known for its {goods}.")),
    "society": Kind("the {word} {part}", ("Society", "Institute", "Academy", "Circle", "Athenaeum"),
                    ("{s} is a {adjective} body of scholars.", "{s} is a {adjective} body of {small} hundred.")),
    "festival": Kind("the {word} {part}", ("Lantern Fair", "Rope Fair", "Boat Feast", "Bell Night", "Harvest Walk"),
                     ("{s} is a {adjective} festival.", "{s} is a feast of {goods} that lasts {small} days.")),
    "river": Kind("the {word} {part}", ("Water", "Beck", "Brook", "Stream", "Burn"),
                  ("{s} is a {adjective} river.", "{s} is a {adjective} river with {small} weirs.")),
    "year": Kind("{part}", (), ()),
    "number": Kind("{part}", (), ()),
}  # fmt: skip

NUMBERS = {"year": (1310, 1990), "number": (2_000, 990_000)}
"""The kinds that are numbers, with their lowest and highest values."""

KINDS = tuple(kind for kind in NAMES if kind not in NUMBERS)

ASKED = {
    "company": "Which company is",
    "person": "Who is",
    "town": "Which town is",
    "society": "Which society is",
    "festival": "Which festival is",
    "river": "Which river is",
    "year": "What is",
    "number": "What is",
}

RELATIONS = (
    Relation("ship", "company", "the yard that built {}",
             ("{s} was built by {o} for the grain trade.", "Her keel was laid by {o}, and {s} was built in a winter.",
              "It was {o} that built {s}, after two other yards had declined.")),
    Relation("ship", "person", "the first captain of {}",
             ("The first captain of {s} was {o}.", "{o} took command of {s} at her launch, as her first captain.",
              "On her maiden voyage {s} sailed under {o}, her first captain.")),
    Relation("ship", "year", "the year of the launch of {}",
             ("{s} was launched in {o}.", "In {o} the launch of {s} drew a small crowd.")),
    Relation("book", "person", "the author of {}",
             ("{s} was written by {o} over {small} years.", "The author of {s} is {o}, as only late printings say.",
              "{o} wrote {s} during a long illness.")),
    Relation("book", "town", "the town in which {} is set",
             ("The story of {s} is set in {o}.", "{s} takes place in {o}, in a single wet spring.",
              "All but the last chapter of {s} is set in the town of {o}.")),
    Relation("company", "person", "the founder of {}",
             ("{s} was founded by {o} with borrowed money.", "The founder of {s} was {o}, who never took a salary.",
              "{o} founded {s} after leaving a larger rival.")),
    Relation("company", "town", "the town of the head office of {}",
             ("The head office of {s} is in {o}.", "{s} has had its head office in {o} since the flood.",
              "From its head office in {o}, {s} still runs {small} smaller works.")),
    Relation("person", "town", "the birthplace of {}",
             ("{s} was born in {o}, the youngest of {small}.", "The birthplace of {s} is {o}.",
              "In {o}, during a storm, {s} was born.")),
    Relation("person", "person", "the teacher of {}",
             ("{s} was taught by {o} for {small} years.", "The teacher of {s} was {o}.",
              "As a pupil of {o}, {s} learned to draw and to keep accounts.")),
    Relation("person", "society", "the society that elected {} as a fellow",
             ("{s} was elected a fellow of {o}.", "{o} elected {s} as a fellow at its second attempt.")),
    Relation("person", "year", "the year of the death of {}",
             ("{s} died in {o}.", "In {o}, {s} died after a short illness.")),
    Relation("town", "river", "the river on which {} lies",
             ("{s} lies on {o}, a day's walk above the delta.", "The river at {s} is {o}.",
              "At {s}, {small} bridges cross {o}, on which the town lies.")),
    Relation("town", "person", "the architect of the town hall of {}",
             ("The town hall of {s} was designed by {o}.", "{o} was the architect of the town hall of {s}.")),
    Relation("town", "festival", "the festival held each autumn in {}",
             ("Each autumn {s} holds {o}.", "{o} is held in {s} each autumn, when the boats are in.")),
    Relation("town", "number", "the number of inhabitants of {}",
             ("{s} has {o} inhabitants.", "At the last count {s} had {o} inhabitants.")),
    Relation("society", "person", "the first president of {}",
             ("The first president of {s} was {o}.", "{o} was chosen as the first president of {s} by {small} votes.")),
    Relation("society", "town", "the town in which {} meets",
             ("{s} meets in {o}, above the old customs house.", "Since its foundation {s} has met in {o}.")),
    Relation("festival", "person", "the person whose memory {} honours",
             ("{s} honours the memory of {o}.", "It is the memory of {o} that {s} honours.")),
    Relation("river", "town", "the town at the source of {}",
             ("The source of {s} is at {o}.", "Rising at {o}, where its source is walled, {s} runs east.")),
)  # fmt: skip

MENTIONS = (
    "It is sometimes mentioned together with {o}.",
    "A {adjective} guidebook of {year} lists it beside {o}.",
    "There is no connection with {o}, whatever the {trade} {other} wrote.",
)

ASIDES = (
    "Letters from those years mention {goods} and little else.",
    "A {adjective} drawing of it hangs in a private collection.",
    "The {trade} {other} is said to have disputed this in a pamphlet of {year}.",
    "In {year} a fire destroyed most of the papers that were kept there.",
    "Prices of {goods} rose by {small} per cent in the spring of {year}.",
    "Visitors usually praise the {goods} and complain about the road.",
    "A {adjective} bell, cast in {year}, was sold to pay for repairs.",
    "Nothing more was heard of the matter until {year}.",
    "Several accounts differ on the details, and {other} gives the longest.",
    "There had been {small} earlier plans, all of them given up for want of {goods}.",
    "The archive keeps {small} boxes of papers on the subject, most of them about {goods}.",
    "Children still learn a {adjective} rhyme about it.",
    "For {small} winters the ferry did not run, and {goods} had to come by land.",
    "A {trade} from the coast kept a diary of the whole affair.",
    "The anniversary is marked by a supper of {goods}.",
    "According to {other}, the {adjective} years were the best ones.",
    "The trade in {goods} never recovered from {year}.",
    "No {trade} has since offered a better explanation.",
    "{other}, a {adjective} {trade}, left {small} pages about it and a bill for {goods}.",
    "The {adjective} weather of {year} delayed everything by {small} weeks.",
)

SLOTS = {
    "adjective": ("quiet", "much repaired", "disputed", "well kept", "narrow", "celebrated", "half forgotten", "modest",
                  "stubborn", "handsome", "weathered", "prosperous", "remote", "severe", "lively", "plain"),
    "trade": ("surveyor", "carver", "chandler", "translator", "botanist", "clockmaker", "magistrate", "printer",
              "cartographer", "glazier", "tuner", "weaver"),
    "goods": ("salt fish", "lamp oil", "barley", "blue cloth", "roof slates", "honey", "copper wire", "pears", "paper",
              "rope", "candles", "smoked cheese", "tar", "linen"),
    "small": ("two", "three", "four", "five", "six", "seven", "eight", "nine", "eleven", "twelve"),
}  # fmt: skip
