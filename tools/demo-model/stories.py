"""Short stories from a small grammar: a hero, a place, a trouble, a turn, an end.

`story(r)` returns a Story: its text, what one may ask for to get it, and questions about it with their answers. A plot is a
function that draws everything from the random.Random it is given and never contradicts itself: names, pronouns, things and
places are fixed when they first appear.
"""

from world import a, cap

GIRL = "Lily Anna Mia Zoe Emma Nora Ruth Ella Rosa Clara Ivy Lucy Maya Tess Sofia Alice Hazel June Daisy Wendy".split()
BOY = "Tom Ben Sam Max Leo Jack Paul Oscar Finn Hugo Noah Felix Adam Theo Henry Peter Simon Otto Luke Will".split()
PET = "Rusty Pip Bella Coco Toby Nibbles Sunny Misty Pepper Luna Bruno Fern Dusty Tilly Ruby Shadow Biscuit Olive Willow Poppy".split()
HE_PET = set("Rusty Pip Toby Nibbles Bruno Dusty Shadow Biscuit Sunny Pepper".split())
ANIMAL = (
    "fox rabbit bear mouse owl duck squirrel hedgehog frog cat dog pig goat lamb turtle wolf lion elephant monkey "
    "donkey horse bird deer penguin beaver badger kitten puppy crow snail dragon robot"
).split()
PEOPLE = ("king queen prince princess wizard farmer sailor baker knight pirate fisherman gardener").split()
SHE = set("queen princess".split())
SIZE = "little small young tiny clever kind brave curious shy quiet cheerful gentle funny proud lazy busy".split()
PLACE = (
    "a green forest|the forest;a small village|the village;a house by the sea|the beach;a farm on a hill|the hill;"
    "a quiet valley|the valley;a town by the river|the river;a cottage near a lake|the lake;an old castle|the castle garden;"
    "a busy city|the park;a warm meadow|the meadow;the edge of a deep wood|the wood;a tall mountain|the mountain path"
).split(";")
PLACE = [p.split("|") for p in PLACE]
THING = (
    "red ball;silver key;blue hat;golden ring;wooden boat;little drum;yellow scarf;shiny button;music box;green kite;"
    "paper star;brass bell;glass marble;woollen mitten;old map;white feather;toy train;picture book;purple ribbon;lucky stone"
).split(";")
SPOT = (
    "under a bush;behind a tree;beside the well;in the tall grass;under the bridge;inside a hollow log;near the old gate;"
    "on top of a wall;between two rocks;at the bottom of a basket;under the bed;next to the barn"
).split(";")
FOOD = "bread apples berries cheese honey_cakes nuts soup pears carrots cookies pancakes plums".replace(
    "_", "-"
).split()
FOOD = [f.replace("-", " ") for f in FOOD]
TIME = (
    "One morning;One sunny day;One day;One cold evening;One spring morning;One afternoon;Early one day;One summer day;"
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
        self.self_ = self.him + "self"

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


def begin(r, w, place):
    """Two opening sentences and the questions they answer."""
    out = [
        r.choice(START).format(x=w.intro),
        r.choice(
            (f"{w.He} lived in {place}.", f"{w.name} lived in {place}.", f"{w.His} home was in {place}.")
        )
        .replace("in the edge", "at the edge")
        .replace("in a house by", "in a house by")
        .replace("in a farm", "on a farm")
        .replace("in a tall mountain", "on a tall mountain"),
    ]
    home = (
        out[1].split(" in ", 1)[-1]
        if " in " in out[1]
        else out[1].split(" on ", 1)[-1] if " on " in out[1] else out[1].split(" at ", 1)[-1]
    )
    prep = "in" if " in " in out[1] else "on" if " on a" in out[1] else "at"
    return out, [
        ("Who is the story about?", f"The story is about {w.intro}."),
        (f"Where did {w.name} live?", f"{w.name} lived {prep} {home}"),
    ]


def lost(r, w, f, place, spot):
    t, s = r.choice(THING), r.choice(SPOT)
    out, qa = begin(r, w, place)
    out += [
        r.choice(
            (
                f"{w.name} had {a(t)} and loved it very much.",
                f"{w.His} favourite thing was {a(t)}.",
                f"{w.He} took {w.his} {t} everywhere.",
            )
        ),
        r.choice(TIME)
        + r.choice(
            (
                f", the {t} was gone.",
                f", {w.name} could not find the {t}.",
                f", {w.he} lost the {t} near {spot}.",
            )
        ),
        r.choice(
            (
                f"{w.He} looked everywhere, but it was not there.",
                f"{w.He} searched all day and began to cry.",
                f'"Where is my {t}?" {w.he} asked sadly.',
            )
        ),
        r.choice((f"Then {f.intro} came along.", f"Just then {w.he} met {f.intro}.")),
        r.choice(
            (
                f'"Do not worry," said {f.name}. "I will help you look."',
                f'"I can help you," said {f.name}.',
                f'"Let us search together," said {f.name}.',
            )
        ),
        r.choice(
            (
                f"They looked for a long time, and at last they found the {t} {s}.",
                f"After a while {f.name} found the {t} {s}.",
                f"Together they went to {spot}, and there was the {t}, {s}.",
            )
        ),
        r.choice(
            (
                f"{w.name} hugged {f.name} and said thank you.",
                f"{w.name} was so {r.choice(GLAD)} that {w.he} danced.",
                f'"Thank you, {f.name}!" said {w.name}.',
            )
        ),
        r.choice(
            (
                "From that day on they were good friends.",
                "A good friend makes every search shorter.",
                f"After that, {w.name} always kept the {t} in a safe place.",
            )
        ),
    ]
    qa += [
        (f"What did {w.name} lose?", f"{w.name} lost {w.his} {t}."),
        (f"Where was the {t}?", f"The {t} was {s}."),
        (f"Who helped {w.name}?", f"{f.name} the {f.kind} helped {w.name}."),
    ]
    return Story(out, r.choice((f"a lost {t}", f"{a(t)}", "something lost")), w, qa)


SKILL = (
    "swim|splashed in the water;sing|sang all the notes wrong;fly a kite|watched the kite fall down;paint|spilled the paint;ride a bicycle|fell off;"
    "bake bread|burned the bread;dance|tripped over the rug;climb trees|slid back down;read|mixed up the letters;play the flute|made only squeaks;"
    "whistle|blew only air;skate on the ice|fell on the ice;juggle|dropped every ball;row a boat|went round in circles"
).split(";")


def learn(r, w, f, place, spot):
    skill, fail = r.choice(SKILL).split("|")
    out, qa = begin(r, w, place)
    out += [
        r.choice(
            (
                f"More than anything, {w.he} wanted to learn to {skill}.",
                f"{w.name} wished to {skill}.",
                f"{w.His} dream was to {skill}.",
            )
        ),
        r.choice(TIME)
        + r.choice(
            (f", {w.he} tried, but {w.he} {fail}.", f", {w.he} went to {spot} to try, but {w.he} {fail}.")
        ),
        r.choice(
            (
                f'"I will never learn it," {w.he} said.',
                f"{w.name} felt sad and wanted to give up.",
                f"Everyone laughed, and {w.name} felt very small.",
            )
        ),
        r.choice(
            (f"But {f.intro} saw {w.him} and smiled.", f"{cap(f.intro)} came by and sat down beside {w.him}.")
        ),
        r.choice(
            (
                f'"I could not do it at first either," said {f.name}. "Try a little every day."',
                f'"I will teach you," said {f.name}.',
                f'"Nobody can do it the first time," said {f.name}. "Let me show you how."',
            )
        ),
        r.choice(
            (
                f"So {w.name} tried again the next day, and the day after that.",
                f"Every day they practised together at {spot}.",
                "They practised in the morning and they practised in the evening.",
            )
        ),
        r.choice(
            (
                f"After a week, {w.name} could {skill} better than anyone.",
                f"At last {w.name} could {skill}.",
                f"Slowly it became easier, and soon {w.he} could {skill}.",
            )
        ),
        r.choice(
            (
                f"{w.name} was very {r.choice(GLAD)}.",
                f'"I did it!" {w.he} shouted.',
                f"{f.name} clapped and cheered.",
            )
        ),
        r.choice(
            (
                "Practice makes hard things easy.",
                f"And {w.he} never gave up again.",
                "If you keep trying, you will learn.",
            )
        ),
    ]
    qa += [
        (f"What did {w.name} want to learn?", f"{w.name} wanted to learn to {skill}."),
        (f"Who taught {w.name}?", f"{f.name} the {f.kind} taught {w.name}."),
    ]
    return Story(out, r.choice((f"learning to {skill}", "not giving up", "practice")), w, qa)


def share(r, w, f, place, spot):
    food = r.choice(FOOD)
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice(
            (
                f", {w.he} packed some {food} and went for a walk.",
                f", {w.name} was carrying a basket of {food} to {spot}.",
            )
        ),
        r.choice((f"On the way {w.he} met {f.intro}.", f"Near {spot} sat {f.intro}.")),
        r.choice(
            (
                f'"I am so hungry," said {f.name}. "I have not eaten all day."',
                f"{f.name} was tired and very hungry.",
                f"{f.name} looked at the {food} and sighed.",
            )
        ),
        r.choice(
            (
                f"{w.name} had only a little, but {w.he} gave half of it to {f.name}.",
                f'"Then eat with me," said {w.name}, and {w.he} shared the {food}.',
                f"{w.name} thought for a moment and then shared the {food}.",
            )
        ),
        r.choice(
            (
                f'"Thank you, {w.name}," said {f.name}. "I will not forget it."',
                f"They ate together and talked until the sun went down.",
            )
        ),
        r.choice(
            (
                f"A week later, a storm came and {w.name} lost the way home.",
                f"In winter, {w.name} had no food left.",
                f"Some days later, {w.name} fell and hurt {w.his} leg.",
            )
        ),
    ]
    end = {
        "storm": f"It was {f.name} who found {w.him} and led {w.him} home.",
        "winter": f"Then {f.name} came to the door with a big basket of food.",
        "leg": f"It was {f.name} who came and carried {w.him} home.",
    }
    out += [
        next(v for k, v in end.items() if k in out[-1].lower()),
        r.choice(
            (
                f'"You helped me, and now I help you," said {f.name}.',
                f"{w.name} was very {r.choice(GLAD)} to have such a friend.",
            )
        ),
        r.choice(
            (
                "Kindness always comes back.",
                "What you give away is never lost.",
                "A shared meal makes a true friend.",
            )
        ),
    ]
    qa += [
        (f"What did {w.name} share?", f"{w.name} shared the {food}."),
        (f"Who was hungry?", f"{f.name} the {f.kind} was hungry."),
    ]
    return Story(out, r.choice(("sharing", "kindness", "a hungry friend")), w, qa)


