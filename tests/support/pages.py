"""Pages of the documentation, as tests read them."""

import re


def blocks(page: str, language: str) -> list[str]:
    """Contents of a page's blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)
