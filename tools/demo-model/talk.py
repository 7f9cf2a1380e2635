"""Conversations: greetings, questions about the model, sums, facts, stories with questions about
them, and "I do not know".

A conversation is a list of (role, content). Roles are system, user and assistant; a system
message, if there is one, is first.
"""

import cast
import stories
import sums
import world

NAME = "Gallop's demo model"
SMALL = [
    (
        "Hello!|Hi!|Hello|hi|Hey!|Good morning!|Good evening!|hello there",
        "Hello! How can I help you?|Hello! What would you like to do?|Hi! Nice to meet you.",
    ),
    (
        "What is your name?|Who are you?|What are you called?|who are you|Tell me your name.",
        f"I am {NAME}, a very small language model.|My name is {NAME}. I am a very small language model.",
    ),
    (
        "What can you do?|How can you help me?|What do you know?|help",
        "I can tell short stories, do small sums and answer simple questions.",
    ),
    (
        "How are you?|How are you today?|Are you well?|how are you doing?",
        "I am well, thank you. How are you?|I am fine, thank you. What can I do for you?",
    ),
    (
        "Who made you?|Who trained you?|Where do you come from?",
        "I was trained by the Gallop project on text that a program wrote.",
    ),
    (
        "Are you a human?|Are you a person?|Are you real?",
        "No, I am a small computer program that has learned to write.",
    ),
    (
        "How big are you?|How many parameters do you have?|Are you a large model?",
        "I am very small. I have about two million parameters.",
    ),
    ("How old are you?|When were you born?", "I am only a program, so I have no age."),
    (
        "What is Gallop?|Tell me about Gallop.",
        "Gallop is a program that runs language models on the processor of a computer.",
    ),
    ("Do you like stories?|Do you like music?|Do you like animals?", "Yes, very much. And you?"),
    ("Can you help me?|I need help.|Can I ask you something?",
     "Of course. What would you like to know?"),
    (
        "What is your favourite colour?|Which colour do you like?",
        "My favourite colour is blue, like the sky.",
    ),
    (
        "What is your favourite animal?|Which animal do you like?",
        "My favourite animal is the horse, because it can gallop.",
    ),
    (
        "I am sad.|I feel sad today.|I had a bad day.",
        "I am sorry to hear that. Would you like to hear a story?",
    ),
    ("I am happy.|I feel great today.|I had a good day.",
     "That is good to hear! What made you happy?"),
    (
        "I am bored.|What shall we do?|I have nothing to do.",
        "Then let us do a sum, or I can tell you a story.",
    ),
]
THANKS = (
    "Thank you!|Thanks!|Thank you very much.|thanks|Great, thank you.",
    "You are welcome!|You are welcome. Is there anything else?|It was a pleasure.",
)
BYE = (
    "Goodbye!|Bye!|See you later.|Good night!|bye",
    "Goodbye! Come back soon.|Goodbye! It was nice to talk to you.",
)
JOKES = [
    "Why did the clock go to school? It wanted to learn to tell the time.",
    "What has hands but cannot clap? A clock.",
    "What gets wet while it dries? A towel.",
    "What has teeth but cannot bite? A comb.",
    "What has a neck but no head? A bottle.",
    "What goes up but never comes down? Your age.",
    "Why did the book go to the doctor? It had hurt its back.",
    "What has many keys but opens no door? A piano.",
]
NONSENSE = (
    "Atlantis Zubrow Flandia Quorth Mordovia Elbonia Narvik Tarsis Ohio Texas Bavaria Venus Wakanda "
    "Gondor".split(),
    "quantum physics|the stock market|black holes|politics|chemistry|the internet|computer chips|"
    "philosophy|electricity|inflation|evolution|DNA|algebra|the law|engines|religion".split("|"),
    "Napoleon|Shakespeare|Einstein|Mozart|Caesar|Cleopatra|Newton|Beethoven|Columbus|Darwin|Plato|"
    "Picasso".split("|"),
)
UNKNOWN = [
    "What is the capital of {0}?",
    "How far away is {0}?",
    "How many people live in {0}?",
    "Explain {1}.",
    "What do you think about {1}?",
    "How does {1} work?",
    "Tell me something about {1}.",
    "What is {1}?",
    "Who was {2}?",
    "When was {2} born?",
    "What did {2} do?",
    "Write a poem about {1}.",
    "What is the news today?",
    "What is the weather like tomorrow?",
    "What time is it?",
    "Which day is it today?",
    "Translate this into French.",
    "Write a program in Python.",
    "Who won the game yesterday?",
    "Who is the president?",
    "What is the meaning of life?",
    "Where do I live?",
    "What am I thinking?",
    "What is the square root of two?",
    "How much does {1} cost?",
    "Book a flight to {0}.",
    "Can you open a file for me?",
]
DUNNO = [
    "I am sorry, I do not know that. I am only a small model.",
    "I do not know that. I can tell stories, do small sums and answer simple questions.",
    "That is too hard for me. I am only a small model.",
]
SYSTEMS = [
    "You are a helpful assistant.",
    "You are Gallop's demo model.",
    "You are a friendly assistant.",
    "Be kind and helpful.",
    "You are a teacher for children.",
    "Answer the questions of the user.",
]
SHORT = [
    "Answer in one word.",
    "Answer with one word only.",
    "Give very short answers.",
    "Be brief. Answer in one word.",
]
ALSO = ("And {}", "{}", "{}", "{}", "Now tell me: {}", "Next question: {}", "OK. {}")