FEAR = (
    "the dark|light a small lantern;thunder|count slowly until the noise is over;deep water|hold on to a friend's hand;big dogs|stand still and speak softly;"
    "high places|look straight ahead;the wind at night|listen to it like a song;strangers|say hello first;the old cave|sing while walking"
).split(";")


def fear(r, w, f, place, spot):
    what, trick = r.choice(FEAR).split("|")
    out, qa = begin(r, w, place)
    out += [
        r.choice(
            (f"{w.name} was afraid of {what}.", f"There was one thing {w.he} feared, and that was {what}.")
        ),
        r.choice(
            (
                f"{w.He} told nobody, because {w.he} felt ashamed.",
                f"When the others played, {w.he} often stayed at home.",
                f"It made {w.him} shiver.",
            )
        ),
        r.choice(TIME)
        + r.choice(
            (
                f", {w.name} told {w.his} friend {f.name} about it.",
                f", {w.his} friend {f.name} asked what was wrong.",
            )
        ),
        r.choice(
            (
                f"{f.name}, {a(f.adj)} {f.kind}, did not laugh.",
                f"{f.name} was {a(f.adj)} {f.kind} and knew what to do.",
            )
        ),
        r.choice(
            (
                f'"Here is a trick," said {f.name}. "You must {trick}."',
                f'"I was afraid too," said {f.name}. "Just {trick}."',
            )
        ),
        r.choice(
            (
                f"That night {w.name} tried it, and {w.his} heart beat more slowly.",
                f"The next time, {w.name} took a deep breath and tried it.",
            )
        ),
        r.choice(
            (
                f'"It works!" {w.he} whispered.',
                f"It was not so bad after all.",
                f"Little by little the fear grew smaller.",
            )
        ),
        r.choice(
            (
                f"Soon {w.name} was not afraid of {what} any more.",
                f"From then on {w.he} was the bravest {w.kind} of all.",
            )
        ),
        r.choice(
            (
                "Being brave means trying even when you are afraid.",
                "A fear that is shared is only half as big.",
                f"{w.name} was very {r.choice(GLAD)}.",
            )
        ),
    ]
    qa += [
        (f"What was {w.name} afraid of?", f"{w.name} was afraid of {what}."),
        (f"What was the trick?", f"The trick was to {trick}."),
        (f"Who helped {w.name}?", f"{f.name} the {f.kind} helped {w.name}."),
    ]
    return Story(out, r.choice((f"{what}", "being brave", "being afraid")), w, qa)


