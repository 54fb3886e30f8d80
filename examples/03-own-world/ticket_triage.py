"""Ticket triage: find out how urgent a ticket is, then send it to the right team."""

from hansa_worlds import Move, Observation, Task, World
from hansa_worlds.base import share

TEAMS = {
    "light": ("candle", "lamp", "torch"),
    "music": ("drum", "flute", "piano"),
    "travel": ("boat", "saddle", "tent"),
    "water": ("bottle", "bucket", "mug"),
    "wood": ("chair", "desk", "table"),
}
URGENCY = {"high": "We cannot work.", "medium": "I need it now.", "low": "It can be late."}
PLACES = ("black", "blue", "brown", "green", "orange", "red", "white", "yellow")
TEAM_OF = {thing: team for team, things in TEAMS.items() for thing in things}


class Tickets(World):
    """One ticket a task; the customer tells how urgent it is when asked."""

    name = "tickets"
    rules = (
        "You route support tickets. Actions: `get answer`, which asks the customer how urgent it\n"
        f"is, and `go to TEAM URGENCY`. Teams: {', '.join(TEAMS)}. Urgency: {', '.join(URGENCY)}.\n"
        'Answer as "Thought: <why>", then a line "Action: <one action>".'
    )
    brief = "Route the ticket."
    max_turns = 4

    def tasks(self, split):
        """Every thing, urgency and place; each ticket is in one split."""
        tickets = [f"{t}, {u}, {p}" for t in TEAM_OF for u in URGENCY for p in PLACES]
        chosen = share(tickets, split, self.name)
        return [Task(f"tickets: {ticket}", split, tuple(ticket.split(", "))) for ticket in chosen]

    def _begin(self, task):
        self.thing, self.urgency, place = task.payload
        self.asked = False
        return f"Ticket: the {self.thing} of the {place} house is not right."

    def _act(self, action):
        if action == "get answer":
            self.asked = True
            return Observation(f"Customer: {URGENCY[self.urgency]}")
        if action not in self.legal():
            return Observation("That is no action here.")
        right = action == f"go to {TEAM_OF[self.thing]} {self.urgency}"
        return Observation("Solved." if right else "Sent back.", float(right), done=True)

    def legal(self):
        """Asking, and every way to route."""
        return ["get answer", *(f"go to {team} {u}" for team in TEAMS for u in URGENCY)]

    def expert(self):
        """Ask first, then route."""
        if not self.asked:
            return Move("I do not know how urgent it is.", "get answer")
        team = TEAM_OF[self.thing]
        return Move(f"This is a matter for {team}.", f"go to {team} {self.urgency}")