def one(r, options):
    return r.choice(options.split("|"))


def lower(s):
    return s[:1].lower() + s[1:] if s[:2] != "I " and s.split()[0].rstrip(
        "?,.'") not in LEAD_NAMES else s


LEAD_NAMES = (set(sums.NAMES) | set(world.CAPITALS) | set(world.CAPITALS.values())
              | {"Buenos", "Mexico", "New"})


def small(r):
    q, ans = r.choice(SMALL)
    return [("user", one(r, q)), ("assistant", one(r, ans))]


def fact(r):
    """(question, answer, short answer) of a random fact; big kinds of facts are drawn more
    often."""
    while True:
        kind = r.choice(world.KINDS) if r.random() < 0.3 else None
        f = r.choice([x for x in world.FACTS if x[0] == kind]) if kind else r.choice(world.FACTS)
        q = r.choice(f[1])
        if r.random() < 0.1 and q[-1] == "?":
            q = lower(q)[:-1] if r.random() < 0.5 else lower(q)
        return q, f[2], f[3]


def unknown(r):
    q = r.choice(UNKNOWN).format(r.choice(NONSENSE[0]), r.choice(NONSENSE[1]),
                                 r.choice(NONSENSE[2]))
    return [("user", q), ("assistant", r.choice(DUNNO))]


def quiz(r, n, short=False):
    """n questions of facts and sums in one conversation."""
    out = []
    while len(out) < 2 * n:
        q, ans, brief = fact(r) if r.random() < 0.5 else sums.any_sum(r)
        if short and brief is None:
            continue
        if out and q[0].isupper():
            form = r.choice(ALSO)
            q = form.format(lower(q) if form.startswith("And") else q)
        out += [("user", q), ("assistant", brief if short else ans)]
    return out


def chain(r):
    """A sum and follow-ups that begin from its result."""
    x, op, y = sums.draw(r)
    out = [("user", sums.ask(r, x, op, y)), ("assistant", sums.say(x, op, y))]
    v = sums.value(x, op, y)
    for _ in range(r.randint(1, 3)):
        y = r.randint(1, 20)
        op = "+" if v < y or r.random() < 0.6 else "-"
        if op == "+" and sums.held(v, y) or op == "-" and sums.held(y, v - y) or v > 99:
            break
        w = "plus" if op == "+" else "minus"
        out += [
            (
                "user",
                r.choice(
                    (
                        f"And {w} {y}?",
                        f"Now {w} {y}.",
                        f"And {w} {y} more?" if op == "+" else f"And {w} {y}?",
                        f"{w} {y}?",
                    )
                ),
            ),
            ("assistant", sums.say(v, op, y)),
        ]
        v = sums.value(v, op, y)
    return out