BUILD = "boat|raft of logs|sink;tree house|house of branches|fall down;sand castle|tower of sand|wash away;bridge|bridge of stones|break;snowman|man of snow|melt;cart|cart of wood|break;hut|hut of straw|blow away".split(
    ";"
)


def build(r, w, f, place, spot):
    what, first, how = r.choice(BUILD).split("|")
    out, qa = begin(r, w, place)
    past = {
        "sink": "sank",
        "fall down": "fell down",
        "wash away": "was washed away",
        "break": "broke",
        "melt": "melted",
        "blow away": "blew away",
    }[how]
    out += [
        r.choice((f"{w.His} best friend was {f.intro}.", f"{w.He} had a friend, {f.intro}.")),
        r.choice(TIME)
        + r.choice((f", they wanted to build a {what}.", f', {f.name} said, "Let us build a {what}!"')),
        r.choice(
            (
                f"They worked all morning at {spot}.",
                f"{w.name} brought the wood and {f.name} brought the rope.",
                "They were in a great hurry.",
            )
        ),
        r.choice(
            (
                f"But in the afternoon the {what} {past}.",
                f"But the {what} was too weak, and it {past}.",
                f"Then a strong wind came, and the {what} {past}.",
            )
        ),
        r.choice(
            (
                f'"All our work is gone," said {w.name}.',
                f"{f.name} wanted to cry.",
                f"They looked at each other and said nothing.",
            )
        ),
        r.choice(
            (
                f'"Let us try again, but more slowly," said {w.name}.',
                f'"We will do it better this time," said {f.name}.',
            )
        ),
        r.choice(
            (
                "This time they made a plan and measured every part.",
                "They worked carefully for three days.",
                "They asked an old builder for advice.",
            )
        ),
        r.choice(
            (f"The new {what} was strong and beautiful.", f"The second {what} held, even in the storm.")
        ),
        r.choice(
            (f"{w.name} and {f.name} were very {r.choice(GLAD)}.", f"All the neighbours came to see it.")
        ),
        r.choice(
            ("Good work needs time.", "Two friends can build anything.", "What breaks can be built again.")
        ),
    ]
    qa += [
        (f"What did they build?", f"They built a {what}."),
        (f"What happened to the first {what}?", f"The first {what} {past}."),
        (f"Who is {w.name}'s friend?", f"{w.name}'s friend is {f.name} the {f.kind}."),
    ]
    return Story(out, r.choice((f"building a {what}", f"a {what}", "working together")), w, qa)


