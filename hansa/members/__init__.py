"""Letters between clusters: couriers, mailboxes, orders and what a silo allows."""
