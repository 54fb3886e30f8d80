"""Texts that the worlds repeat at every turn: one token each, for half the tokens and the wait."""

from __future__ import annotations

import re

from hansa_worlds import DEMO_OPTIONS, make

MAZE = (
    "Reach the goal.\n",
    "The goal is at position",
    " Your current position is at position",
    " There are walls",
    " There is a wall",
    " There are no walls near you.",
    " to your left",
    " to your right",
    " above you",
    " below you",
    "move up",
    "move down",
    "move left",
    "move right",
    "The goal is",
    " from here",
    " and the way",
    " is open.",
    ", but a wall is in the way, so I go round by",
    ", but that way is longer, so I go round by",
)
WORDLE = (
    "Guess the word in 6 tries.",
    "\nThe first guess was",
    "I know that",
    " fits.",
    "; it has no",
    "; it has",
    " it has no",
    " it has",
)
TEXTCRAFT = (
    "Craft the goal with get and craft.\n",
    "Crafting commands:\n",
    "\n\nGoal: craft",
    "\ncraft",
    "Could not execute that.",
    "Could not find a recipe for that.",
    "Could not find such a recipe for",
    "Could not find enough items to craft",
    "Could not find that.",
    "Could not find",
    "You are not carrying anything.",
    ", and no command makes",
    ", so I get it.",
    "I have all that",
    " needs, so I craft the goal.",
    " needs, and it serves as",
    " needs, and",
)
BABYAI = (
    "Your goal:",
    "You see",
    "You see nothing.",
    ", wall ahead",
    " wall ahead",
    " Carrying",
    " closed door",
    " open door",
    " locked door",
    "The task is completed.",
    "The task has failed.",
    "The action is not possible here.",
    "You cannot pick up anything, as you are carrying something.",
    "You cannot drop anything, as you are not carrying anything.",
    "You cannot drop it here, as the cell in front of you is not empty.",
    "You cannot move forward, as there is a barrier in front of you.",
    "You cannot open a locked door without a key of its color.",
    "In front of you in this room, you can see several objects:",
    " The room has walls around you.",
    " You are facing a",
    " steps away.",
    " You are not carrying anything.",
    " You are carrying",
    "\nAvailable actions: [",
    " steps in front of you",
    " steps to your left",
    " steps to your right",
    "turn left",
    "turn right",
    "move forward",
    "check available actions",
    "toggle and go through",
    "go through",
    "go to",
    " go to",
    "pickup",
    " pick up",
    " next to",
    " in front of you",
    " behind you",
    " on your left",
    " on your right",
    ", then",
    " after you",
    ", so I look around.",
    ", so I go to it.",
    "I do not see",
    "I see",
)
WEBSHOP = (
    "Buy what is asked for. Actions: search[words], click[button].\n",
    "Find me",
    ", price lower than",
    " dollars.\n[search]",
    " dollars",
    " dollars.",
    " dollars\n[",
    "[back to search]",
    "[back to search] [next >]\n[",
    "[back to search] [< prev] [next >]\n[",
    "[back to search] [< prev]\n[",
    "[back to search] [< prev]",
    " color: [",
    "] [",
    "] [buy now]",
    ", color",
    "click[back to search]",
    "click[< prev]",
    "click[next >]",
    "click[buy now]",
    "click[",
    "search[",
    "You chose",
    "That is no action here.",
    "Thank you for shopping.",
    "I look for",
    " may fit.",
    "It must be",
    "It does not come in",
    ", so I go back.",
    "This does not fit, so I go back.",
    "Nothing here fits, so I search again.",
    "Nothing on this page fits, so I look further.",
    "Nothing on this page fits, so I look back.",
    "Everything is as asked for, so I buy it.",
)
EVERY = (
    "Thought:",
    "\n\nAction: ",
    "Give exactly one action.",
    "The episode is over.",
)


def _rules() -> list[str]:
    """The sentences of the worlds' rules, which no model needs to read word by word."""
    found = []
    for name in sorted(DEMO_OPTIONS):
        for line in make(name).rules.splitlines(keepends=True):
            found += [part for part in re.split(r"(?<=[.:]) ", line) if len(part.split()) > 2]
    return found


PHRASES = tuple(dict.fromkeys((*MAZE, *WORDLE, *TEXTCRAFT, *BABYAI, *WEBSHOP, *EVERY, *_rules())))