TRAP = (
    "in the river|threw a rope and pulled;in a deep hole|let down a long branch and pulled;on a high branch|brought a ladder and climbed up;"
    "under a fallen tree|pushed with all the strength there was;in the mud|laid down a plank and pulled;on the roof|made a soft pile of hay below"
).split(";")


def rescue(r, w, f, place, spot):
    where, how = r.choice(TRAP).split("|")
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice(
            (
                f", {w.he} was walking near {spot} when {w.he} heard a cry.",
                f", {w.name} heard somebody call for help.",
            )
        ),
        r.choice((f"It was {f.intro}, stuck {where}.", f"{cap(f.intro)} was stuck {where}.")),
        r.choice((f'"Please help me!" cried {f.name}.', f"{f.name} was cold and afraid.")),
        r.choice(
            (
                f"{w.name} was not big, but {w.he} was quick.",
                f"{w.name} did not wait for a moment.",
                f'"I am coming!" shouted {w.name}.',
            )
        ),
        f"{w.He} {how}"
        + r.choice(
            (
                " until everything was well.",
                f", and at last {f.name} was free.",
                f", and soon {f.name} was safe.",
            )
        ),
        r.choice(
            (
                f'"You saved me," said {f.name}. "How can I thank you?"',
                f"{f.name} could hardly speak for joy.",
            )
        ),
        r.choice((f'"Be my friend," said {w.name}.', f'"You would have done the same," said {w.name}.')),
        r.choice(
            (
                f"In the evening they ate {r.choice(FOOD)} together by the fire.",
                f"{f.name} gave {w.him} {a(r.choice(THING))} as a present.",
            )
        ),
        r.choice(
            (
                "Even the smallest one can be a hero.",
                "Those who help others are never alone.",
                f"Everyone called {w.name} a hero.",
            )
        ),
    ]
    qa += [
        (f"Who was stuck?", f"{f.name} the {f.kind} was stuck {where}."),
        (f"Who saved {f.name}?", f"{w.name} the {w.kind} saved {f.name}."),
    ]
    return Story(out, r.choice(("a rescue", "a hero", "helping someone")), w, qa)


