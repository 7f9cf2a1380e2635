"""Plots about trouble and what helps against it: losing, learning, hunger, fear, failing, being
stuck.

A plot takes the random.Random r, the hero w, the friend f, the hero's home and a spot near it,
and returns a Story.
"""

from cast import FOOD, GLAD, SPOT, THING, TIME, Story, begin
from world import a, cap


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
    "swim|splashed in the water;sing|sang all the notes wrong;fly a kite|watched the kite fall down;"
    "paint|spilled the paint;ride a bicycle|fell off;"
    "bake bread|burned the bread;dance|tripped over the rug;climb trees|slid back down;read|mixed up "
    "the letters;play the flute|made only squeaks;"
    "whistle|blew only air;skate on the ice|fell on the ice;juggle|dropped every ball;row a boat|"
    "went round in circles"
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
            (f", {w.he} tried, but {w.he} {fail}.",
             f", {w.he} went to {spot} to try, but {w.he} {fail}.")
        ),
        r.choice(
            (
                f'"I will never learn it," {w.he} said.',
                f"{w.name} felt sad and wanted to give up.",
                f"Everyone laughed, and {w.name} felt very small.",
            )
        ),
        r.choice(
            (f"But {f.intro} saw {w.him} and smiled.",
             f"{cap(f.intro)} came by and sat down beside {w.him}.")
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
                "They ate together and talked until the sun went down.",
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
        ("Who was hungry?", f"{f.name} the {f.kind} was hungry."),
    ]
    return Story(out, r.choice(("sharing", "kindness", "a hungry friend")), w, qa)


FEAR = (
    "the dark|light a small lantern;thunder|count slowly until the noise is over;deep water|hold on "
    "to a friend's hand;big dogs|stand still and speak softly;"
    "high places|look straight ahead;the wind at night|listen to it like a song;strangers|say hello "
    "first;the old cave|sing while walking"
).split(";")


def fear(r, w, f, place, spot):
    what, trick = r.choice(FEAR).split("|")
    out, qa = begin(r, w, place)
    out += [
        r.choice(
            (f"{w.name} was afraid of {what}.",
             f"There was one thing {w.he} feared, and that was {what}.")
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
                "It was not so bad after all.",
                "Little by little the fear grew smaller.",
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
        ("What was the trick?", f"The trick was to {trick}."),
        (f"Who helped {w.name}?", f"{f.name} the {f.kind} helped {w.name}."),
    ]
    return Story(out, r.choice((f"{what}", "being brave", "being afraid")), w, qa)


BUILD = (
    "boat|raft of logs|sink;tree house|house of branches|fall down;sand castle|tower of sand|wash away;"
    "bridge|bridge of stones|break;snowman|man of snow|melt;cart|cart of wood|break;"
    "hut|hut of straw|blow away"
).split(";")


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
        + r.choice((f", they wanted to build a {what}.",
                    f', {f.name} said, "Let us build a {what}!"')),
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
                "They looked at each other and said nothing.",
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
            (f"The new {what} was strong and beautiful.",
             f"The second {what} held, even in the storm.")
        ),
        r.choice(
            (f"{w.name} and {f.name} were very {r.choice(GLAD)}.",
             "All the neighbours came to see it.")
        ),
        r.choice(
            ("Good work needs time.", "Two friends can build anything.",
             "What breaks can be built again.")
        ),
    ]
    qa += [
        ("What did they build?", f"They built a {what}."),
        (f"What happened to the first {what}?", f"The first {what} {past}."),
        (f"Who is {w.name}'s friend?", f"{w.name}'s friend is {f.name} the {f.kind}."),
    ]
    return Story(out, r.choice((f"building a {what}", f"a {what}", "working together")), w, qa)


TRAP = (
    "in the river|threw a rope and pulled;in a deep hole|let down a long branch and pulled;on a high "
    "branch|brought a ladder and climbed up;"
    "under a fallen tree|pushed with all the strength there was;in the mud|laid down a plank and "
    "pulled;on the roof|made a soft pile of hay below"
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
        r.choice((f'"Be my friend," said {w.name}.',
                  f'"You would have done the same," said {w.name}.')),
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
        ("Who was stuck?", f"{f.name} the {f.kind} was stuck {where}."),
        (f"Who saved {f.name}?", f"{w.name} the {w.kind} saved {f.name}."),
    ]
    return Story(out, r.choice(("a rescue", "a hero", "helping someone")), w, qa)
