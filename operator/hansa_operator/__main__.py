"""`hansa-operator`: waits for the Lease, watches federations and brings them forward."""

import os
import sys
from dataclasses import fields

from hansa.core.errors import HansaError
from hansa.core.exits import Exit
from hansa_operator import podtemplate
from hansa_operator.settings import KINDS, Settings, name_flag, name_variable, parse_settings


def main() -> None:
    """Run the operator until it is stopped; bad settings end it with one sentence."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(usage())
        return
    try:
        settings = parse_settings(os.environ, sys.argv[1:])
        refused = podtemplate.check_templates(settings)
        if refused:
            raise HansaError("; ".join(refusal.sentence for refusal in refused))
        from hansa_operator.operate import operate  # imports kopf, which is slow

        code = operate(settings)
    except HansaError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"\nhint: {error.hint}", file=sys.stderr)
        code = int(Exit.BAD_INPUT)
    sys.exit(code)


def usage() -> str:
    """All settings with their meaning, as the program's help."""
    lines = ["usage: hansa-operator [--SETTING VALUE]...", "", __doc__ or "", ""]
    defaults = Settings()
    for each in fields(Settings):
        shown = getattr(defaults, each.name)
        given = f" (default: {shown})" if shown not in ("", (), {}) else ""
        lines.append(f"  {name_flag(each.name)}, {name_variable(each.name)}{given}")
        lines.append(f"      {KINDS[each.name].fits}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