def truth(r, w, f, place, spot):
    t = r.choice(
        "blue vase|big mirror|kitchen window|clay pot|glass lamp|wooden chair|garden fence|flower pot".split(
            "|"
        )
    )
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} was playing and broke the {t}.", f", {w.he} ran too fast and broke the {t}.")),
        f"It belonged to {w.his} neighbour, {f.intro}.",
        r.choice(
            (
                f"{w.name} hid behind the door and hoped that nobody had seen it.",
                f'"What shall I do?" thought {w.name}.',
                f"{w.name} ran home and said nothing.",
            )
        ),
        r.choice((f"That night {w.he} could not sleep.", f"All day {w.he} felt a stone in {w.his} heart.")),
        r.choice(
            (
                f"In the morning {w.he} went to {f.name} and told the truth.",
                f"At last {w.he} knocked on {f.name}'s door and told the truth.",
            )
        ),
        r.choice(
            (
                f'"I broke your {t}," said {w.name}. "I am sorry."',
                f'"It was me," said {w.name}. "I am very sorry."',
            )
        ),
        r.choice((f"{f.name} was quiet for a moment and then smiled.", f"{f.name} was not angry at all.")),
        r.choice(
            (
                f'"A {t} can be mended," {f.he} said. "Thank you for telling me."',
                f'"You were brave to tell me," {f.he} said.',
            )
        ),
        r.choice(
            (
                f"Together they mended the {t}.",
                f"{w.name} helped {f.name} in the garden to make it good again.",
            )
        ),
        r.choice(
            ("Telling the truth makes the heart light.", "An honest word is worth more than any thing.")
        ),
    ]
    qa += [
        (f"What did {w.name} break?", f"{w.name} broke the {t}."),
        (f"Who owned the {t}?", f"The {t} belonged to {f.name} the {f.kind}."),
    ]
    return Story(out, r.choice(("telling the truth", f"a broken {t.split()[-1]}", "honesty")), w, qa)


def garden(r, w, f, place, spot):
    s = r.choice("sunflower|pumpkin|apple tree|rose|bean plant|cherry tree|strawberry plant|tulip".split("|"))
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} found a small seed near {spot}.", f", {f.intro} gave {w.him} a small seed.")),
        r.choice(
            (f"{w.name} put it into the ground and gave it water.", f"{w.He} planted it behind the house.")
        ),
        r.choice(
            ("The next day nothing had happened.", f"{w.He} looked every hour, but there was only soil.")
        ),
        r.choice((f'"Perhaps the seed is asleep," said {w.name}.', f'"It will never grow," said {w.name}.')),
        r.choice(
            (
                f'"Be patient," said {w.his} friend {f.name}. "Good things take time."',
                f'"Wait and water it," said {w.his} friend {f.name}.',
            )
        ),
        r.choice(
            (
                f"So {w.he} watered it every morning and waited.",
                "Days went by, and the rain came, and then the sun.",
            )
        ),
        r.choice(
            ("Then a tiny green leaf came out of the ground.", "One morning there was a small green point.")
        ),
        r.choice((f"It grew and grew until it was a beautiful {s}.", f"In summer it had become a tall {s}.")),
        r.choice(
            (
                f"{w.name} and {f.name} sat beside it and were {r.choice(GLAD)}.",
                f"{w.name} shared it with all the neighbours.",
            )
        ),
        r.choice(("Those who wait with care are rewarded.", "Every big thing begins small.")),
    ]
    qa += [
        (f"What grew from the seed?", f"A beautiful {s} grew from the seed."),
        (f"Who is {w.name}'s friend?", f"{w.name}'s friend is {f.name}."),
    ]
    return Story(out, r.choice((f"{a(s)}", "a seed", "being patient", "a garden")), w, qa)


