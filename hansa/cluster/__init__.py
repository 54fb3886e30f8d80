"""Kubernetes as Hansa speaks to it: plain JSON over HTTPS, shared by the operator and the CLI."""
