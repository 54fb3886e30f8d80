"""Help in plain words: types and bounds as people write them, not as a library names them."""

import re
from typing import Any

from typer.core import TyperCommand

TYPES = {
    "<int>": "N",
    "<int range>": "N",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<path>": "PATH",
    "<list[Path]>": "PATH",
}
"""What stands for a value; choices are listed themselves."""

_BETWEEN = re.compile(r"([\d.]+)<=x<=([\d.]+)")
_FROM = re.compile(r"x>=([\d.]+)")
_REQUIRED = re.compile(r"\{([^{}]+)\}")


class PlainCommand(TyperCommand):
    """A command whose help a newcomer can read."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The first line: FILE must be given, [FILE] may."""
        return [_REQUIRED.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The lists of arguments and options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            records = [record for each in params if (record := each.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl([_simplify(*record, kind) for record in records])


def _simplify(name: str, words: str, kind: str) -> tuple[str, str]:
    for theirs, ours in TYPES.items():
        name = name.replace(theirs, ours if kind == "option" else "")
    words = _FROM.sub(r"at least \1", _BETWEEN.sub(r"\1 to \2", words))
    return name.strip(), words
