"""The index holds what the watches showed, slim, and never an older state over a newer one."""

from typing import Any

from hansa.api import constants
from hansa_operator.index import Index, Key, find_owner_key

KEY = Key("silos", "fed")


def thing(name: str = "fed", version: int = 1, uid: str = "u1", **fields: Any) -> dict[str, Any]:
    metadata = {"namespace": "silos", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": {**metadata, **fields.pop("metadata", {})}, **fields}


def child(name: str, version: int = 1, uid: str = "j1", **fields: Any) -> dict[str, Any]:
    labels = {constants.LABEL_FEDERATION: "fed"}
    return thing(name, version, uid, metadata={"labels": labels}, **fields)


def test_a_federation_is_found_with_its_jobs_and_pods() -> None:
    index = Index()
    index.see_owner(constants.KIND, thing())
    index.see("jobs", child("job"))
    index.see("pods", child("pod", uid="p1"))
    family = index.get(KEY)
    assert family.owner is not None
    assert (list(family.jobs), list(family.pods)) == (["job"], ["pod"])
    assert index.list_owners() == [KEY]


def test_an_older_state_that_comes_late_changes_nothing() -> None:
    index = Index()
    index.see_owner(constants.KIND, thing(version=10, status={"round": 2}))
    index.see_owner(constants.KIND, thing(version=9, status={"round": 1}))
    assert (index.get(KEY).owner or {})["status"] == {"round": 2}


def test_a_new_object_of_the_same_name_replaces_the_old_one_whatever_its_version() -> None:
    index = Index()
    index.see_owner(constants.KIND, thing(version=10, uid="old"))
    index.see_owner(constants.KIND, thing(version=3, uid="new"))
    assert (index.get(KEY).owner or {})["metadata"]["uid"] == "new"


def test_the_end_of_an_old_object_does_not_remove_the_new_one_of_its_name() -> None:
    index = Index()
    index.see_owner(constants.KIND, thing(uid="new"))
    index.forget_owner(constants.KIND, thing(uid="old"))
    index.see("jobs", child("job", uid="new"))
    index.forget("jobs", child("job", uid="old"))
    family = index.get(KEY)
    assert family.owner is not None
    assert "job" in family.jobs


def test_nothing_is_kept_of_a_family_that_is_gone() -> None:
    index = Index()
    index.see_owner(constants.KIND, thing())
    index.see("jobs", child("job"))
    index.forget_owner(constants.KIND, thing())
    index.forget("jobs", child("job"))
    assert index._families == {}


def test_what_a_live_list_does_not_show_is_gone() -> None:
    index = Index()
    index.see("jobs", child("ghost"))
    index.replace(KEY, "jobs", [child("job", uid="j2")])
    assert list(index.get(KEY).jobs) == ["job"]


def test_the_longest_parts_of_objects_are_not_kept() -> None:
    index = Index()
    index.see("jobs", child("job", spec={"suspend": True, "template": {"spec": "long"}}))
    index.see("pods", child("pod", spec={"nodeName": "n", "volumes": [{"name": "long"}]}))
    index.see_owner(constants.KIND, thing(metadata={"managedFields": ["long"], "generation": 3}))
    family = index.get(KEY)
    assert "long" not in str(family)
    assert family.jobs["job"]["spec"] == {"suspend": True}
    assert (family.owner or {})["metadata"]["generation"] == 3


def test_a_job_without_the_label_is_nobodys() -> None:
    assert find_owner_key(thing("job")) is None
    assert Index().see("jobs", thing("job")) is None


def test_a_reader_keeps_its_copy_while_the_watch_goes_on() -> None:
    index = Index()
    index.see("jobs", child("job"))
    family = index.get(KEY)
    index.forget("jobs", child("job"))
    assert "job" in family.jobs