def friend(r, w, f, place, spot):
    game = r.choice("hide and seek|ball|cards|pirates|tag|chess".split("|"))
    out, qa = begin(r, w, place)
    out += [
        r.choice((f"{w.He} was new there and had no friends.", f"{w.name} was often alone.")),
        r.choice(
            (
                f"Every day {w.he} sat near {spot} and watched the others.",
                f"{w.He} wished for somebody to play with.",
            )
        ),
        r.choice(TIME)
        + r.choice((f", {f.intro} sat down next to {w.him}.", f", {w.he} saw {f.intro}, who was alone too.")),
        r.choice(
            (
                f'"Hello, I am {f.name}," said {f.the}. "What is your name?"',
                f'"Do you want to play {game}?" asked {f.name}.',
            )
        ),
        r.choice((f'"My name is {w.name}," {w.he} said softly.', f'"Yes, please!" said {w.name}.')),
        r.choice(
            (f"They played {game} until it was dark.", f"All afternoon they played {game} and laughed.")
        ),
        r.choice(
            (f'"Will you come back tomorrow?" asked {w.name}.', f'"Shall we meet again?" asked {f.name}.')
        ),
        r.choice(
            ('"Of course," was the answer. "Friends always come back."', '"Every day!" was the answer.')
        ),
        r.choice(
            (
                f"And so {w.name} was never lonely again.",
                f"Since that day {w.name} and {f.name} are always together.",
            )
        ),
        r.choice(("A friendship can begin with one word.", "Sometimes you only have to say hello.")),
    ]
    qa += [
        (f"What did they play?", f"They played {game}."),
        (f"Who became {w.name}'s friend?", f"{f.name} the {f.kind} became {w.name}'s friend."),
    ]
    return Story(out, r.choice(("a new friend", "friendship", "being lonely")), w, qa)


def race(r, w, f, place, spot):
    out, qa = begin(r, w, place)
    stop = r.choice(
        (
            "stopped to sleep under a tree",
            "stopped to eat berries",
            "stopped to talk to a butterfly",
            "stopped to look in a mirror of water",
        )
    )
    out += [
        r.choice((f"{w.name} was slow, but {w.he} never stopped.", f"{w.name} could not run fast.")),
        f"In the same place lived {f.intro}, who was very fast.",
        r.choice((f'"I am the fastest of all," said {f.name} every day.', f"{f.name} laughed at {w.name}.")),
        r.choice(TIME) + f', {w.name} said, "Let us race to {spot}."',
        r.choice((f"Everyone came to watch.", f"{f.name} laughed loudly and said yes.")),
        r.choice(
            (f"{f.name} ran like the wind and was soon far ahead.", f"At first {f.name} was far in front.")
        ),
        f"But then {f.he} {stop}.",
        r.choice((f"{w.name} went on, step by step.", f"{w.name} walked and walked and did not rest.")),
        r.choice(
            (
                f"When {f.name} saw it, it was too late.",
                f"{f.name} ran as fast as {f.he} could, but it was too late.",
            )
        ),
        r.choice((f"{w.name} won the race, and everyone cheered.", f"{w.name} was the first to arrive.")),
        r.choice(("Slow and steady wins the race.", "It is better to go on than to go fast.")),
    ]
    qa += [
        (f"Who won the race?", f"{w.name} the {w.kind} won the race."),
        (f"Why did {f.name} lose?", f"{f.name} lost because {f.he} {stop}."),
    ]
    return Story(out, r.choice(("a race", "winning", "being slow")), w, qa)


