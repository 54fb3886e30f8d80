"""The report: status and manifests as one self-contained HTML page."""
