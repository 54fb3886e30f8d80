"""Where adapters go: what is a place and what is none."""

import pytest

from hansa.core.errors import InputError
from hansa.publish.place import HubPlace, RegistryPlace, parse

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "text, place",
    [
        ("hf:acme/agent", HubPlace("acme/agent")),
        ("hf:acme/agent@v1.0", HubPlace("acme/agent", "v1.0")),
        ("oci://ghcr.io/acme/agent:v1", RegistryPlace("ghcr.io", "acme/agent", "v1")),
        ("oci://localhost:5000/agent", RegistryPlace("localhost:5000", "agent", "latest")),
        (f"oci://h/a@{DIGEST}", RegistryPlace("h", "a", DIGEST)),
    ],
)
def test_a_place_is_read_and_written_again(text, place):
    assert parse("--to", text) == place
    assert parse("--to", str(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent",
        "hf:agent",
        "hf:acme/a/b",
        "hf:acme/agent@",
        "hf:acme/../etc",
        "hf:acme/agent?x=1",
        "hf:acme/agent\n",
        "oci://host",
        "oci://host/Upper:v1",
        "oci://host/a:v1/b",
        "oci://user:password@host/a:v1",
        "oci://host/a@sha256:abc",
        "oci://host/../a:v1",
        "https://host/a:v1",
    ],
)
def test_anything_else_is_refused_with_what_fits(text):
    with pytest.raises(InputError, match=r"--to: got .*, expected"):
        parse("--to", text)


@pytest.mark.parametrize(
    "host, scheme",
    [
        ("localhost:5000", "http"),
        ("127.0.0.1:5000", "http"),
        ("[::1]:5000", "http"),
        ("127.0.0.1.example.com", "https"),
        ("localhost.example.com", "https"),
        ("10.0.0.1:5000", "https"),
    ],
)
def test_only_this_machine_is_spoken_to_in_the_clear(host, scheme):
    assert parse("--to", f"oci://{host}/a:v1").url == f"{scheme}://{host}/v2/a"
