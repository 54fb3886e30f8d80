"""What worlds on somebody else's server share: requests that may fail, patience, foreign text."""
