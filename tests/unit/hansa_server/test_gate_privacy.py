"""The gate under spec.privacy: an update must say that it was trained as the settings ask."""

from typing import Any

import pytest

from hansa.api.bucket_documents import UpdateManifest
from hansa.api.privacy import PrivacyStatement
from hansa.api.spec import Privacy, Training
from hansa.api.status import RoundSettings
from hansa_server import gate
from tests.unit.hansa_server.rounds import Round

PRIVACY = Privacy(epsilon=8.0, delta=1e-5, noise_multiplier=1.0)
SAID: dict[str, Any] = {
    "unit": "task",
    "epsilon": 7.5,
    "delta": 1e-5,
    "noiseMultiplier": 1.0,
    "clipNorm": 0.5,
    "samplingRate": 0.1,
    "steps": 40,
    "rounds": 3,
}


def check(said: dict[str, Any] | None, *, privacy: Privacy | None = PRIVACY) -> None:
    settings = RoundSettings(training=Training(max_steps=40), privacy=privacy)
    document = UpdateManifest.model_construct(
        privacy=PrivacyStatement.model_validate(said) if said else None
    )
    gate.check_privacy(document, Round().assignment(settings=settings))


def test_an_update_that_says_what_was_asked_passes_and_without_privacy_none_need_say() -> None:
    check(SAID)
    check(None, privacy=None)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(None, id="nothing said"),
        pytest.param({**SAID, "noiseMultiplier": 0.5}, id="less noise"),
        pytest.param({**SAID, "clipNorm": 5.0}, id="another clip"),
        pytest.param({**SAID, "samplingRate": 1.0}, id="another rate"),
        pytest.param({**SAID, "steps": 41}, id="more steps"),
        pytest.param({**SAID, "unit": "trajectory"}, id="another unit"),
        pytest.param({**SAID, "delta": 1e-3}, id="a larger delta"),
        pytest.param({**SAID, "epsilon": 8.1}, id="more given away"),
    ],
)
def test_any_other_is_refused(said: dict[str, Any] | None) -> None:
    with pytest.raises(gate.UpdateRefused, match="privacy") as refused:
        check(said)
    assert refused.value.reason == "privacy"
