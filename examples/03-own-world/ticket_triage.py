"""Ticket triage: find out how urgent a ticket is, then send it to the right team."""

from hansa_worlds import Move, Observation, Task, World
from hansa_worlds.base import share

TEAMS = {
    "accounts": ("I forgot my password", "my login is locked", "a colleague left the company"),
    "billing": ("the invoice is wrong", "my card was refused", "we paid twice"),
    "hardware": ("the printer jams", "the screen stays dark", "the battery is empty at noon"),
    "network": ("the pages load slowly", "the tunnel drops", "the cable has no link"),
    "security": ("a stranger sent me a link", "a laptop was stolen", "somebody read my mail"),
}
URGENCY = {"high": "Nobody can work.", "normal": "I cannot work.", "low": "It can wait."}
OFFICES = ("Bergen", "Bremen", "Danzig", "Hamburg", "Lund", "Riga", "Tallinn", "Visby")
TEAM_OF = {symptom: team for team, symptoms in TEAMS.items() for symptom in symptoms}


class Tickets(World):
    """One ticket a task; the customer tells how urgent it is when asked."""

    name = "tickets"
    rules = (
        "You route support tickets. Actions: `ask`, which asks the customer how urgent it is, and\n"
        f"`route TEAM URGENCY`. Teams: {', '.join(TEAMS)}. Urgency: {', '.join(URGENCY)}.\n"
        'Answer as "Thought: <why>", then a line "Action: <one action>".'
    )
    brief = "Route the ticket."
    max_turns = 4

    def tasks(self, split):
        """Every symptom, urgency and office; each ticket is in one split."""
        tickets = [f"{s}, {u}, {o}" for s in TEAM_OF for u in URGENCY for o in OFFICES]
        chosen = share(tickets, split, self.name)
        return [Task(f"tickets: {ticket}", split, tuple(ticket.split(", "))) for ticket in chosen]

    def _begin(self, task):
        self.symptom, self.urgency, office = task.payload
        self.asked = False
        return f"Ticket from {office}: {self.symptom}."

    def _act(self, action):
        if action == "ask":
            self.asked = True
            return Observation(f"Customer: {URGENCY[self.urgency]}")
        if action not in self.legal():
            return Observation("Unknown action.")
        right = action == f"route {TEAM_OF[self.symptom]} {self.urgency}"
        return Observation("Solved." if right else "Sent back.", float(right), done=True)

    def legal(self):
        """Asking, and every way to route."""
        return ["ask", *(f"route {team} {urgency}" for team in TEAMS for urgency in URGENCY)]

    def expert(self):
        """Ask first, then route."""
        if not self.asked:
            return Move("I do not know how urgent it is.", "ask")
        team = TEAM_OF[self.symptom]
        return Move(f"This is a matter for {team}.", f"route {team} {self.urgency}")
