"""The S3 library is imported without its manuals, which are there for whoever asks later."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "preload(); import botocore.docs.service as d, sys; assert d.ServiceDocumenter",
            id="the manuals can be imported later",
        ),
        pytest.param(
            "import botocore.docs.docstring as d; preload(); assert sys.modules[d.__name__] is d",
            id="manuals that were imported before stay",
        ),
        pytest.param(
            "preload(); import botocore.session as s; "
            "c = s.Session().create_client('s3', region_name='eu-west-1'); "
            "assert c.put_object.__doc__ == '' and c.get_paginator('list_objects_v2') "
            "and c.get_waiter('bucket_exists')",
            id="clients of it work, without help texts",
        ),
    ],
)
def test_the_library_works_as_before(code: str) -> None:
    program = f"import sys\nfrom hansa.store.s3 import preload\n{code}"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