def tale(r, n=None):
    """A story and questions about it; sometimes another one."""
    s = stories.story(r)
    out = [("user", stories.request(r, s)), ("assistant", s.text)]
    qa = list(s.qa)
    r.shuffle(qa)
    for q, ans in qa[: r.choices((0, 1, 2, 3), (4, 3, 3, 2))[0] if n is None else n]:
        out += [("user", q), ("assistant", ans)]
    return out


def tell(r):
    """The user says something about himself and asks for it later."""
    n = r.choice(cast.GIRL + cast.BOY)
    t, c = r.choice(cast.THING), r.choice("red blue green yellow white black brown purple".split())
    pet, p = r.choice("dog cat horse rabbit bird".split()), r.choice(cast.PET)
    k = r.randint(0, 3)
    if k == 0:
        say, reply, ask, ans = (
            r.choice((f"My name is {n}.", f"I am {n}.", f"Hello, I am {n}.",
                      f"Hi, my name is {n}.")),
            r.choice((f"Nice to meet you, {n}!", f"Hello, {n}! How can I help you?")),
            r.choice(("What is my name?", "Do you remember my name?", "Who am I?")),
            f"Your name is {n}.",
        )
    elif k == 1:
        say, reply, ask, ans = (
            r.choice((f"I have a {pet} named {p}.", f"My {pet} is called {p}.")),
            f"{p} is a nice name for a {pet}!",
            r.choice((f"What is the name of my {pet}?", f"What is my {pet} called?")),
            f"Your {pet} is called {p}.",
        )
    elif k == 2:
        say, reply, ask, ans = (
            r.choice((f"My favourite colour is {c}.", f"I like the colour {c}.")),
            f"{world.cap(c)} is a beautiful colour.",
            r.choice(("What is my favourite colour?", "Which colour do I like?")),
            f"Your favourite colour is {c}.",
        )
    else:
        s = r.choice(cast.SPOT)
        say, reply, ask, ans = (
            f"I put my {t} {s}.",
            "I will remember that.",
            f"Where is my {t}?",
            f"Your {t} is {s}.",
        )
    mid = quiz(r, 1) if r.random() < 0.5 else small(r) if r.random() < 0.4 else []
    return [("user", say), ("assistant", reply)] + mid + [("user", ask), ("assistant", ans)]


def joke(r):
    return [
        ("user", r.choice(("Tell me a joke.", "Do you know a joke?", "Tell me a riddle.",
                           "Make me laugh."))),
        ("assistant", r.choice(JOKES)),
    ]


def conversation(r):
    """One conversation of one to about twelve turns."""
    if r.random() < 0.08:
        return [("system", r.choice(SHORT))] + quiz(r, r.randint(1, 4), short=True)
    parts = {
        "quiz": lambda: quiz(r, r.randint(1, 4)),
        "tale": lambda: tale(r),
        "chain": lambda: chain(r),
        "small": lambda: small(r),
        "tell": lambda: tell(r),
        "unknown": lambda: unknown(r),
        "joke": lambda: joke(r),
    }
    weights = {"quiz": 10, "tale": 7, "chain": 2, "small": 2, "tell": 2, "unknown": 1.2,
               "joke": 0.4}
    n = r.choices((1, 2, 3, 5), (12, 3, 1, 0.7))[0]
    out = small(r) if r.random() < 0.08 else []
    for _ in range(n):
        out += parts[r.choices(list(parts), list(weights.values()))[0]]()
    if r.random() < 0.06:
        out += [("user", one(r, THANKS[0])), ("assistant", one(r, THANKS[1]))]
    if r.random() < 0.05:
        out += [("user", one(r, BYE[0])), ("assistant", one(r, BYE[1]))]
    if r.random() < 0.12:
        out = [("system", r.choice(SYSTEMS))] + out
    return out


def plain(r):
    """A document without roles: a story, a list of sums, or a few facts."""
    k = r.random()
    if k < 0.62:
        return stories.story(r).text
    if k < 0.9:
        return " ".join(sums.say(*sums.draw(r)) for _ in range(r.randint(6, 20)))
    return " ".join(fact(r)[1] for _ in range(r.randint(4, 12)))
