"""Reports of all programs as bytes, within what Kubernetes takes as a termination message."""

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from hansa.api.assignment import REPORT_LIMIT, AggregatorReport, ClientReport, EvaluateReport
from hansa.api.courier_assignment import CourierReport
from hansa.api.silo_assignment import SiloReport

AnyReport = ClientReport | EvaluateReport | AggregatorReport | CourierReport | SiloReport
_REPORT: TypeAdapter[AnyReport] = TypeAdapter(Annotated[AnyReport, Field(discriminator="kind")])


def encode_report(report: AnyReport) -> bytes:
    """The report's bytes, within the limit that Kubernetes sets for a termination message."""
    data = report.model_dump_json(by_alias=True, exclude_none=True).encode()
    if len(data) > REPORT_LIMIT:
        raise ValueError(f"report has {len(data)} bytes, expected at most {REPORT_LIMIT}")
    return data


def decode_report(data: bytes) -> AnyReport | None:
    """The report, or nothing when it is lost or garbled: running the Job again brings it back."""
    if len(data) > REPORT_LIMIT:
        return None
    try:
        return _REPORT.validate_json(data)
    except ValidationError:
        return None
