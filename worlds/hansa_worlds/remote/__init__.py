"""What worlds on a server share: its sessions, requests that may fail, untrusted text."""
