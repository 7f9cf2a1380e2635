"""The closed world of the demo model: small facts, and the ways to ask for them.

Each fact becomes (question, answer, short answer). Nothing here is meant to be complete; it is
what a model of two million parameters can hold and a reader can check at a glance. Pure data and
string work, no state, no files.
"""

CAPITALS = dict(p.split(":") for p in """
France:Paris Italy:Rome Spain:Madrid Germany:Berlin England:London Scotland:Edinburgh Ireland:Dublin
Portugal:Lisbon Greece:Athens Austria:Vienna Poland:Warsaw Hungary:Budapest Norway:Oslo Sweden:Stockholm
Finland:Helsinki Denmark:Copenhagen Iceland:Reykjavik Russia:Moscow Turkey:Ankara Egypt:Cairo Kenya:Nairobi
Japan:Tokyo China:Beijing India:Delhi Canada:Ottawa Mexico:Mexico_City Cuba:Havana Peru:Lima Chile:Santiago
Brazil:Brasilia Argentina:Buenos_Aires Australia:Canberra Switzerland:Bern Belgium:Brussels Croatia:Zagreb
Romania:Bucharest Bulgaria:Sofia Iran:Tehran Iraq:Baghdad Thailand:Bangkok Vietnam:Hanoi Korea:Seoul
Morocco:Rabat Ukraine:Kyiv Nepal:Kathmandu Colombia:Bogota
""".split())
CAPITALS = {k: v.replace("_", " ") for k, v in CAPITALS.items()}

OPPOSITES = [p.split(":") for p in """
hot:cold big:small fast:slow old:young happy:sad up:down open:closed light:dark wet:dry hard:soft loud:quiet
full:empty high:low long:short early:late rich:poor strong:weak clean:dirty near:far good:bad left:right
day:night inside:outside thick:thin sweet:sour brave:afraid heavy:light_as_a_feather always:never push:pull
begin:end win:lose give:take buy:sell asleep:awake first:last black:white laugh:cry remember:forget
above:below front:back true:false friend:enemy summer:winter question:answer sunrise:sunset deep:shallow
wide:narrow sharp:blunt smooth:rough tall:short
""".split()]
OPPOSITES = [p for p in OPPOSITES if "_" not in p[1]]

# animal: sound, home, young, food
ANIMALS = dict((p.split("|")[0], p.split("|")[1:]) for p in """
dog|barks|in a kennel|puppy|bones
cat|meows|in a house|kitten|fish
cow|moos|in a barn|calf|grass
sheep|says baa|in a field|lamb|grass
horse|neighs|in a stable|foal|hay
pig|oinks|in a sty|piglet|corn
duck|quacks|by a pond|duckling|water plants
lion|roars|in the savanna|cub|meat
bee|buzzes|in a hive|larva|nectar
owl|hoots|in a hollow tree|owlet|mice
frog|croaks|in a pond|tadpole|flies
wolf|howls|in the forest|pup|meat
mouse|squeaks|in a hole|pup|cheese
bird|sings|in a nest|chick|seeds
hen|clucks|in a coop|chick|grain
bear|growls|in a cave|cub|honey
snake|hisses|in the grass|snakelet|mice
elephant|trumpets|in the savanna|calf|leaves
monkey|chatters|in the trees|infant|bananas
goat|bleats|on the mountain|kid|grass
rabbit|thumps|in a burrow|kit|carrots
fox|yelps|in a den|kit|berries
spider|makes no sound|in a web|spiderling|flies
""".strip().split("\n"))

LEGS = dict(
    dog="four",
    cat="four",
    cow="four",
    horse="four",
    bird="two",
    duck="two",
    hen="two",
    bee="six",
    ant="six",
    spider="eight",
    snake="no",
    fish="no",
    frog="four",
    octopus="no",
    lion="four",
    butterfly="six",
    owl="two",
)

