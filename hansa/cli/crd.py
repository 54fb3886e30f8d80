"""`hansa crd`: the CustomResourceDefinition that teaches a cluster what a Federation is."""

from hansa.cli.common import Format, Output, print_data


def crd(output: Output = Format.YAML) -> None:
    """Print the CustomResourceDefinition: `hansa crd | kubectl apply -f -`."""
    from hansa.crd import crd as definition

    print_data(definition(), Format.YAML if output is Format.TABLE else output)
