"""What clients remember of coordinators, to notice rollbacks and forks."""
