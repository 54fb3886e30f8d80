"""A comparison's verdict: which methods its intervals show to be better or worse, in sentences."""

from collections.abc import Sequence

from hansa.compare.table import EVERYWHERE, ComparisonTable, TableLine
from hansa.report.markup import choose_direction, join_names, pluralize, points


def write_sentences(shown: ComparisonTable) -> list[str]:
    """The verdict on the macro average; it also says what it leaves open."""
    if not shown.lines:
        return ["No run is over yet: nothing is compared so far."]
    return [*_write_comparison(shown), *_limits(shown)]


def _write_comparison(shown: ComparisonTable) -> list[str]:
    compared = [line for line in shown.lines if line.against is not None]
    if not compared:
        names = join_names([line.name for line in shown.lines if line.method == line.name])
        return (
            [f"Only {names} is here: nothing is compared."]
            if len(shown.lines) == 1
            else ["No reference is among these methods: nothing is compared."]
        )
    better, worse, level = (
        [line for line in compared if line.against and choose_direction(line.against) == way]
        for way in ("up", "down", "even")
    )
    reference = shown.reference
    if not better and not worse:
        return [
            f"No method is shown to be better or worse than {reference}: "
            "every interval of a difference includes zero."
        ]
    lines = [
        f"Better than {reference}: {_list_changes(better)}."
        if better
        else f"No method is shown to be better than {reference}."
    ]
    lines += [f"Worse: {_list_changes(worse)}."] if worse else []
    names = join_names([_format_name(line) for line in level])
    return [*lines, f"No difference is shown for {names}."] if level else lines


def _limits(shown: ComparisonTable) -> list[str]:
    seeds = {result.seed for result in shown.results}
    said = ["All of it is of 1 seed: nothing is said about others."] if len(seeds) == 1 else []
    if shown.missing:
        said.append(f"{count_missing(shown)}: this is what is known so far.")
    return said if len(shown.lines) > 1 or shown.missing else []


def count_missing(shown: ComparisonTable) -> str:
    """How many runs have no result."""
    verb = "is" if len(shown.missing) == 1 else "are"
    return f"{pluralize(len(shown.missing), 'run')} {verb} missing"


def _list_changes(lines: Sequence[TableLine]) -> str:
    return ", ".join(
        f"{_format_name(one)} ({points(one.against.value)})" for one in lines if one.against
    )


def _format_name(line: TableLine) -> str:
    """Its name as part of a list: the comma within it would pass for one of the list."""
    return line.name.replace(EVERYWHERE, " in all worlds")
