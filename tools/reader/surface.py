"""Ways in which customers write dates, times, durations, numbers, amounts, phone numbers and addresses."""

from __future__ import annotations

import random

DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
]  # fmt: skip
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SIGNS = {
    "GBP": "£",
    "EUR": "€",
    "USD": "$",
    "CAD": "$",
    "AUD": "$",
    "NZD": "$",
    "SGD": "$",
    "INR": "₹",
    "ZAR": "R",
}
NAMES = {"GBP": ["quid", "pounds"], "EUR": ["euro", "euros"], "INR": ["rupees", "rs"], "ZAR": ["rand"]}
FIRST = [
    "ann",
    "bob",
    "mia",
    "tom",
    "sara",
    "raj",
    "li",
    "omar",
    "eve",
    "jack",
    "nora",
    "hugo",
    "priya",
    "dan",
    "ruth",
    "ivan",
    "kate",
    "sam",
    "zoe",
    "leo",
]
LAST = [
    "lee",
    "kumar",
    "byrne",
    "smith",
    "okafor",
    "rossi",
    "chan",
    "jones",
    "walsh",
    "novak",
    "patel",
    "gray",
    "ortiz",
    "reid",
    "khan",
    "doyle",
    "park",
    "wood",
]
HOSTS = [
    "gmail.com",
    "outlook.com",
    "yahoo.co.uk",
    "icloud.com",
    "hotmail.com",
    "btinternet.com",
    "proton.me",
]


def _ordinal(n: int) -> str:
    suffix = "th" if 11 <= n % 100 <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def _case(rng: random.Random, word: str) -> str:
    return word.capitalize() if rng.random() < 0.55 else word


def date(rng: random.Random) -> str:
    """A day, as said."""
    day, month, n = _case(rng, rng.choice(DAYS)), _case(rng, rng.choice(MONTHS)), rng.randint(1, 28)
    short = month[:3]
    kinds = [
        "today", "tomorrow", "the day after tomorrow", day, day, f"next {day}", f"this {day}", f"{day} week",
        f"{n} {month}", f"{month} {n}", f"{_ordinal(n)} {month}", f"the {_ordinal(n)}", f"the {_ordinal(n)} of {month}",
        f"{day} the {_ordinal(n)}", f"{n}/{rng.randint(1, 12)}", f"{n}.{rng.randint(1, 12)}.", f"{short} {n}",
        f"{n} {short}", f"2026-{rng.randint(1, 12):02d}-{n:02d}", f"in {rng.choice(WORDS[1:6])} days",
        "in a fortnight", "a week on " + day, f"{n} {month} {rng.choice([2026, 2027])}", f"{day} {n} {short}",
        f"{n:02d}/{rng.randint(1, 12):02d}/2026", "the end of the month", f"the first {day} in {month}",
        f"a week from {day}", f"{day[:3]}", f"{_ordinal(n)}",
    ]  # fmt: skip
    return rng.choice(kinds)


def time(rng: random.Random) -> str:
    """A time of day, as said."""
    hour, minute, word = rng.randint(1, 12), rng.choice([0, 15, 30, 45, 10, 40]), rng.choice(WORDS)
    half = rng.choice(["am", "pm", " am", "pm", "a.m.", ""])
    kinds = [
        f"{hour}{half or 'pm'}", f"{hour}:{minute:02d}", f"{hour}.{minute:02d}", f"half past {word}", f"half {word}",
        f"quarter to {word}", f"quarter past {word}", f"{rng.randint(7, 21):02d}:{minute:02d}", "noon", "midday",
        f"{word} o'clock", f"{hour} o'clock", f"{word} in the {rng.choice(['morning', 'afternoon', 'evening'])}",
        f"{hour} in the {rng.choice(['morning', 'afternoon'])}", f"{hour}:{minute:02d}{half}", f"{hour}ish", word,
        f"{rng.choice(['ten', 'twenty', 'five'])} past {word}", f"{rng.randint(7, 21):02d}{minute:02d}",
    ]  # fmt: skip
    return rng.choice(kinds)


