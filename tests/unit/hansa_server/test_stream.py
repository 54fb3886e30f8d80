"""How many requests the aggregator has at a time."""

import pytest

from hansa.api.spec import S3
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store
from hansa_server.stream import choose_parallelism


@pytest.mark.parametrize(
    "cores, expected",
    [
        pytest.param(1, 2, id="one core: one comes while the other is looked at"),
        pytest.param(2, 4, id="two a core"),
        pytest.param(4, 8, id="the most"),
        pytest.param(96, 8, id="no more on more cores"),
    ],
)
def test_parallel(cores: int, expected: int) -> None:
    assert choose_parallelism(cores) == expected


def test_the_store_keeps_a_connection_for_each_of_them() -> None:
    nobody = Credentials(access_key="nobody", secret_key="nobody")
    client = S3Store(S3(bucket="nowhere"), credentials=nobody)._client()
    assert client.meta.config.max_pool_connections >= choose_parallelism(1000)
