"""The data of the contract: spec, status, assignments, reports, letters and names. No I/O."""
