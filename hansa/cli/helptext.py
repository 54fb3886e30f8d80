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

MANIFEST = ("-f", "--filename")
"""As kubectl names it."""
_BETWEEN = re.compile(r"([\d.]+)<=x<=([\d.]+)")
_FROM = re.compile(r"x>=([\d.]+)")
_REQUIRED = re.compile(r"\{([^{}]+)\}")


class PlainCommand(TyperCommand):
    """A command whose help a newcomer can read; one that reads a manifest takes it by -f, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`-f FILE` is the first argument, wherever it stands."""
        return super().parse_args(ctx, _put_manifest_first(args) if self._reads_manifest else args)

    @property
    def _reads_manifest(self) -> bool:
        is_free = not any(MANIFEST[0] in each.opts for each in self.params)
        return is_free and any(each.name == "file" for each in self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The first line: FILE must be given, [FILE] may."""
        return [_REQUIRED.sub(r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The lists of arguments and options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [each for each in self.get_params(ctx) if each.param_type_name == kind]
            records = [record for each in params if (record := each.get_help_record(ctx))]
            if kind == "option" and self._reads_manifest:
                records.insert(0, (f"{', '.join(MANIFEST)} FILE", "The same as the argument FILE."))
            if records:
                with formatter.section(title):
                    formatter.write_dl([_simplify(*record, kind) for record in records])


def _put_manifest_first(args: list[str]) -> list[str]:
    for i, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in MANIFEST:
            given = [value] if equals else args[i + 1 : i + 2]
            return [*given, *args[:i], *args[i + 2 - bool(equals) :]]
    return args


def _simplify(name: str, words: str, kind: str) -> tuple[str, str]:
    for theirs, ours in TYPES.items():
        name = name.replace(theirs, ours if kind == "option" else "")
    words = _FROM.sub(r"at least \1", _BETWEEN.sub(r"\1 to \2", words))
    return name.strip(), words
