"""Small arithmetic: questions, full answers and short answers, all from a random.Random the
caller owns.

Some pairs of two-digit numbers are held out (`held`): training never sees them added or
subtracted in either order, so that accuracy on them is not memory. Answers restate the sum ("37
+ 45 = 82."), which is also what the evaluation reads.
"""

from world import cap

NAMES = "Tom Anna Ben Mia Sam Lily Max Zoe Leo Emma Jack Nora Paul Ruth Oscar Ella".split()
GIRLS = set("Anna Mia Lily Zoe Emma Nora Ruth Ella".split())
THINGS = (
    "apples stones books shells marbles cookies stamps balls pencils flowers coins eggs nuts cards "
    "pears buttons"
).split()


def held(x, y):
    """True if the pair {x, y} belongs to the evaluation only."""
    x, y = min(x, y), max(x, y)
    return x >= 10 and (x * 31 + y * 17) % 12 == 5


def value(x, op, y):
    return {"+": x + y, "-": x - y, "x": x * y, "/": x // y if y else 0}[op]


def draw(r, want_held=False):
    """(x, op, y) of a random kind; held-out pairs only if asked for."""
    while True:
        op = r.choice("+++++-----xx/") if not want_held else r.choice("+-")
        if op in "+-":
            top = r.choice((10, 20, 50, 99, 99, 99, 99))
            x, y = r.randint(0, top), r.randint(0, top)
            if op == "-" and x < y:
                x, y = y, x
            if (op == "+" and held(x, y) or op == "-" and held(y, x - y)) == want_held:
                return x, op, y
        elif op == "x":
            return r.randint(0, 10), op, r.randint(0, 10)
        else:
            y = r.randint(1, 10)
            return y * r.randint(0, 10), op, y


def ask(r, x, op, y):
    """A question for x op y."""
    word = {"+": "plus", "-": "minus", "x": "times", "/": "divided by"}[op]
    s = r.choice((op, op, "*")) if op == "x" else op
    forms = (
        [f"What is {x} {s} {y}?"] * 4
        + [f"{x} {s} {y}", f"{x} {s} {y} = ?", f"{x} {s} {y} =", f"{x}{s}{y}", f"{x}{s}{y}=?"]
        + [
            f"How much is {x} {word} {y}?",
            f"What is {x} {word} {y}?",
            f"Calculate {x} {s} {y}.",
            f"Can you tell me what {x} {s} {y} is?",
            f"What's {x} {s} {y}?",
            f"{x} {word} {y}",
            f"Please work out {x} {s} {y}.",
        ]
    )
    if op == "+":
        forms += [f"Add {x} and {y}.", f"What is the sum of {x} and {y}?"]
    if op == "-":
        forms += [f"Take {y} away from {x}.", f"Subtract {y} from {x}."]
    if op == "x":
        forms += [f"Multiply {x} by {y}."]
    if op == "/":
        forms += [f"Divide {x} by {y}."]
    return r.choice(forms)


def say(x, op, y):
    """The sum as the model answers it."""
    return f"{x} {op} {y} = {value(x, op, y)}."


def plain(r):
    """A question of the four operations: (question, answer, short)."""
    x, op, y = draw(r)
    return ask(r, x, op, y), say(x, op, y), str(value(x, op, y))


def compare(r):
    x, y = r.sample(range(100), 2)
    big, small = max(x, y), min(x, y)
    if r.random() < 0.6:
        w = r.choice(("bigger", "larger", "greater"))
        return (
            r.choice((f"Which is {w}, {x} or {y}?", f"Which number is {w}, {x} or {y}?")),
            f"{big} is {w} than {small}.",
            str(big),
        )
    if r.random() < 0.5:
        return (
            r.choice((f"Which is smaller, {x} or {y}?", f"Which number is smaller, {x} or {y}?")),
            f"{small} is smaller than {big}.",
            str(small),
        )
    yes = "Yes" if x > y else "No"
    return (f"Is {x} bigger than {y}?",
            f"{yes}, {x} is {'bigger' if x > y else 'smaller'} than {y}.", yes)


def count(r):
    k = r.randint(0, 4)
    if k == 0:
        x = r.randint(0, 20)
        y = x + r.randint(3, 10)
        return (
            r.choice((f"Count from {x} to {y}.", f"Please count from {x} to {y}.")),
            ", ".join(map(str, range(x, y + 1))) + ".",
            None,
        )
    if k == 1:
        y = r.randint(0, 15)
        x = y + r.randint(3, 10)
        return f"Count backwards from {x} to {y}.", ", ".join(map(str,
                                                                  range(x, y - 1, -1))) + ".", None
    if k == 2:
        s, w = r.choice(((2, "twos"), (5, "fives"), (10, "tens"), (3, "threes")))
        n = r.randint(4, 9)
        return f"Count by {w} to {s * n}.", ", ".join(map(str, range(s, s * n + 1, s))) + ".", None
    x = r.randint(1, 98)
    if k == 3:
        return (
            r.choice((f"Which number comes after {x}?", f"What comes after {x}?")),
            f"{x + 1} comes after {x}.",
            str(x + 1),
        )
    return (
        r.choice((f"Which number comes before {x}?", f"What comes before {x}?")),
        f"{x - 1} comes before {x}.",
        str(x - 1),
    )


def parity(r):
    x = r.randint(0, 99)
    w = "odd" if x % 2 else "even"
    return r.choice((f"Is {x} odd or even?",
                     f"Is the number {x} even or odd?")), f"{x} is {w}.", cap(w)


def half(r):
    x = r.randint(0, 25)
    if r.random() < 0.5:
        return (
            r.choice((f"What is half of {2 * x}?", f"What's half of {2 * x}?")),
            f"Half of {2 * x} is {x}.",
            str(x),
        )
    return r.choice((f"What is double {x}?",
                     f"What is twice {x}?")), f"Double {x} is {2 * x}.", str(2 * x)


def problem(r):
    """A word problem: the answer shows the sum first."""
    n, m = r.sample(NAMES, 2)
    t, (he, his) = r.choice(THINGS), ("She", "her") if n in GIRLS else ("He", "his")
    while True:
        x, y = r.randint(2, 40), r.randint(2, 20)
        if not held(x, y) and not (x > y and held(y, x - y)):
            break
    k = r.randint(0, 4)
    if k == 0:
        q = r.choice(
            (
                f"{n} has {x} {t}. {he} gets {y} more. How many {t} does {n} have now?",
                f"{n} has {x} {t} and finds {y} more. How many {t} does {n} have now?",
                f"{n} has {x} {t}. {m} gives {'her' if his == 'her' else 'him'} {y} more. How many "
                f"{t} does {n} have now?",
            )
        )
        return q, f"{say(x, '+', y)} {n} has {x + y} {t} now.", str(x + y)
    if k == 1 and x > y:
        v = r.choice(("gives away", "loses", "sells"))
        return (
            f"{n} has {x} {t} and {v} {y} of them. How many {t} are left?",
            f"{say(x, '-', y)} There are {x - y} {t} left.",
            str(x - y),
        )
    if k == 2:
        return (
            f"{n} has {x} {t} and {m} has {y} {t}. How many {t} do they have together?",
            f"{say(x, '+', y)} Together they have {x + y} {t}.",
            str(x + y),
        )
    if k == 3:
        x, y = r.randint(2, 9), r.randint(2, 9)
        c = r.choice(("boxes", "bags", "baskets"))
        return (
            f"{n} has {x} {c} with {y} {t} in each. How many {t} is that?",
            f"{say(x, 'x', y)} That is {x * y} {t}.",
            str(x * y),
        )
    y, z = r.randint(2, 6), r.randint(2, 9)
    return (
        f"{n} shares {y * z} {t} among {y} friends. How many does each friend get?",
        f"{say(y * z, '/', y)} Each friend gets {z} {t}.",
        str(z),
    )


def any_sum(r):
    """One exercise of any kind: (question, answer, short answer or None)."""
    return r.choices((plain, compare, count, parity, half, problem), (10, 2, 2, 1, 1, 3))[0](r)