COLOURS = dict(p.split(":") for p in """
a_banana:yellow grass:green the_sky:blue snow:white coal:black a_strawberry:red an_orange:orange
a_lemon:yellow a_tomato:red a_carrot:orange chocolate:brown milk:white a_leaf:green a_plum:purple
a_frog:green a_flamingo:pink the_sun:yellow the_sea:blue blood:red a_raven:black a_swan:white
an_elephant:grey a_cucumber:green a_cherry:red a_fire_engine:red a_polar_bear:white a_pumpkin:orange
a_cloud:white an_eggplant:purple a_pea:green
""".split())
COLOURS = {k.replace("_", " "): v for k, v in COLOURS.items()}
MIXES = [
    ("red", "blue", "purple"),
    ("red", "yellow", "orange"),
    ("blue", "yellow", "green"),
    ("red", "white", "pink"),
    ("black", "white", "grey"),
]

USES = dict(p.split(":") for p in """
a_key:open_doors a_knife:cut_things a_spoon:eat_soup a_pen:write a_broom:sweep_the_floor a_lamp:give_light
a_hammer:hit_nails a_saw:cut_wood a_needle:sew_clothes an_umbrella:stay_dry_in_the_rain
a_clock:tell_the_time a_bed:sleep a_boat:travel_on_water a_ladder:climb_up_high scissors:cut_paper
soap:wash_your_hands a_towel:dry_yourself a_bucket:carry_water a_map:find_the_way
a_telescope:look_at_the_stars a_bell:make_a_ringing_sound a_cup:drink an_oven:bake_bread a_shovel:dig_holes
a_rope:tie_things a_mirror:see_yourself a_comb:tidy_your_hair a_book:read a_coat:stay_warm
a_bridge:cross_a_river a_compass:find_north a_brush:paint a_kite:fly_in_the_wind a_drum:make_music
""".split())
USES = {k.replace("_", " "): v.replace("_", " ") for k, v in USES.items()}

SHAPES = dict(triangle="three", square="four", rectangle="four", pentagon="five", hexagon="six",
              octagon="eight")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = (
    "January February March April May June July August September October November December".split())
