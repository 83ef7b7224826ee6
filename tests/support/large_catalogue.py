"""A thousand flows: every action with every thing, each with many that differ from it by a word."""

from __future__ import annotations

# Of each: its description, two examples, and the same in other words.
ACTIONS = {
    "track": ("Tell where {} is now.", ("where is {}", "track {}"), "any news on {}?"),
    "cancel": ("Cancel {}.", ("cancel {}", "I do not want {} any more"), "please call off {}"),
    "renew": ("Renew {}.", ("renew {}", "extend {} for a year"), "prolong {} please"),
    "price": ("Tell the price of {}.", ("how much is {}", "price of {}"), "what does {} cost?"),
    "repair": ("Repair {}.", ("repair {}", "{} is broken"), "{} no longer works"),
    "sell": ("Sell {}.", ("I want to sell {}", "find a buyer for {}"), "who would buy {}?"),
    "insure": ("Insure {}.", ("insure {}", "I need cover for {}"), "protect {} with a policy"),
    "clean": ("Clean {}.", ("clean {}", "{} is dirty"), "{} has stains"),
    "move": ("Bring {} to another place.", ("move {}", "take {} elsewhere"), "shift {} to the new flat"),
    "rent": ("Rent {} for some days.", ("rent {}", "hire {} for a week"), "borrow {} over the weekend"),
    "rate": ("Write a review of {}.", ("review {}", "rate {}"), "I give {} five stars"),
    "gift": ("Give {} as a present.", ("gift {}", "{} as a present"), "surprise my mother with {}"),
    "paint": ("Paint {}.", ("paint {}", "change the colour of {}"), "I want {} in blue"),
    "weigh": ("Tell how heavy {} is.", ("how heavy is {}", "weigh {}"), "how many kilos has {}?"),
    "measure": ("Tell the size of {}.", ("measure {}", "how big is {}"), "how wide and tall is {}?"),
    "lock": ("Lock {}.", ("lock {}", "secure {} with a code"), "nobody else may open {}"),
    "photo": ("Show pictures of {}.", ("show me photos of {}", "pictures of {}"), "what does {} look like?"),
    "share": ("Share {} with other people.", ("share {}", "let others use {}"), "my sister may use {} too"),
    "manual": ("Explain how to use {}.", ("manual of {}", "how do I use {}"), "instructions for {}"),
    "lost": ("Report that {} is lost.", ("I lost {}", "{} is gone"), "I can't find {} anywhere"),
}  # fmt: skip
THINGS = [
    "the bicycle", "the piano", "the passport", "the sofa", "the laptop", "the garden shed", "the boat", "the camera",
    "the wedding dress", "the drone", "the fish tank", "the tractor", "the coffee machine", "the tent", "the guitar",
    "the fridge", "the gold ring", "the library card", "the skis", "the telescope", "the motorbike", "the carpet",
    "the printer", "the caravan", "the violin", "the oil painting", "the lawn mower", "the winter coat", "the oven",
    "the surfboard", "the train ticket", "the chess set", "the hearing aid", "the wheelchair", "the sewing machine",
    "the barbecue", "the trampoline", "the umbrella", "the headphones", "the bookshelf", "the microscope", "the saddle",
    "the bathtub", "the chandelier", "the hammock", "the backpack", "the kayak", "the globe", "the typewriter",
    "the accordion",
]  # fmt: skip


def catalogue() -> list[dict[str, object]]:
    """Every action with every thing: a thousand flows, each of which has many that differ by a word."""
    return [
        {
            "name": f"{action}_{thing.removeprefix('the ').replace(' ', '_')}",
            "description": told.format(thing),
            "examples": [each.format(thing) for each in examples],
        }
        for action, (told, examples, _) in ACTIONS.items()
        for thing in THINGS
    ]
