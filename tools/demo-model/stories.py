"""Short stories from a small grammar: a hero, a place, a trouble, a turn, an end.

`story(r)` returns a Story: its text, what one may ask for to get it, and questions about it with
their answers. Names, pronouns, things and places are fixed when they first appear (cast.py); the
plots are in plots_trouble.py and plots_together.py.
"""

from cast import PLACE, Who
from plots_together import friend, garden, race, treasure, truth, winter
from plots_trouble import build, fear, learn, lost, rescue, share
from world import a

PLOTS = [lost, lost, learn, learn, share, fear, build, rescue, truth, garden, friend, race,
         treasure, winter]


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
