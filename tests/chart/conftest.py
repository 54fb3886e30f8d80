"""Renderings that several tests look at."""

import pytest

from tests.chart.charts import EVERYTHING, Objects, render


@pytest.fixture(scope="session")
def plain() -> Objects:
    """What is made without any values."""
    return render()


@pytest.fixture(scope="session")
def full() -> Objects:
    """What is made with every option on."""
    return render(**EVERYTHING)
