"""Who and what the stories are made of: names, kinds, places, things, and the opening sentences.

A character's name, kind and pronouns are drawn together, so a story can never contradict itself
about them.
"""

from world import a, cap

GIRL = (
    "Lily Anna Mia Zoe Emma Nora Ruth Ella Rosa Clara Ivy Lucy Maya Tess Sofia Alice Hazel June Daisy "
    "Wendy"
).split()
BOY = (
    "Tom Ben Sam Max Leo Jack Paul Oscar Finn Hugo Noah Felix Adam Theo Henry Peter Simon Otto Luke "
    "Will").split()
PET = (
    "Rusty Pip Bella Coco Toby Nibbles Sunny Misty Pepper Luna Bruno Fern Dusty Tilly Ruby Shadow "
    "Biscuit Olive Willow Poppy"
).split()
HE_PET = set("Rusty Pip Toby Nibbles Bruno Dusty Shadow Biscuit Sunny Pepper".split())
ANIMAL = (
    "fox rabbit bear mouse owl duck squirrel hedgehog frog cat dog pig goat lamb turtle wolf lion "
    "elephant monkey "
    "donkey horse bird deer penguin beaver badger kitten puppy crow snail dragon robot"
).split()
PEOPLE = (
    "king queen prince princess wizard farmer sailor baker knight pirate fisherman gardener").split()
SIZE = (
    "little small young tiny clever kind brave curious shy quiet cheerful gentle funny proud lazy busy").split()
PLACE = (
    "a green forest|the forest;a small village|the village;a house by the sea|the beach;a farm on a "
    "hill|the hill;"
    "a quiet valley|the valley;a town by the river|the river;a cottage near a lake|the lake;an old "
    "castle|the castle garden;"
    "a busy city|the park;a warm meadow|the meadow;the edge of a deep wood|the wood;a tall mountain|"
    "the mountain path"
).split(";")
PLACE = [p.split("|") for p in PLACE]
THING = (
    "red ball;silver key;blue hat;golden ring;wooden boat;little drum;yellow scarf;shiny button;"
    "music box;green kite;"
    "paper star;brass bell;glass marble;woollen mitten;old map;white feather;toy train;picture book;"
    "purple ribbon;lucky stone"
).split(";")
SPOT = (
    "under a bush;behind a tree;beside the well;in the tall grass;under the bridge;inside a hollow "
    "log;near the old gate;"
    "on top of a wall;between two rocks;at the bottom of a basket;under the bed;next to the barn"
).split(";")
FOOD = (
    ("bread apples berries cheese honey_cakes nuts soup pears carrots cookies pancakes plums")
    .replace("_", "-")
    .split()
)
FOOD = [f.replace("-", " ") for f in FOOD]
TIME = (
    "One morning;One sunny day;One day;One cold evening;One spring morning;One afternoon;Early one "
    "day;One summer day;"
    "One windy day;On a bright autumn day"
).split(";")
START = (
    "Once upon a time there was {x}.;There once was {x}.;Once there was {x}.;Long ago there was {x}.;"
    "Once upon a time, there lived {x}."
).split(";")
GLAD = "happy glad proud cheerful delighted".split()


class Who:
    """A character: name, kind ("girl", "fox", "king"), adjective, pronouns."""

    def __init__(self, r, taken=(), kind=None):
        pool = r.choices(("girl", "boy", "animal", "people"), (4, 4, 7, 2))[0]
        self.kind = kind or (
            pool if pool in ("girl", "boy") else r.choice(ANIMAL if pool == "animal" else PEOPLE)
        )
        while True:
            if self.kind in ("girl", "queen", "princess"):
                self.name, she = r.choice(GIRL), True
            elif self.kind == "boy" or self.kind in PEOPLE:
                self.name, she = r.choice(BOY), False
            else:
                self.name = r.choice(PET)
                she = self.name not in HE_PET
            if self.name not in [t.name for t in taken]:
                break
        self.adj = r.choice(SIZE)
        self.he, self.him, self.his = ("she", "her", "her") if she else ("he", "him", "his")
        self.He, self.His = cap(self.he), cap(self.his)

    @property
    def intro(self):
        return f"{a(self.adj)} {self.kind} named {self.name}"

    @property
    def the(self):
        return f"the {self.kind}"


class Story:
    """text; topic ("a lost key"); hero; qa, a list of (question, answer)."""

    def __init__(self, sentences, topic, hero, qa):
        self.text, self.topic, self.hero, self.qa = " ".join(sentences), topic, hero, qa


def preposition(place):
    return "at" if place.startswith("the edge") else "on" if place.startswith(
        ("a farm", "a tall")) else "in"


def begin(r, w, place):
    """Two opening sentences and the questions they answer."""
    home = f"{preposition(place)} {place}"
    out = [
        r.choice(START).format(x=w.intro),
        r.choice((f"{w.He} lived {home}.", f"{w.name} lived {home}.", f"{w.His} home was {home}.")),
    ]
    return out, [
        ("Who is the story about?", f"The story is about {w.intro}."),
        (f"Where did {w.name} live?", f"{w.name} lived {home}."),
    ]
