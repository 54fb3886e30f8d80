"""What commands print of a federation and of a silo."""
