"""Plots about how to live with others: truth, patience, friendship, races, treasures, winter.

A plot takes the random.Random r, the hero w, the friend f, the hero's home and a spot near it,
and returns a Story.
"""

from cast import GLAD, TIME, Story, begin
from world import a


def truth(r, w, f, place, spot):
    t = r.choice(
        "blue vase|big mirror|kitchen window|clay pot|glass lamp|wooden chair|garden fence|flower pot".split(
            "|"
        )
    )
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} was playing and broke the {t}.",
                    f", {w.he} ran too fast and broke the {t}.")),
        f"It belonged to {w.his} neighbour, {f.intro}.",
        r.choice(
            (
                f"{w.name} hid behind the door and hoped that nobody had seen it.",
                f'"What shall I do?" thought {w.name}.',
                f"{w.name} ran home and said nothing.",
            )
        ),
        r.choice((f"That night {w.he} could not sleep.",
                  f"All day {w.he} felt a stone in {w.his} heart.")),
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
        r.choice((f"{f.name} was quiet for a moment and then smiled.",
                  f"{f.name} was not angry at all.")),
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
            ("Telling the truth makes the heart light.",
             "An honest word is worth more than any thing.")
        ),
    ]
    qa += [
        (f"What did {w.name} break?", f"{w.name} broke the {t}."),
        (f"Who owned the {t}?", f"The {t} belonged to {f.name} the {f.kind}."),
    ]
    return Story(out, r.choice(("telling the truth", f"a broken {t.split()[-1]}", "honesty")), w,
                 qa)


def garden(r, w, f, place, spot):
    s = r.choice(
        "sunflower|pumpkin|apple tree|rose|bean plant|cherry tree|strawberry plant|tulip".split(
            "|"))
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} found a small seed near {spot}.",
                    f", {f.intro} gave {w.him} a small seed.")),
        r.choice(
            (f"{w.name} put it into the ground and gave it water.",
             f"{w.He} planted it behind the house.")
        ),
        r.choice(
            ("The next day nothing had happened.",
             f"{w.He} looked every hour, but there was only soil.")
        ),
        r.choice((f'"Perhaps the seed is asleep," said {w.name}.',
                  f'"It will never grow," said {w.name}.')),
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
            ("Then a tiny green leaf came out of the ground.",
             "One morning there was a small green point.")
        ),
        r.choice((f"It grew and grew until it was a beautiful {s}.",
                  f"In summer it had become a tall {s}.")),
        r.choice(
            (
                f"{w.name} and {f.name} sat beside it and were {r.choice(GLAD)}.",
                f"{w.name} shared it with all the neighbours.",
            )
        ),
        r.choice(("Those who wait with care are rewarded.", "Every big thing begins small.")),
    ]
    qa += [
        ("What grew from the seed?", f"A beautiful {s} grew from the seed."),
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
        + r.choice((f", {f.intro} sat down next to {w.him}.",
                    f", {w.he} saw {f.intro}, who was alone too.")),
        r.choice(
            (
                f'"Hello, I am {f.name}," said {f.the}. "What is your name?"',
                f'"Do you want to play {game}?" asked {f.name}.',
            )
        ),
        r.choice((f'"My name is {w.name}," {w.he} said softly.', f'"Yes, please!" said {w.name}.')),
        r.choice(
            (f"They played {game} until it was dark.",
             f"All afternoon they played {game} and laughed.")
        ),
        r.choice(
            (f'"Will you come back tomorrow?" asked {w.name}.',
             f'"Shall we meet again?" asked {f.name}.')
        ),
        r.choice(
            ('"Of course," was the answer. "Friends always come back."',
             '"Every day!" was the answer.')
        ),
        r.choice(
            (
                f"And so {w.name} was never lonely again.",
                f"Since that day {w.name} and {f.name} are always together.",
            )
        ),
        r.choice(("A friendship can begin with one word.",
                  "Sometimes you only have to say hello.")),
    ]
    qa += [
        ("What did they play?", f"They played {game}."),
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
        r.choice((f"{w.name} was slow, but {w.he} never stopped.",
                  f"{w.name} could not run fast.")),
        f"In the same place lived {f.intro}, who was very fast.",
        r.choice((f'"I am the fastest of all," said {f.name} every day.',
                  f"{f.name} laughed at {w.name}.")),
        r.choice(TIME) + f', {w.name} said, "Let us race to {spot}."',
        r.choice(("Everyone came to watch.", f"{f.name} laughed loudly and said yes.")),
        r.choice(
            (f"{f.name} ran like the wind and was soon far ahead.",
             f"At first {f.name} was far in front.")
        ),
        f"But then {f.he} {stop}.",
        r.choice((f"{w.name} went on, step by step.",
                  f"{w.name} walked and walked and did not rest.")),
        r.choice(
            (
                f"When {f.name} saw it, it was too late.",
                f"{f.name} ran as fast as {f.he} could, but it was too late.",
            )
        ),
        r.choice((f"{w.name} won the race, and everyone cheered.",
                  f"{w.name} was the first to arrive.")),
        r.choice(("Slow and steady wins the race.", "It is better to go on than to go fast.")),
    ]
    qa += [
        ("Who won the race?", f"{w.name} the {w.kind} won the race."),
        (f"Why did {f.name} lose?", f"{f.name} lost because {f.he} {stop}."),
    ]
    return Story(out, r.choice(("a race", "winning", "being slow")), w, qa)


def treasure(r, w, f, place, spot):
    where = r.choice(
        "under the old oak|behind the waterfall|in a dark cave|on a small island|below the stairs|in "
        "the old tower".split("|")
    )
    inside = r.choice(
        "a letter that said: the best treasure is a friend|a hundred gold coins|seeds of flowers "
        "nobody had ever seen|an old violin|a box full of sweets|a book of stories".split("|")
    )
    out, qa = begin(r, w, place)
    out += [
        r.choice(TIME)
        + r.choice((f", {w.he} found an old map in a bottle.",
                    f", {w.he} found a map in an old book.")),
        r.choice(
            (f"It showed a treasure {where}.",
             f"There was a red cross on it, and the cross was {where}.")
        ),
        r.choice(
            (
                f"{w.name} showed it to {w.his} friend, {f.intro}.",
                f"{w.name} called {w.his} friend, {f.intro}.",
            )
        ),
        r.choice((f'"Let us go at once!" said {f.name}.',
                  f'"I will bring a lamp," said {f.name}.')),
        r.choice(
            (f"They walked past {spot} and over three hills.",
             "It was a long way, and it began to rain.")
        ),
        r.choice(
            (
                f"{w.name} was tired, but {f.name} sang a song.",
                "Twice they lost the way, and twice they found it again.",
            )
        ),
        r.choice((f"Then they found a box {where}.",
                  f"At last they stood before a big box {where}.")),
        f"Inside was {inside}.",
        r.choice(
            (f"{w.name} and {f.name} laughed and shared it.",
             f'"We found it together," said {w.name}.')
        ),
        r.choice(("The way there was the best part.", "And they told the story for many years.")),
    ]
    qa += [
        (f"What did {w.name} find?", f"{w.name} found an old map."),
        ("Where was the treasure?", f"The treasure was {where}."),
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
        r.choice((f'"Why do you work so much?" asked {f.name}.',
                  f'"Come and play!" called {f.name}.')),
        r.choice((f'"Winter will come," said {w.name}.',
                  f'"First I must fill my house," said {w.name}.')),
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