SEASONS = "spring summer autumn winter".split()
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORKERS = dict(p.split(":") for p in """
baker:bakes_bread farmer:grows_food teacher:teaches_children doctor:helps_sick_people
sailor:sails_on_the_sea pilot:flies_planes tailor:makes_clothes painter:paints_pictures
gardener:looks_after_plants cook:makes_meals builder:builds_houses miner:digs_for_coal writer:writes_books
singer:sings_songs potter:makes_pots fisherman:catches_fish
""".split())
WORKERS = {k: v.replace("_", " ") for k, v in WORKERS.items()}
PLURALS = dict(p.split(":") for p in """
mouse:mice child:children foot:feet tooth:teeth goose:geese man:men woman:women leaf:leaves cat:cats
box:boxes fox:foxes wolf:wolves sheep:sheep baby:babies city:cities knife:knives potato:potatoes bus:buses
house:houses book:books
""".split())
PAST = dict(p.split(":") for p in """
go:went see:saw eat:ate run:ran sing:sang write:wrote find:found give:gave take:took come:came walk:walked
play:played fly:flew swim:swam sleep:slept think:thought buy:bought bring:brought make:made begin:began
""".split())
MADE = dict(p.split(":") for p in """
bread:flour cheese:milk wine:grapes paper:wood glass:sand butter:milk honey:nectar a_candle:wax a_sweater:wool
a_brick:clay chocolate:cocoa_beans jam:fruit ice:frozen_water
""".split())
MADE = {k.replace("_", " "): v.replace("_", " ") for k, v in MADE.items()}
MISC = [
    (
        ["How many days are in a week?", "How many days does a week have?"],
        "There are seven days in a week.",
        "Seven",
    ),
    (
        ["How many months are in a year?", "How many months does a year have?"],
        "There are twelve months in a year.",
        "Twelve",
    ),
    (
        ["How many hours are in a day?", "How many hours does a day have?"],
        "There are twenty-four hours in a day.",
        "Twenty-four",
    ),
    (
        ["How many minutes are in an hour?", "How many minutes does an hour have?"],
        "There are sixty minutes in an hour.",
        "Sixty",
    ),
    (
        ["How many seconds are in a minute?", "How many seconds does a minute have?"],
        "There are sixty seconds in a minute.",
        "Sixty",
    ),
    (
        ["How many fingers are on one hand?", "How many fingers does a hand have?"],
        "There are five fingers on one hand.",
        "Five",
    ),
    (
        ["How many seasons are there?", "How many seasons are in a year?"],
        "There are four seasons in a year.",
        "Four",
    ),
    (
        ["How many letters are in the alphabet?", "How many letters does the alphabet have?"],
        "There are twenty-six letters in the alphabet.",
        "Twenty-six",
    ),
    (
        ["What is the largest animal?", "What is the biggest animal in the world?"],
        "The largest animal is the blue whale.",
        "Whale",
    ),
    (
        ["What is the tallest animal?", "Which animal is the tallest?"],
        "The tallest animal is the giraffe.",
        "Giraffe",
    ),
    (
        ["What is the fastest animal on land?", "Which land animal is the fastest?"],
        "The fastest animal on land is the cheetah.",
        "Cheetah",
    ),
    (
        ["What is the highest mountain?", "What is the tallest mountain in the world?"],
        "The highest mountain is Mount Everest.",
        "Everest",
    ),
    (
        ["What is the largest ocean?", "What is the biggest ocean?"],
        "The largest ocean is the Pacific.",
        "Pacific",
    ),
    (["What planet do we live on?", "On which planet do we live?"], "We live on planet Earth.",
     "Earth"),
    (
        ["What is the largest planet?", "Which planet is the biggest?"],
        "The largest planet is Jupiter.",
        "Jupiter",
    ),
    (["Which planet is the red planet?", "Which planet is red?"], "Mars is the red planet.",
     "Mars"),
    (
        ["What goes around the Earth?", "What travels around the Earth at night?"],
        "The moon goes around the Earth.",
        "Moon",
    ),
    (["Where does the sun rise?", "On which side does the sun rise?"], "The sun rises in the east.",
     "East"),
    (["Where does the sun set?", "On which side does the sun set?"], "The sun sets in the west.",
     "West"),
    (["What do bees make?", "What does a bee make?"], "Bees make honey.", "Honey"),
    (["What gives us milk?", "Which animal gives us milk?"], "Cows give us milk.", "Cows"),
    (
        ["What does water become when it freezes?", "What is frozen water called?"],
        "Frozen water is called ice.",
        "Ice",
    ),
    (
        ["What falls from the clouds?", "What comes down from the clouds?"],
        "Rain falls from the clouds.",
        "Rain",
    ),
    (
        ["What do plants need to grow?", "What does a plant need?"],
        "Plants need water, light and soil to grow.",
        "Water",
    ),
    (["What do we see with?", "What do you see with?"], "We see with our eyes.", "Eyes"),
    (["What do we hear with?", "What do you hear with?"], "We hear with our ears.", "Ears"),
    (["What do we smell with?", "What do you smell with?"], "We smell with our nose.", "Nose"),
    (["Is the sun hot or cold?", "Is the sun hot?"], "The sun is very hot.", "Hot"),
    (["Is ice hot or cold?", "Is ice cold?"], "Ice is very cold.", "Cold"),
]


def cap(s):
    """First letter in upper case, the rest untouched."""
    return s[:1].upper() + s[1:]


def a(noun):
    """The noun with its indefinite article."""
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun


