"""What the agentgym world makes of its options, and of a server that behaves."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hansa_worlds import NoPlayer, OptionError, make
from hansa_worlds.agentgym.dialects import DIALECTS
from hansa_worlds.base import SPLITS
from tests.support.agentgym_games import Game
from tests.support.agentgym_server import serving


def world_at(server, **options):
    environment = options.pop("environment", server.environment)
    settings = {"start_timeout_seconds": 5, "timeout_seconds": 5, "prompt": "none", **options}
    return make("agentgym", {"url": server.url, "environment": environment, **settings})


def begun(server, **options):
    """A world on the server, in its first episode."""
    world = world_at(server, **options)
    world.start(world.tasks("train")[0])
    return world


def test_two_mistakes_are_said_at_once():
    with pytest.raises(OptionError) as refused:
        make("agentgym", {"tasks": [9, 3], "retries": 99, "seesions": 3})
    assert "options.tasks: got [9, 3]" in str(refused.value)
    assert "; options.retries: got 99, expected 0 to 10; " in str(refused.value)
    assert "; options.seesions: unknown" in str(refused.value)


@pytest.mark.parametrize(
    ("server", "dialect", "came"),
    [
        ("textcraft", "babyai", "/create brings 'observation', expected textcraft"),
        ("textcraft", "sciworld", "/create brings 'observation', expected textcraft"),
        ("babyai", "textcraft", "/reset brings 'deleted', expected babyai"),
        ("babyai", "sciworld", "/reset brings 'deleted', expected babyai"),
        ("sciworld", "textcraft", "/reset brings 'task_description', expected sciworld"),
        ("sciworld", "babyai", "/reset brings 'task_description', expected sciworld"),
        ("alfworld", "textcraft", "/reset brings HTTP 422, expected"),
        ("webshop", "textcraft", "/reset brings HTTP 422, expected"),
        ("webarena", "textcraft", "/create brings 'env_idx', expected webarena"),
        ("generic", "webshop", "/create brings 'id', expected alfworld or babyai or generic"),
        ("weather", "textcraft", "/create brings HTTP 422, expected"),
    ],
)
def test_the_dialect_of_another_server_is_noticed(server, dialect, came):
    with serving(server) as running:
        world = world_at(running, environment=dialect)
        with pytest.raises(OptionError) as refused:
            world.start(world.tasks("test")[0])
    sentence = f"options.environment: got '{dialect}', but {running.url}{came}"
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("environment", sorted(DIALECTS))
def test_tasks_are_known_without_a_server_and_named_as_in_agentgym(environment):
    world = make("agentgym", {"environment": environment, "url": "http://nobody.invalid"})
    numbers = {split: {task.payload[0] for task in world.tasks(split)} for split in SPLITS}
    assert all(numbers.values())
    assert len(set.union(*numbers.values())) == sum(map(len, numbers.values()))
    first = world.tasks("test")[0]
    assert first.id == f"{environment}_{first.payload[0]}"
    assert world.max_turns == DIALECTS[environment].max_turns
    assert world.waits


def test_ranges_of_tasks_can_be_given():
    options = {"train": [10, 20], "validation": [0, 5], "test": [5, 10]}
    world = make("agentgym", {"environment": "babyai", **options})
    assert [task.payload[0] for task in world.tasks("test")] == ["5", "6", "7", "8", "9"]
    assert len(world.tasks("train")) == 10


def test_shared_tasks_leave_no_kind_out_of_a_split():
    """TextCraft sorts its goals by depth: a range of them would be all shallow or all deep."""
    world = make("agentgym", {"environment": "textcraft"})
    for split in SPLITS:
        numbers = [int(task.payload[0]) for task in world.tasks(split)]
        assert min(numbers) < 50
        assert max(numbers) > 490


def test_a_prefix_in_the_address_is_not_doubled():
    with serving("maze") as server:
        url = f"{server.url}/maze/"
        world = make("agentgym", {"url": url, "environment": "maze", "start_timeout_seconds": 5})
        assert "goal" in world.start(world.tasks("test")[0]).text
        assert "/maze/create" in server.paths()


def test_wordle_tells_the_words_before_the_first_guess():
    with serving("wordle") as server:
        world = world_at(server)
        text = world.start(world.tasks("train")[0]).text
        assert text.startswith("Words: ")
        assert all(word in text for word in world.legal())


def test_babyai_succeeds_below_a_reward_of_one():
    with serving("babyai") as server:
        world = world_at(server)
        for task in world.tasks("train")[:12]:
            seen = world.start(task)
            behind = server.games[0].sessions[world._holder.session.id]
            while not seen.done and not behind._done:
                seen = world.step(behind.expert().action)
            if world.success:
                assert 0 < seen.reward < 1
                return
        pytest.fail("the expert solved none")


@pytest.mark.parametrize("options", [{}, {"success": 0.5}], ids=["as it is", "set lower"])
def test_a_reward_in_the_middle_is_no_success_of_webshop_unless_it_is_set_lower(options):
    with serving("webshop") as server:
        world = begun(server, **options)
        server.fail("/step", 'raw {"state": "Bought.", "reward": 0.75, "done": true, "info": null}')
        seen = world.step("click[Buy Now]")
        assert (seen.reward, seen.done, world.success) == (0.75, True, bool(options))


def test_a_score_is_a_share_of_the_full_one():
    with serving("sciworld") as server:
        world = world_at(server)
        text = world.start(world.tasks("train")[0]).text
        assert text.startswith("Find the goal.\n")
        server.fail("/step", 'raw {"observation": "", "reward": 3, "score": 25, "done": false}')
        assert world.step("look around").reward == 0.25


def test_an_action_is_sent_as_the_server_wants_it():
    with serving("textcraft") as server:
        world = begun(server)
        world.step("Thought: I need it.\n\nAction: get 1 (oak) log!\x00\ud800\nmore")
        assert server.requests[-1][2]["action"] == "get 1 oak log"
    with serving("weather") as server:
        world = begun(server)
        world.step("Action: get_weather with Action Input: {}")
        assert server.requests[-1][2]["action"] == "Action: get_weather with Action Input: {}"


def test_a_session_serves_one_episode_after_another_until_it_is_closed():
    with serving("textcraft") as server:
        world = world_at(server)
        for task in world.tasks("train")[:5]:
            world.start(task)
        assert server.games[0].opened == 1
        world.close()
        assert server.paths()[-1] == "/close"
        assert server.games[0].sessions == {}
        assert world.start(world.tasks("train")[0]).text


def test_a_session_that_cannot_be_closed_serves_the_next_world():
    with serving("maze") as server:
        for _ in range(3):
            world = begun(server)
            world.close()
        assert server.games[0].opened == 1
        assert "/maze/close" not in server.paths()


def test_sessions_that_nobody_closed_are_closed_at_the_end():
    with serving("textcraft") as server:
        worlds = [begun(server) for _ in range(3)]
        worlds[0]._server.close()
        assert server.games[0].sessions == {}


def test_a_world_that_is_gone_gives_its_session_back():
    with serving("textcraft") as server:
        for _ in range(5):
            world = begun(server)
            del world
        assert server.games[0].opened == 1


def test_many_episodes_at_once_have_a_session_each_over_few_connections():
    with serving("maze") as server:
        worlds = [world_at(server) for _ in range(24)]
        barrier = threading.Barrier(8)

        def play(world):
            seen = world.start(world.tasks("train")[0])
            while not seen.done:
                seen = world.step("move up")
            return world._holder.session.id

        with ThreadPoolExecutor(8, initializer=barrier.wait) as pool:
            assert len(set(pool.map(play, worlds))) == 24
        assert server.connections <= 8


def test_more_episodes_than_sessions_may_be_open_are_refused_with_the_option():
    with serving("generic") as server:
        _worlds = [begun(server, sessions=2) for _ in range(2)]
        with pytest.raises(OptionError, match=r"options\.sessions: got 2"):
            begun(server, sessions=2)


def test_a_server_that_gives_a_session_away_twice_is_found_out():
    """SQLGym keeps eight and then repeats them: two episodes would play in one another's."""
    with serving("sqlgym") as server:
        _worlds = [begun(server) for _ in range(8)]
        with pytest.raises(OptionError, match="keeps no more than 8 sessions"):
            begun(server)


def test_what_a_server_cannot_do_is_no_player():
    with serving("generic") as server:
        world = begun(server)
        for ask in (world.legal, world.expert):
            with pytest.raises(NoPlayer):
                ask()


def test_the_lists_of_the_server_are_the_legal_actions():
    with serving("babyai") as server:
        world = begun(server)
        assert "turn left" in world.legal()
        assert "check available actions" not in world.legal()
        before = world.legal()
        server.fail("/step", 'raw {"observation": "?", "reward": 0, "score": 0, "done": false}')
        world.step("nonsense")
        assert world.legal() == before


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving("generic") as server:
        world = world_at(server)
        assert world.start(world.tasks("train")[0]).text


def test_the_test_servers_forget_nothing_by_themselves():
    game = Game()
    number = game.post_create({})["id"]
    assert "observation" in game.post_reset({"id": number, "data_idx": 3})