def treasure(r, w, f, place, spot):
    where = r.choice(
        "under the old oak|behind the waterfall|in a dark cave|on a small island|below the stairs|in the old tower".split(
            "|"
        )
    )
    inside = r.choice(
        "a letter that said: the best treasure is a friend|a hundred gold coins|seeds of flowers nobody had ever seen|an old violin|a box full of sweets|a book of stories".split(
            "|"
        )
    )
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} found an old map in a bottle.", f", {w.he} found a map in an old book.")),
        r.choice(
            (f"It showed a treasure {where}.", f"There was a red cross on it, and the cross was {where}.")
        ),
        r.choice(
            (
                f"{w.name} showed it to {w.his} friend, {f.intro}.",
                f"{w.name} called {w.his} friend, {f.intro}.",
            )
        ),
        r.choice((f'"Let us go at once!" said {f.name}.', f'"I will bring a lamp," said {f.name}.')),
        r.choice(
            (f"They walked past {spot} and over three hills.", "It was a long way, and it began to rain.")
        ),
        r.choice(
            (
                f"{w.name} was tired, but {f.name} sang a song.",
                f"Twice they lost the way, and twice they found it again.",
            )
        ),
        r.choice((f"Then they found a box {where}.", f"At last they stood before a big box {where}.")),
        f"Inside was {inside}.",
        r.choice(
            (f"{w.name} and {f.name} laughed and shared it.", f'"We found it together," said {w.name}.')
        ),
        r.choice(("The way there was the best part.", "And they told the story for many years.")),
    ]
    qa += [
        (f"What did {w.name} find?", f"{w.name} found an old map."),
        (f"Where was the treasure?", f"The treasure was {where}."),
        ("What was inside the box?", f"Inside the box was {inside}."),
    ]
    return Story(out, r.choice(("a treasure", "an old map", "an adventure")), w, qa)


def winter(r, w, f, place, spot):
    food = r.choice("nuts|grain|apples|seeds|berries".split("|"))
    out, qa = begin(r, w, place)
    out += [
        r.choice(
            (
                f"All summer {w.name} gathered {food} for the winter.",
                f"While the sun was shining, {w.name} worked hard and stored {food}.",
            )
        ),
        f"{w.His} neighbour was {f.intro}.",
        r.choice((f"{f.name} lay in the sun and sang.", f"{f.name} only played and danced.")),
        r.choice((f'"Why do you work so much?" asked {f.name}.', f'"Come and play!" called {f.name}.')),
        r.choice((f'"Winter will come," said {w.name}.', f'"First I must fill my house," said {w.name}.')),
        r.choice(
            (
                "Then the snow fell and everything was white.",
                "Soon the cold wind came, and the days were short.",
            )
        ),
        r.choice(
            (
                f"{f.name} had nothing to eat and knocked at {w.name}'s door.",
                f"Hungry and cold, {f.name} came to {w.name}.",
            )
        ),
        r.choice(
            (
                f"{w.name} opened the door and gave {f.him} some {food}.",
                f'"Come in," said {w.name}. "There is enough for two."',
            )
        ),
        r.choice(
            (
                f"In spring, {f.name} was the first to work.",
                f'"Next year I will help you," {f.name} promised.',
            )
        ),
        r.choice(("Work first and play later.", "Think of winter while it is summer.")),
    ]
    qa += [
        (f"What did {w.name} gather?", f"{w.name} gathered {food}."),
        (f"Who came to {w.name}'s door?", f"{f.name} the {f.kind} came to the door."),
    ]
    return Story(out, r.choice(("winter", "working hard", "a cold winter")), w, qa)


PLOTS = [lost, lost, learn, learn, share, fear, build, rescue, truth, garden, friend, race, treasure, winter]


def story(r):
    """One story with its questions."""
    w = Who(r)
    f = Who(r, (w,))
    place, spot = r.choice(PLACE)
    return r.choice(PLOTS)(r, w, f, place, spot)


def request(r, s):
    """Words with which a user could have asked for story s."""
    w = s.hero
    k = r.choice(
        (
            a(w.kind),
            a(w.kind),
            f"{a(w.adj)} {w.kind}",
            f"{a(w.kind)} named {w.name}",
            f"{a(w.kind)} called {w.name}",
            s.topic,
            f"{a(w.kind)} and {s.topic}",
            f"{a(w.adj)} {w.kind} named {w.name}",
        )
    )
    return (
        r.choice(
            (
                f"Tell me a story about {k}.",
                f"Tell me a story about {k}.",
                f"Write a short story about {k}.",
                f"Can you tell me a story about {k}?",
                f"Please tell me a story about {k}.",
                f"I want to hear a story about {k}.",
                f"A story about {k}, please.",
                f"tell me a story about {k}",
                f"Write a story about {k}.",
                f"Do you know a story about {k}?",
            )
        )
        if r.random() < 0.88
        else r.choice(
            (
                "Tell me a story.",
                "Please tell me a story.",
                "Write a short story.",
                "Can you tell me a story?",
                "I would like to hear a story.",
            )
        )
    )