def duration(rng: random.Random) -> str:
    """A length of time, as said."""
    n, word, unit = (
        rng.randint(2, 30),
        rng.choice(WORDS[1:8]),
        rng.choice(["day", "week", "month", "year", "hour"]),
    )
    kinds = [
        f"{n} {unit}s", f"{word} {unit}s", f"a {unit}" if unit != "hour" else "an hour", "a fortnight",
        f"{word} and a half {unit}s", "half an hour", f"{rng.choice([15, 20, 30, 45, 90])} minutes",
        f"a couple of {unit}s", f"{n}{unit[0]}", f"{rng.choice([20, 40, 45])} mins", f"{n} hrs",
        f"a {rng.choice(['day', 'week', 'month', 'year'])} and a half", f"one {unit}", "overnight", "a long weekend",
        "six months", f"{word}-{unit}",
    ]  # fmt: skip
    return rng.choice(kinds)


def number(rng: random.Random) -> str:
    """A count or a reference number, as said."""
    if rng.random() < 0.45:
        return rng.choice(
            [rng.choice(WORDS), str(rng.randint(1, 20)), "a dozen", "a couple", "just the one", "a pair"]
        )
    return rng.choice(
        [
            str(rng.randint(10, 999)),
            str(rng.randint(1000, 99999)),
            f"{rng.randint(1, 9)},{rng.randint(0, 999):03d}",
        ]
    )


def money(rng: random.Random, currency: str) -> str:
    """An amount, as said."""
    sign = SIGNS.get(currency, "")
    name = rng.choice(NAMES.get(currency, ["dollars", "bucks"]))
    n = rng.choice([rng.randint(2, 99), rng.randint(100, 2500), rng.randint(2, 40) * 5])
    kinds = [
        f"{sign}{n}", f"{sign}{n}", f"{n} {name}", f"{sign}{n}.{rng.choice(['50', '99', '20'])}", f"{n} {currency}",
        f"{n}{sign}" if sign == "€" else f"{sign}{n}", f"{rng.choice(WORDS)} hundred {name}", str(n), f"{n}.50",
        f"{rng.choice(WORDS)} {name}", f"{sign}{n}k" if n < 20 else f"{sign}{n}",
    ]  # fmt: skip
    return rng.choice(kinds)


def phone(rng: random.Random, region: str) -> str:
    """A phone number, as written; numbers of fiction where a country has some."""
    tail = f"{rng.randint(0, 99999):05d}"
    kinds = {
        "GB": [
            f"07700 9{tail}",
            f"077009{tail}",
            f"+44 7700 9{tail}",
            f"01632 9{tail}",
            f"020 7946 0{tail[:3]}",
        ],
        "IE": [
            f"08{rng.randint(3, 9)} 555 {tail[:4]}",
            f"08{rng.randint(3, 9)}555{tail[:4]}",
            f"01 555 {tail[:4]}",
        ],
        "US": [f"({rng.randint(201, 989)}) 555-01{tail[:2]}", f"{rng.randint(201, 989)}-555-01{tail[:2]}"],
        "AU": [f"0491 57{rng.randint(0, 9)} {tail[:3]}", f"049157{tail[:4]}", f"(02) 5550 {tail[:4]}"],
        "IN": [f"98{tail}{tail[:3]}", f"+91 98{tail[:3]} {tail}", f"91{tail}{tail[:3]}"],
        "SG": [f"9{tail[:3]} {tail[:4]}", f"+65 8{tail[:3]} {tail[:4]}"],
    }
    return rng.choice(kinds.get(region, [*kinds["US"], *kinds["GB"][:1]]))


def email(rng: random.Random) -> str:
    """An address, as written."""
    first, last = rng.choice(FIRST), rng.choice(LAST)
    name = rng.choice(
        [
            f"{first}.{last}",
            f"{first}{last}",
            f"{first[0]}{last}",
            f"{first}_{rng.randint(1, 99)}",
            f"{last}{first}",
        ]
    )
    at = " at " if rng.random() < 0.03 else "@"
    return f"{name}{at}{rng.choice(HOSTS)}"


def made(rng: random.Random, kind: str, region: str, currency: str) -> str:
    """A value of a type that code makes; ``kind`` is its slot type."""
    if kind == "money":
        return money(rng, currency)
    if kind == "phone":
        return phone(rng, region)
    return {"date": date, "time": time, "duration": duration, "number": number, "email": email}[kind](rng)


MADE = frozenset({"date", "time", "duration", "number", "money", "phone", "email"})
