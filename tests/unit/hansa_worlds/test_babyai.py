"""BabyAI's rules in rooms drawn by hand: what is seen, what can be done, what it earns."""

import dataclasses
import os
import subprocess
import sys

import pytest

from hansa_worlds import make
from hansa_worlds.babyai.levels import LEVELS, SOLVABLE
from hansa_worlds.babyai.world import BabyAI
from hansa_worlds.base import Task
from hansa_worlds.errors import WorldError
from tests.unit.hansa_worlds.babyai_room import draw, enter, target

HALL = """
#  #  #  #  #  #  #
#  .  rb .  ex .  #
#  .  .  .  .  .  #
#  .  .  .  .  .  gL
#  .  .  ^  .  .  #
#  #  #  rC #  #  #
"""


def with_goal(start, kind, *names, **more):
    goal = (kind, *(target(start, name) for name in names), *more.get("rest", ()))
    return dataclasses.replace(start, goal=goal, **more.get("given", {}))


class TestWhatIsSeen:
    def test_the_words_are_agentgyms(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        text = world.start(Task("x", "test", ("1", "0"))).text
        assert text == (
            "Your goal: go to the moon\n"
            "In front of you in this room, you can see several objects: "
            "There is a red ball 1 3 steps in front of you and 1 steps to your left. "
            "There is a grey box 1 3 steps in front of you and 1 steps to your right. "
            "There is a green locked door 1 1 steps in front of you and 3 steps to your right. "
            "The room has walls around you. You are facing a wall 4 steps away. "
            "You are not carrying anything.\n"
            'Available actions: ["turn left", "turn right", "move forward", "pickup red ball 1", '
            '"pickup grey box 1", "go to red ball 1", "go to grey box 1", '
            '"go to green locked door 1", "check available actions"]'
        )

    def test_the_short_words_say_the_same(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL), {"text": "short", "actions": "none"})
        assert world.start(Task("x", "test", ("1", "0"))).text == (
            "Your goal: go to the moon\n"
            "You see red ball 1 ahead 3 left 1, grey box 1 ahead 3 right 1, "
            "green locked door 1 ahead 1 right 3, wall ahead 4."
        )

    def test_what_is_behind_is_not_seen(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        assert "red closed door" not in " ".join(world.legal())
        world.step("turn right")
        world.step("turn right")
        assert [seen.name for seen in world._view.seen] == ["red closed door 1"]

    def test_sides_are_the_agents_own(self, monkeypatch):
        world = enter(monkeypatch, draw("# # # # #\n# . rb . #\n# . . . #\n# ^ . . #\n# # # # #"))
        sides = []
        for _ in range(4):
            sides.append([(seen.ahead, seen.right) for seen in world._view.seen])
            world.step("turn right")
        assert sides == [[(2, 1)], [(1, -2)], [], []]

    @pytest.mark.parametrize(("door", "is_seen"), [("rO", True), ("rC", False), ("rL", False)])
    def test_only_an_open_door_shows_what_is_behind_it(self, monkeypatch, door, is_seen):
        world = enter(monkeypatch, draw(f"# # # # # #\n# > {door} bb . #\n# # # # # #"))
        assert any("blue ball" in seen.name for seen in world._view.seen) is is_seen

    def test_the_nearest_of_a_name_is_number_one(self, monkeypatch):
        world = enter(monkeypatch, draw("# # # # # #\n# > . rb rb #\n# # # # # #"))
        assert [(seen.name, seen.ahead) for seen in world._view.seen] == [
            ("red ball 1", 2),
            ("red ball 2", 3),
        ]
        assert "go to red ball 1" in world.legal()
        assert "go to red ball 2" not in world.legal()


class TestWhatCanBeDone:
    @pytest.mark.parametrize(
        "said", ["pickup red ball 1", "Pick up red ball 1.", "pick up red ball"]
    )
    def test_both_spellings_pick_up(self, monkeypatch, said):
        world = enter(monkeypatch, draw(HALL))
        assert "You are carrying a red ball." in world.step(said).text

    def test_a_hand_holds_one_thing(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        world.step("pickup red ball 1")
        assert not any(offer.startswith("pickup") for offer in world.legal())
        assert world.step("pickup grey box 1").text.startswith("You cannot pick up anything")

    def test_going_somewhere_ends_before_it_and_is_not_offered_again(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        world.step("go to red ball 1")
        assert world._grid.front == next(c for c, t in world._grid.things.items() if t == 0)
        assert "go to red ball 1" not in world.legal()

    def test_available_actions_are_the_legal_ones(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        listed = world.step("turn left").text.rpartition("Available actions: ")[2]
        assert listed == str([*world.legal(), "check available actions"]).replace("'", '"')

    def test_checking_costs_a_turn_and_tells_the_actions(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL), {"max_turns": 1})
        seen = world.step("check available actions")
        assert seen.text.startswith("You can take the following actions: turn left, turn right")
        assert seen.done

    def test_a_door_is_opened_and_gone_through_in_one_turn(self, monkeypatch):
        world = enter(monkeypatch, draw(HALL))
        world.step("turn left")
        world.step("turn left")
        world.step("toggle and go through red closed door 1")
        assert world._grid.things[world._grid.at] in world._grid.doors

    def test_a_lock_wants_a_key_of_its_color(self, monkeypatch):
        room = "# # # # # #\n# gk rk . . #\n# . > . . gL\n# # # # # #"
        world = enter(monkeypatch, draw(room))
        through = "toggle and go through green locked door 1"
        assert world.step(through).text.startswith("You cannot open a locked door without a key")
        world.step("turn left")
        world.step("pickup red key 1")
        world.step("turn right")
        assert through not in world.legal()
        world.step("drop")
        assert "toggle" not in world.legal()

    def test_the_right_key_opens(self, monkeypatch):
        world = enter(monkeypatch, draw("# # # #\n# gk . #\n# > . gL\n# # # #"))
        world.step("turn left")
        world.step("pickup green key 1")
        world.step("turn right")
        world.step("toggle and go through green locked door 1")
        assert world._grid.doors == {1: "open"}

    def test_a_box_is_opened_for_what_is_in_it(self, monkeypatch):
        start = draw("# # # # #\n# > rx . gk\n# # # # #", inside={0: 1})
        start = dataclasses.replace(start, things={c: t for c, t in start.things.items() if not t})
        world = enter(monkeypatch, start)
        assert "green key 1 right in front of you 1 steps away" in world.step("toggle").text

    def test_an_open_door_can_be_closed(self, monkeypatch):
        world = enter(monkeypatch, draw("# # # # #\n# > rO . #\n# # # # #"))
        assert "red closed door 1" in world.step("toggle").text


class TestWhatItEarns:
    def test_the_reward_counts_steps_not_turns(self, monkeypatch):
        start = with_goal(draw(HALL), "go to", "red ball")
        seen = enter(monkeypatch, start).step("go to red ball 1")
        assert seen.done
        assert seen.reward == 1 - 0.9 * 4 / 100  # forward, forward, forward, left: four steps
        assert seen.text.endswith("The task is completed.")

    def test_a_mission_ends_in_the_middle_of_a_walk(self, monkeypatch):
        start = draw("# # # # # #\n# > . . . #\n# rb . . bb #\n# # # # # #")
        start = with_goal(start, "go to", "red ball")
        world = enter(monkeypatch, start)
        assert world.step("turn right").done
        assert world.success

    def test_without_steps_left_it_is_over(self, monkeypatch):
        start = with_goal(draw(HALL), "go to", "red ball", given={"most": 3})
        world = enter(monkeypatch, start)
        seen = world.step("go to red ball 1")
        assert (seen.done, seen.reward, world.success) == (True, 0.0, False)
        assert seen.text.endswith("The task has failed.")

    def test_a_strict_mission_fails_with_the_wrong_thing(self, monkeypatch):
        start = with_goal(draw(HALL), "pick up", "red ball", rest=(True,))
        world = enter(monkeypatch, start)
        assert world.step("pickup grey box 1").done
        assert not world.success

    def test_the_second_strict_door_can_be_reached(self, monkeypatch):
        start = draw("# # # # #\nrC . > . bC\n# # # # #")
        doors = [("open", target(start, f"{color} door"), True) for color in ("red", "blue")]
        world = enter(monkeypatch, dataclasses.replace(start, goal=("then", *doors)))
        for action in ("turn left", "turn left", "go to red closed door 1", "toggle"):
            assert not world.step(action).done
        for action in ("turn left", "turn left", "toggle and go through blue closed door 1"):
            seen = world.step(action)
        assert seen.reward > 0

    def test_put_next_does_not_count_corners(self, monkeypatch):
        start = draw("# # # # # #\n# . . . bx #\n# rb > . . #\n# # # # # #")
        world = enter(monkeypatch, with_goal(start, "put", "red ball", "blue box"))
        world.step("turn left")
        world.step("turn left")
        world.step("pickup red ball 1")
        world.step("turn right")
        world.step("turn right")
        assert not world.step("drop").done
        world.step("pickup red ball 1")
        world.step("move forward")
        assert world.step("drop").reward > 0


class TestTasks:
    def test_a_test_task_is_agentgyms_of_the_same_number(self):
        tasks = BabyAI({}).tasks("test")
        for index in (0, 39, 40, 137):
            assert tasks[index].payload == (str(index % 40 + 1), str(index // 40))

    def test_levels_can_be_chosen(self):
        world = BabyAI({"levels": [7, 3]})
        assert [task.payload[0] for task in world.tasks("train")[:4]] == ["7", "3", "7", "3"]
        assert world.group(world.tasks("train")[0]) == "level 07 GoToImpUnlock"

    def test_solvable_is_told_by_level(self):
        world = BabyAI({})
        assert set(SOLVABLE) <= set(LEVELS)
        names = {int(task.payload[0]) for task in world.tasks("test")[:40] if world.solvable(task)}
        assert names == set(SOLVABLE)


class TestPackage:
    def test_without_minigrid_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "minigrid.envs.babyai", None)
        with pytest.raises(WorldError, match=r"pip install 'hansa\[client\]'"):
            make("babyai")

    def test_it_is_quiet_and_imports_minigrid_only_when_made(self):
        program = (
            "import sys, hansa_worlds.babyai.world as babyai\n"
            "assert 'minigrid' not in sys.modules\n"
            "world = babyai.BabyAI({'levels': [8, 11]})\n"
            "for task in world.tasks('test')[:20]: world.start(task)\n"
        )
        kept = {key: value for key, value in os.environ.items() if "PYGAME" not in key}
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=kept
        )
        assert ended.stdout == ""
