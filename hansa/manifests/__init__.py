"""Manifests as users write them: loading, CRDs, the reference, plug-ins."""