def _rows():
    for c, k in CAPITALS.items():
        yield "capital", [
            f"What is the capital of {c}?",
            f"Which city is the capital of {c}?",
            f"Name the capital of {c}.",
            f"What's the capital city of {c}?",
            f"capital of {c}",
        ], f"The capital of {c} is {k}.", k
        yield "capital", [
            f"{k} is the capital of which country?",
            f"Which country has the capital {k}?",
        ], f"{k} is the capital of {c}.", c
    for x, y in OPPOSITES:
        for p, q in ((x, y), (y, x)):
            if p in ("light", "short") and q in ("dark", "tall"):
                continue
            yield "opposite", [
                f"What is the opposite of {p}?",
                f"What's the opposite of {p}?",
                f"Tell me the opposite of {p}.",
                f"Give me the opposite of the word {p}.",
            ], f"The opposite of {p} is {q}.", cap(q)
    for n, (sound, home, young, food) in ANIMALS.items():
        if n != "spider":
            yield "sound", [
                f"What sound does {a(n)} make?",
                f"What noise does {a(n)} make?",
                f"Which sound does {a(n)} make?",
            ], f"{cap(a(n))} {sound}.", None
        yield "home", [
            f"Where does {a(n)} live?",
            f"Where do you find {a(n)}?",
            f"Where is the home of {a(n)}?",
        ], f"{cap(a(n))} lives {home}.", None
        yield "young", [
            f"What is a baby {n} called?",
            f"What do you call a baby {n}?",
            f"What is a young {n} called?",
        ], f"A baby {n} is called {a(young)}.", cap(young)
        yield "food", [
            f"What does {a(n)} eat?",
            f"What does {a(n)} like to eat?",
        ], f"{cap(a(n))} likes to eat {food}.", cap(food)
    for n, k in LEGS.items():
        yield "legs", [
            f"How many legs does {a(n)} have?",
            f"How many legs has {a(n)}?",
        ], f"{cap(a(n))} has {k} legs.", cap(k)
    for n, k in COLOURS.items():
        yield "colour", [
            f"What colour is {n}?",
            f"What color is {n}?",
            f"Which colour is {n}?",
            f"Tell me the colour of {n}.",
        ], f"{cap(n)} is {k}.", cap(k)
    for x, y, z in MIXES:
        for p, q in ((x, y), (y, x)):
            yield "mix", [
                f"What do you get when you mix {p} and {q}?",
                f"Which colour do {p} and {q} make?",
            ], f"{cap(p)} and {q} make {z}.", cap(z)
    for n, k in USES.items():
        yield "use", [
            f"What is {n} used for?" if n != "scissors" else "What are scissors used for?",
            f"What do you do with {n}?",
            f"What can I use {n} for?",
        ], f"You use {n} to {k}.", None
    for n, k in SHAPES.items():
        yield "shape", [
            f"How many sides does {a(n)} have?",
            f"How many corners does {a(n)} have?",
            f"How many sides has {a(n)}?",
        ], f"{cap(a(n))} has {k} sides.", cap(k)
        yield "shape", [
            f"Which shape has {k} sides?" if k != "four" else "Which shape has four equal sides?"
        ], (f"A {n} has {k} sides." if k != "four" else "A square has four equal sides."), (
            cap(n) if k != "four" else "Square"
        )
    for seq, what in ((DAYS, "day"), (MONTHS, "month"), (SEASONS, "season"), (LETTERS, "letter")):
        for i, d in enumerate(seq):
            n = seq[(i + 1) % len(seq)]
            if what == "letter" and i == 25:
                continue
            yield what, [
                f"Which {what} comes after {d}?",
                f"What {what} comes after {d}?",
                f"What comes after {d}?",
            ], f"{cap(n)} comes after {d}.", cap(n)
            yield what, [
                f"Which {what} comes before {n}?",
                f"What {what} comes before {n}?",
                f"What comes before {n}?",
            ], f"{cap(d)} comes before {n}.", cap(d)
    for w, k in WORKERS.items():
        yield "work", [f"What does {a(w)} do?",
                       f"What is the work of {a(w)}?"], f"{cap(a(w))} {k}.", None
        yield "work", [f"Who {k}?"], f"{cap(a(w))} {k}.", cap(w)
    for s, p in PLURALS.items():
        yield "plural", [
            f"What is the plural of {s}?",
            f"Tell me the plural of {s}.",
        ], f"The plural of {s} is {p}.", cap(p)
    for s, p in PAST.items():
        yield "past", [
            f"What is the past tense of {s}?",
            f"Tell me the past tense of {s}.",
        ], f"The past tense of {s} is {p}.", cap(p)
    for s, p in MADE.items():
        yield "made", [f"What is {s} made of?",
                       f"What is {s} made from?"], f"{cap(s)} is made of {p}.", cap(p)
    for qs, ans, short in MISC:
        yield "misc", qs, ans, short


FACTS = list(_rows())  # (kind, [questions], answer, short answer or None)
KINDS = sorted({f[0] for f in FACTS})
