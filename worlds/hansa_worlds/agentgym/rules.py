"""What an agent is told before it plays on an AgentGym server, in our own words."""

_REACT = 'Answer each observation as "Thought: <why>", then a line "Action: <one action>".'

RULES = {
    "babyai": f"""\
You are in a grid of rooms and have a goal to reach. Each turn you read what you see.
Actions: turn left, turn right, move forward, go to <object> <number>, pickup <object> <number>,
drop, toggle, go through <door> <number>, toggle and go through <door> <number>.
A closed door is toggled first; a locked one opens to whoever carries the key of its colour.
Every observation ends with the actions that can be taken now.
{_REACT}""",
    "textcraft": f"""You craft an item from simpler ones, with the recipes that you are given.
Actions: get <count> <item>, craft <count> <item> using <count> <item>, <count> <item>, inventory.
What has no recipe can be got from the world. Where a recipe wants any planks, or any of some other
kind, one special sort of it will do. Always say the count.
{_REACT}""",
    "maze": f"""You walk through a maze to its goal in as few moves as you can.
You read where the goal is, where you are and which walls are next to you. Moving down adds one to
the first number of your position, moving right adds one to the second.
Actions: move up, move down, move left, move right.
{_REACT}""",
    "wordle": f"""\
You guess a hidden word of five letters in six tries; only the listed words are taken.
Each letter of a guess is answered: g is in its place, y is elsewhere in the word, b is not in it.
An action is the guess, its letters spaced: s h i r e.
{_REACT}""",
    "webshop": f"""You buy a product in a web shop that fits the instruction you are given.
Actions: search[<words>] where the page has a search box, click[<what the page shows as a button>].
Click on the options that the instruction asks for, then on Buy Now. A page that stays as it was
means that the action was none.
{_REACT}""",
    "alfworld": f"""You do a household task by moving through rooms and handling things.
Actions: go to, open, close, take <thing> from <place>, put <thing> in/on <place>, use, heat, cool
or clean <thing> with <place>, examine, inventory, look. "Nothing happened" means it was no action.
{_REACT}""",
    "sciworld": f"""You carry out an experiment of a science lesson in a world of rooms and things.
Actions: look around, look at, open, close, activate, deactivate, connect, use, move <thing> to
<place>, pick up, drop, pour, dunk, mix, go to <room>, read, eat, focus on <thing>, wait, inventory.
Focus on a thing only when the task says so.
{_REACT}""",
    "sqlgym": f"""You answer a question about a database with one SQL statement.
The action is the statement itself on one line, without quotation marks around it.
{_REACT}""",
    "tool": f"""You reach a goal with the tools that you are told of, one call at a time.
An action is: <tool> with Action Input: <its arguments as JSON>. Call finish with your answer.
{_REACT}""",
    "searchqa": f"""You answer a question, and may look things up first.
Actions: <search> your query </search>, or <answer> your answer </answer>.
{_REACT}""",
    "webarena": f"""\
You do a task in a web browser and read each page as a tree of numbered elements.
Actions: click [id], type [id] [text], hover [id], press [keys], scroll [down], goto [address],
go_back, stop [answer].
{_REACT}""",
    "generic": f"""You reach a goal in a world of text. Each turn you read what happened.
{_REACT}""",
}
"""By dialect: the first message."""

BRIEFS = {
    "alfworld": "Do the household task.",
    "babyai": "Reach the goal.",
    "generic": "Reach the goal.",
    "maze": "Find the goal.",
    "sciworld": "Do the experiment.",
    "searchqa": "Answer the question.",
    "sqlgym": "Answer with SQL.",
    "textcraft": "Craft the goal.",
    "tool": "Reach the goal with the tools.",
    "webarena": "Do the task in the browser.",
    "webshop": "Buy what the instruction asks for.",
    "wordle": "Guess the word.",
}
"""By dialect: the same for a model that knows the environment."""
